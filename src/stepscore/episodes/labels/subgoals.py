"""Subgoals: ordered conditions on the way to a task's goal, in words that a judge can check in an image.

They come from a YAML file (``--subgoals``), by task::

    tasks:
      open the drawer:                # the episode's task, or its instruction; "*" fits every task
        success: holds                # optional: ever | holds (the default)
        subgoals:
          - name: grasp the handle    # required, unique within the task
            criterion: the fingers close around the handle     # optional: what to look for
            mode: ever                # ever (the default): true at some time; holds: true at the end
            view: wrist               # optional: the camera that shows it best
            reviewed: true            # optional: a person has read it
          - the drawer is open        # a plain text is a subgoal with that name
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stepscore._untrusted import read_yaml, shown
from stepscore.errors import ManifestError, first_field_error
from stepscore.types import SuccessMode


@dataclass(frozen=True, slots=True)
class Subgoal:
    """One condition on the way to a task's goal.

    Attributes:
        name: A short name, unique within the task.
        criterion: What to look for; empty where the name says it.
        mode: ``"ever"`` (true at some time) or ``"holds"`` (true at the end of what is shown).
        view: The camera that shows it best; empty for any.
        reviewed: Whether a person has read and approved it.
    """

    name: str
    criterion: str = ""
    mode: SuccessMode = "ever"
    view: str = ""
    reviewed: bool = True


@dataclass(frozen=True, slots=True)
class TaskSubgoals:
    """The subgoals of one task, and when its success counts."""

    subgoals: tuple[Subgoal, ...]
    success: SuccessMode = "holds"


class _SubgoalEntry(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str = Field(min_length=1)
    criterion: str = ""
    mode: SuccessMode = "ever"
    view: str = ""
    reviewed: bool = True


class _TaskEntry(BaseModel):
    model_config = ConfigDict(extra="forbid")
    success: SuccessMode = "holds"
    subgoals: list[_SubgoalEntry | Annotated[str, Field(min_length=1)]] = Field(min_length=1)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")
    tasks: dict[str, _TaskEntry]


def parse_subgoals(entries: list[object], where: str) -> tuple[Subgoal, ...]:
    """Parse subgoals from a list of texts or mappings, as in the YAML file; ManifestError names the wrong field."""
    try:
        return _subgoals(_TaskEntry.model_validate({"subgoals": entries}), where)
    except ValidationError as error:
        raise ManifestError(f"{where}: {_first(error)}") from None


def read_subgoals(path: Path) -> Mapping[str, TaskSubgoals]:
    """Read subgoals by task from a YAML file; ManifestError names the file and the wrong field."""
    if not os.path.exists(path):
        raise ManifestError(f"No subgoals file at {shown(path)}.")
    content = read_yaml(path, ManifestError)
    try:
        file = _File.model_validate(content)
    except ValidationError as error:
        raise ManifestError(f"{path}: {_first(error)}") from None
    names: dict[str, str] = {}
    for task in file.tasks:
        other = names.setdefault(_key(task), task)
        if other != task:
            raise ManifestError(
                f"{path}: {other!r} and {task!r} are the same task, since upper case and spaces around a name do not "
                "count. Keep one of them."
            )
    return {
        task: TaskSubgoals(_subgoals(entry, f"{path}, task {task!r}"), entry.success)
        for task, entry in file.tasks.items()
    }


def find_subgoals(
    table: Mapping[str, TaskSubgoals], task: str | None, instruction: str
) -> TaskSubgoals | None:
    """Return the entry for an episode: by task, else by instruction, else ``"*"``; ``None`` where none fits."""
    by_name = {_key(name): entry for name, entry in table.items()}
    for key in (task, instruction, "*"):
        if key is not None and _key(key) in by_name:
            return by_name[_key(key)]
    return None


def _key(task: str) -> str:
    return task.strip().lower()


def _subgoals(entry: _TaskEntry, where: str) -> tuple[Subgoal, ...]:
    subgoals = tuple(
        Subgoal(item) if isinstance(item, str) else Subgoal(**item.model_dump()) for item in entry.subgoals
    )
    counts = Counter(subgoal.name for subgoal in subgoals)
    twice = next((name for name, count in counts.items() if count > 1), None)
    if twice is not None:
        raise ManifestError(f"{where}: subgoal {twice!r} appears twice; names are unique within a task.")
    return subgoals


def _first(error: ValidationError) -> str:
    first = first_field_error(error)
    return f"{first.field or 'the file'}: {first.message}."
