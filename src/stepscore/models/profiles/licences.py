"""The licence of a model: what its profile states, else the card in its folder, else unknown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from stepscore._untrusted import parse_yaml, read_text
from stepscore.errors import ModelError
from stepscore.models.base import Model
from stepscore.models.profiles.catalog import UNKNOWN_LICENCE, find_checkpoint

MAX_CARD_BYTES = 1 << 20
"""Longest model card whose header is read."""

_NON_COMMERCIAL = re.compile(r"\bnc\b|non-?commercial", re.IGNORECASE)
_HEADER = re.compile(r"---\n(.*?)\n---", re.DOTALL)


class Licence(NamedTuple):
    """The name of a licence, and whether it forbids commercial use."""

    name: str = UNKNOWN_LICENCE
    non_commercial: bool = False


def model_licence(model: Model) -> Licence:
    """Return a model's licence; ``unknown`` where neither a profile nor a card states one. Fetches nothing."""
    if model.name == "embedded":
        return Licence("Apache-2.0")
    if (found := find_checkpoint(model.name)) is not None and found[1].licence != UNKNOWN_LICENCE:
        return Licence(found[1].licence, found[1].non_commercial)
    stated = _card_licence(Path(str(getattr(model, "checkpoint", ""))).expanduser())
    return Licence(stated, bool(_NON_COMMERCIAL.search(stated))) if stated else Licence()


def _card_licence(folder: Path) -> str:
    """Return the licence in the header of a folder's ``README.md``; empty where there is none."""
    try:
        header = _HEADER.match(read_text(folder / "README.md", ModelError, max_bytes=MAX_CARD_BYTES))
        stated = parse_yaml(header[1], "README.md", ModelError) if header else None
    except (ModelError, OSError, RuntimeError):
        return ""
    licence = stated.get("license") if isinstance(stated, dict) else None
    return licence[:80] if isinstance(licence, str) and licence.isprintable() else ""
