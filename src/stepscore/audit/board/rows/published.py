"""Figures that others measured on other data, to stand beside a board and never among its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ROBOVALUE = "RoboValue, results.json of 2026-10-09, in-domain"
ROBOVALUE_NOTE = (
    "measured by others on other data, times 100, without intervals; unmeasured counts as 0 in overall"
)
_COLUMNS = ("SA", "TGA-CT", "TGA-CF", "VOC", "Cycle", "Memory", "TRR", "overall")
_ROWS: Mapping[str, tuple[float, ...]] = {
    "Robometer-4B": (81.3, 82.0, 29.3, 86.1, 89.4, 2.4, 24.8, 60.1),
    "RynnValue-4B": (82.1, 83.7, 56.0, 73.2, 81.7, -23.9, 23.2, 57.7),
    "TOPReward": (59.0, 51.9, 21.3, 94.3, 13.5, 95.5, 12.9, 47.1),
    "ProcVLM-2B": (62.2, 20.0, 14.4, 51.1, 47.4, 9.7, 21.6, 44.8),
    "ProcVLM-2B, one-shot": (83.1, 59.3, 51.2, 91.4, 91.2, 24.0, 21.1, 57.8),
    "VLAC-8B": (41.0, 35.8, 13.6, 28.5, 26.1, 21.7, 5.2, 33.7),
    "RoboReward-8B": (31.3, 28.9, 12.8, 83.4, 43.0, 81.8, 2.6, 32.9),
    "GRM-3B, one-shot": (73.8, 7.4, 3.0, 76.3, 76.4, 16.7, 32.0, 51.0),
    "GRM-2.0-8B, one-shot": (86.4, 0.7, 1.2, 93.1, 93.7, 18.8, 38.8, 58.3),
}


@dataclass(frozen=True)
class Published:
    """A judge as others measured it.

    Attributes:
        label: Its name.
        source: Where the figures are from.
        note: How they are to be read.
        values: Figures by name.
    """

    label: str
    source: str
    note: str
    values: Mapping[str, float]

    def to_dict(self) -> dict[str, Any]:
        """Return it as ``board.json`` has it."""
        return {"label": self.label, "source": self.source, "note": self.note, "values": dict(self.values)}


PUBLISHED = tuple(
    Published(label, ROBOVALUE, ROBOVALUE_NOTE, dict(zip(_COLUMNS, values, strict=True)))
    for label, values in _ROWS.items()
)
"""RoboValue's board: SA step accuracy; TGA-CT and TGA-CF grounding under a wrong and a counterfactual instruction;
Cycle, VOC of a video played forwards, then backwards; Memory, views that recur; TRR as published."""
