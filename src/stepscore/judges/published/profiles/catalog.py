"""The profiles in the package: by name, by model, and the licences of models."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from stepscore._untrusted import parse_yaml, read_text
from stepscore.errors import ModelError, UnknownNameError, first_field_error
from stepscore.judges.published.profiles.profile import Checkpoint, Profile
from stepscore.models import Model

UNKNOWN_LICENCE = "unknown"


def parse_profile(text: str, where: str) -> Profile:
    """Return the profile of a YAML text; ModelError names the wrong field."""
    try:
        return Profile.model_validate(parse_yaml(text, where, ModelError))
    except ValidationError as error:
        wrong = first_field_error(error)
        raise ModelError(f"{where}: {wrong.field or 'the file'}: {wrong.message}.") from None


def profile_names() -> list[str]:
    """Return the names of all profiles, sorted."""
    entries = files("stepscore.judges.published").iterdir()
    return sorted(entry.name.removesuffix(".yaml") for entry in entries if entry.name.endswith(".yaml"))


@lru_cache(maxsize=64)
def load_profile(name: str) -> Profile:
    """Return a profile by its name."""
    if name not in profile_names():
        raise UnknownNameError("profile", name, profile_names(), hint="Run: stepscore ls models --published")
    file = files("stepscore.judges.published").joinpath(f"{name}.yaml")
    return parse_profile(file.read_text(encoding="utf-8"), f"profile {name}")


def published_checkpoints() -> Iterator[tuple[Profile, Checkpoint]]:
    """Yield every published checkpoint with its profile."""
    for name in profile_names():
        profile = load_profile(name)
        yield from ((profile, checkpoint) for checkpoint in profile.checkpoints)


def find_checkpoint(model: str) -> tuple[Profile, Checkpoint] | None:
    """Return the profile and checkpoint of a model string, by the last part of its name; ``None`` for others."""
    return next((pair for pair in published_checkpoints() if pair[1].is_called(model)), None)


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
