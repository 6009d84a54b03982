"""The profiles in the package: by name, by model, and the licences of models."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files

from pydantic import ValidationError

from stepscore._untrusted import parse_yaml
from stepscore.errors import ModelError, UnknownNameError, first_field_error
from stepscore.models.profiles.profile import Checkpoint, Profile

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
    entries = files("stepscore.models.profiles").joinpath("published").iterdir()
    return sorted(entry.name.removesuffix(".yaml") for entry in entries if entry.name.endswith(".yaml"))


@lru_cache(maxsize=64)
def load_profile(name: str) -> Profile:
    """Return a profile by its name."""
    if name not in profile_names():
        raise UnknownNameError("profile", name, profile_names(), hint="Run: stepscore ls models --published")
    file = files("stepscore.models.profiles").joinpath("published", f"{name}.yaml")
    return parse_profile(file.read_text(encoding="utf-8"), f"profile {name}")


def published_checkpoints() -> Iterator[tuple[Profile, Checkpoint]]:
    """Yield every published checkpoint with its profile."""
    for name in profile_names():
        profile = load_profile(name)
        yield from ((profile, checkpoint) for checkpoint in profile.checkpoints)


def find_checkpoint(model: str) -> tuple[Profile, Checkpoint] | None:
    """Return the profile and checkpoint of a model string, by the last part of its name; ``None`` for others."""
    return next((pair for pair in published_checkpoints() if pair[1].is_called(model)), None)
