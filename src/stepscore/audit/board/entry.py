"""Entries of a board: judges with their options, combined with models."""

from __future__ import annotations

import inspect
import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from stepscore._untrusted import read_yaml, shown
from stepscore.errors import ManifestError, OptionError, first_field_error
from stepscore.judges import judge_registry

MAX_BYTES = 1 << 20
MAX_ENTRIES = 1000
_OPTION = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*=")


@dataclass(frozen=True)
class Entry:
    """A judge with its model, to be measured; the default ``label`` is made from the other fields."""

    judge: str
    model: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    model_options: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""

    def __post_init__(self) -> None:
        if not self.label:
            asks = "" if self.model is None else f"@{named(self.model, self.model_options)}"
            object.__setattr__(self, "label", f"{named(self.judge, self.options)}{asks}")

    def words(self) -> list[str]:
        """Return the options of ``stepscore bench`` that name it; :func:`split_entry` parses them."""
        words = ["--judges", named(self.judge, self.options)]
        return words if self.model is None else [*words, "--models", named(self.model, self.model_options)]

    def command(self, source: str, rest: Sequence[str] = ()) -> str:
        """Return the command that measures it on a dataset."""
        return shlex.join(["stepscore", "bench", source, *rest, *self.words(), "-o", "BOARD"])


def named(name: str, options: Mapping[str, Any]) -> str:
    """Return a name with its options: ``topreward:form=chat``."""
    return ":".join([name, *(f"{key}={_text(value)}" for key, value in options.items())])


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def split_entry(text: str) -> tuple[str, list[str]]:
    """Return the name and the options of ``NAME:KEY=VALUE:KEY=VALUE``.

    Other colons belong to the name or value before them: ``mine.py:Judge``, ``vllm/name:7b``.
    """
    name, *parts = text.strip().split(":")
    options: list[str] = []
    for part in parts:
        if _OPTION.match(part):
            options.append(part)
        elif options:
            options[-1] += f":{part}"
        else:
            name += f":{part}"
    return name, options


def takes_model(judge: str) -> bool:
    """Return whether a judge needs a model.

    Raises:
        UnknownNameError: The judge is unknown; the message suggests the closest name.
    """
    factory: Callable[..., object] = judge_registry.get(judge)
    return "model" in inspect.signature(factory).parameters


def combined(judges: Sequence[Entry], models: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Entry]:
    """Return every judge with every model; judges without a model appear once.

    Raises:
        OptionError: A judge needs a model and none is given.
    """
    entries: list[Entry] = []
    for judge in judges:
        if not takes_model(judge.judge):
            entries.append(judge)
            continue
        if not models:
            raise OptionError(
                f"Judge {judge.judge!r} needs a model: --models embedded, or see `stepscore ls models`."
            )
        entries += [Entry(judge.judge, model, judge.options, options) for model, options in models]
    return entries


Name = Annotated[str, Field(min_length=1, max_length=500)]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)
    judge: Name
    model: Name | None = None
    options: dict[Name, Any] = {}
    model_options: dict[Name, Any] = {}
    label: Annotated[str, Field(max_length=200)] = ""


_ENTRIES = TypeAdapter(Annotated[list[_Entry], Field(max_length=MAX_ENTRIES)])


def read_entries(path: Path) -> list[Entry]:
    """Read entries from a YAML list of judge, model, options, model_options and label.

    Raises:
        ManifestError: The file is invalid; the message names the field.
    """
    try:
        read = _ENTRIES.validate_python(read_yaml(path, ManifestError, max_bytes=MAX_BYTES))
    except ValidationError as error:
        name, why = first_field_error(error)[:2]
        raise ManifestError(
            f"{shown(path)}: {shown(name or 'entries')}: {shown(why)}. Expected a list of judge, model, options, "
            "model_options and label."
        ) from error
    return [Entry(**one.model_dump()) for one in read]
