"""The columns of a board, in order, and figures published by others on other data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Needs = Literal["score", "curve", "verdicts"]
"""What a judge must give for a number: a success score, progress, or verdicts on subgoals."""


@dataclass(frozen=True)
class BoardMetric:
    """A column of the board.

    Attributes:
        name: Its key in ``board.json``.
        title: Its header.
        percent: Whether tables show it in percent.
        about: What it is, in words.
    """

    name: str
    title: str
    better: Literal["higher", "lower"]
    percent: bool
    needs: Needs
    about: str

    def to_dict(self) -> dict[str, object]:
        """Return what ``board.json`` says of it."""
        return {"name": self.name, "title": self.title, "better": self.better, "percent": self.percent}


def _higher(name: str, title: str, needs: Needs, about: str, *, percent: bool = True) -> BoardMetric:
    return BoardMetric(name, title, "higher", percent, needs, about)


def _lower(name: str, title: str, needs: Needs, about: str, *, percent: bool = True) -> BoardMetric:
    return BoardMetric(name, title, "lower", percent, needs, about)


METRICS = (
    _higher("success_auc", "success AUC", "score", "how often a success scores higher than a failure"),
    _higher("success_auc_within_tasks", "AUC within tasks", "score", "the same among episodes of one task"),
    _higher(
        "success_auc_length_matched",
        "AUC length-matched",
        "curve",
        "the same of final progress, failures cut to the length of a success: a clock has 50",
    ),
    _higher("success_balanced_accuracy", "balanced accuracy", "score", "of its verdicts on success"),
    _higher("success_f1", "F1", "score", "of its verdicts on success"),
    _lower("progress_mae", "progress MAE", "curve", "distance to labelled progress"),
    _higher("progress_ccc", "progress CCC", "curve", "concordance with labelled progress", percent=False),
    _higher("progress_tau", "progress tau", "curve", "Kendall's tau with labelled progress", percent=False),
    _higher("progress_epr", "EPR", "curve", "levels that a curve uses, in bits", percent=False),
    _higher("voc", "VOC", "curve", "rank correlation with time, on labelled successes", percent=False),
    _lower("stage_error", "stage error", "curve", "stages between its stage and the label's", percent=False),
    _higher("boundary_f1", "boundary F1", "curve", "stage boundaries found within 5 % of the length"),
    _higher("subgoal_balanced_accuracy", "subgoals", "verdicts", "balanced accuracy on all subgoals"),
    _higher("subgoal_f1", "subgoals F1", "verdicts", "F1 on all subgoals"),
    _higher(
        "pairs_accuracy", "pairs", "curve", "share of right signs on pairs of timestamps, a tie one half"
    ),
    _higher("pairs_auroc", "pairs AUROC", "curve", "how often an advance is judged higher than a regression"),
    _higher("pairs_small", "pairs small", "curve", "share of right signs on changes of 0.03 to 0.1"),
    _higher("pairs_medium", "pairs medium", "curve", "share of right signs on changes of 0.1 to 0.3"),
    _higher("pairs_large", "pairs large", "curve", "share of right signs on changes from 0.3"),
    _lower("question_progress", "Q progress", "curve", "absolute error at the end of a cut video"),
    _higher("question_remaining", "Q remaining", "verdicts", "share of exact lists of remaining actions"),
    _higher("question_next", "Q next", "verdicts", "share of right next actions"),
    _higher("question_segmentation", "Q segmentation", "curve", "share of points in the right stage"),
)
"""Every number of a row, in the order of the board's columns."""

BY_NAME = {metric.name: metric for metric in METRICS}

WHY_MISSING: dict[Needs, str] = {
    "score": "it gives no success score and no progress",
    "curve": "it gives no known progress",
    "verdicts": "it gives no verdicts on subgoals",
}
"""Why a number is missing where a judge does not give what it needs."""


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
    """A judge as measured by others."""

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
