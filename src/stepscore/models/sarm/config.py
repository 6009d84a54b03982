"""The config of a SARM checkpoint: sizes, window, views, the stages of each task; read from JSON field by field."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from stepscore._untrusted import shown
from stepscore._untrusted.checkpoint_folder import brief, whole_number
from stepscore.errors import EpisodeError, ModelError, OptionError
from stepscore.models.sarm.window import Window

SarmMode = Literal["single", "dense", "dual"]
Decode = Literal["argmax", "expected"]
"""How stages and shares become progress; see :func:`stepscore.models.sarm.score_video`."""


@dataclass(frozen=True)
class Procedure:
    """The stages of a task, as one head predicts them.

    Attributes:
        stages: Their K names, in order.
        breakpoints: Progress at the start of each, and 1 at the end of the last; K + 1 numbers.
    """

    stages: tuple[str, ...]
    breakpoints: tuple[float, ...]


@dataclass(frozen=True)
class SarmConfig:
    """The config of a checkpoint.

    Attributes:
        mode: ``"single"``: one head without stages; ``"dense"``: that and one with stages; ``"dual"``: both with.
        window: The frames of an observation.
        views: Names of the cameras, in order.
        state: Columns of the robot's state, in order; empty without.
        encoder: The encoder's ``describe()``.
        sizes: The network's sizes, as fields of ``SarmShape``.
        procedures: Stages of each task, by head and task.
        tasks: The task of each instruction it was trained on.
        progress: The progress labels it was trained on: ``stages``, ``linear``, or a potential's name.
        facts: How it was trained: episodes, steps, seed.
    """

    mode: SarmMode
    window: Window
    views: tuple[str, ...]
    state: tuple[str, ...]
    encoder: Mapping[str, Any]
    sizes: Mapping[str, Any]
    procedures: Mapping[str, Mapping[str, Procedure]]
    tasks: Mapping[str, str]
    progress: str
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def head(self) -> str:
        """The head with the most stages: dense where there is one, else sparse."""
        return "dense" if "dense" in self.procedures else "sparse"

    def task_of(self, task: str | None, instruction: str) -> str:
        """Return the trained task under which an episode is scored.

        Its task, else its instruction, decides; a checkpoint of a single task takes any wording of it.

        Raises:
            EpisodeError: The checkpoint knows several tasks, but not this one.
        """
        known = self.procedures[self.head]
        if task is not None and task in known:
            return task
        if instruction in self.tasks:
            return self.tasks[instruction]
        if len(known) == 1:
            return next(iter(known))
        raise EpisodeError(
            f"The task {(task or instruction)!r} is not one this SARM checkpoint was trained on, so its stages are "
            f"not known. Trained: {', '.join(sorted(known))}. Train on it: stepscore train sarm DATASET"
        )


SIZES: Mapping[str, tuple[int, int]] = {
    "features": (1, 1 << 20),
    "text": (1, 1 << 20),
    "views": (1, 64),
    "state": (0, 1 << 16),
    "slots": (2, 1 << 16),
    "width": (1, 1 << 20),
    "layers": (0, 1 << 16),
    "attention_heads": (1, 1 << 16),
}
"""Smallest and largest value of each size of a network."""


def parse_config(content: Mapping[str, Any], where: str) -> SarmConfig:
    """Return the config of a JSON object; ModelError names a field that is missing or invalid."""
    known = {part.name for part in dataclasses.fields(SarmConfig)}
    for name in sorted({*content} ^ known):
        if name != "facts" or name in content:
            raise ModelError(
                f"{where}: the field {shown(name)} is {'unknown' if name in content else 'missing'}. "
                "Train it again, or copy it again."
            )
    if content["mode"] not in get_args(SarmMode):
        raise _wrong(where, "mode", content["mode"], f"one of {', '.join(get_args(SarmMode))}")
    views, state = (_texts(content, name, where) for name in ("views", "state"))
    encoder, sizes, tasks = (_object(content, name, where) for name in ("encoder", "sizes", "tasks"))
    if not isinstance(encoder.get("name"), str):
        raise _wrong(where, "encoder.name", encoder.get("name"), "an encoder")
    heads = _object(content, "procedures", where)
    procedures = {
        head: {
            task: _procedure(entry, f"{head}.{task}", where)
            for task, entry in _object(heads, head, where).items()
        }
        for head in heads
    }
    if not isinstance(content["progress"], str) or not all(isinstance(task, str) for task in tasks.values()):
        raise ModelError(f"{where}: progress and the values of tasks are texts.")
    config = SarmConfig(
        content["mode"],
        _window(_object(content, "window", where), where),
        views,
        state,
        encoder,
        _sizes(sizes, where),
        procedures,
        tasks,
        content["progress"],
        _object(content, "facts", where) if "facts" in content else {},
    )
    _check_together(config, where)
    return config


def _check_together(config: SarmConfig, where: str) -> None:
    """Raise ModelError where parts of a config contradict each other."""
    sizes, stages = config.sizes, config.sizes["stages"]
    if "sparse" not in config.procedures or set(config.procedures) != set(stages):
        raise _wrong(
            where, "procedures", list(config.procedures), f"the heads {', '.join(stages)}, sparse among them"
        )
    for head, tasks in config.procedures.items():
        if not tasks or set(tasks) != set(config.procedures["sparse"]):
            raise _wrong(
                where, f"procedures.{head}", list(tasks), "the tasks of every head, the same in each"
            )
        if max(len(procedure.stages) for procedure in tasks.values()) > stages[head]:
            raise _wrong(where, f"sizes.stages.{head}", stages[head], "the most stages of a task")
    if unknown := sorted(set(config.tasks.values()) - set(config.procedures["sparse"])):
        raise _wrong(where, "tasks", unknown[0], "a task with stages")
    if sizes["views"] != len(config.views) or sizes["slots"] != config.window.slots:
        raise ModelError(
            f"{where}: sizes.views and sizes.slots are {sizes['views']} and {sizes['slots']}; the views are "
            f"{len(config.views)}, and the window has {config.window.slots} slots."
        )
    if sizes["causal"] is not config.window.causal or bool(sizes["state"]) != bool(config.state):
        raise ModelError(f"{where}: sizes.causal and sizes.state contradict window.causal and state.")


def _window(content: Mapping[str, Any], where: str) -> Window:
    known = {part.name for part in dataclasses.fields(Window)}
    if unknown := sorted(set(content) - known):
        raise ModelError(f"{where}: the field window.{shown(unknown[0])} is unknown.")
    counts = {
        name: whole_number(content, name, f"{where}: window.", 0, 1 << 15) for name in ("frames", "rewind")
    }
    gap, causal = content.get("gap_s", Window.gap_s), content.get("causal", Window.causal)
    if type(gap) not in (int, float) or type(causal) is not bool:
        raise ModelError(f"{where}: window.gap_s is {brief(gap)} and window.causal {brief(causal)}.")
    try:
        return Window(
            gap_s=gap, causal=causal, **{name: count for name, count in counts.items() if count is not None}
        )
    except OptionError as error:
        raise ModelError(f"{where}: window: {error}") from error


def _sizes(content: dict[str, Any], where: str) -> dict[str, Any]:
    inside = f"{where}: sizes."
    for name, (least, most) in SIZES.items():
        if whole_number(content, name, inside, least, most) is None:
            raise ModelError(f"{inside}{name} is missing.")
    stages = _object(content, "stages", where)
    for head in stages:
        whole_number(stages, head, f"{inside}stages.", 1, 1 << 16)
    dropout, causal = content.get("dropout", 0.0), content.get("causal")
    if type(dropout) not in (int, float) or not 0 <= dropout < 1 or type(causal) is not bool:
        raise ModelError(f"{inside}dropout is {brief(dropout)} and causal {brief(causal)}.")
    if unknown := sorted(set(content) - {*SIZES, "stages", "dropout", "causal"}):
        raise ModelError(f"{inside}{shown(unknown[0])} is unknown.")
    return content


def _procedure(entry: Any, name: str, where: str) -> Procedure:
    if not isinstance(entry, dict):
        raise _wrong(where, f"procedures.{name}", entry, "an object")
    stages, points = _texts(entry, "stages", f"{where}: procedures.{shown(name)}"), entry.get("breakpoints")
    if (
        not isinstance(points, list)
        or not stages
        or len(points) != len(stages) + 1
        or not all(type(point) in (int, float) and math.isfinite(point) for point in points)
    ):
        raise _wrong(where, f"procedures.{name}.breakpoints", points, "a number for each stage, and 1")
    return Procedure(stages, tuple(points))


def _texts(content: Mapping[str, Any], name: str, where: str) -> tuple[str, ...]:
    found = content.get(name)
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise _wrong(where, name, found, "a list of texts")
    return tuple(found)


def _object(content: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    found = content.get(name)
    if not isinstance(found, dict):
        raise _wrong(where, name, found, "an object")
    return found


def _wrong(where: str, name: str, value: object, expected: str) -> ModelError:
    return ModelError(
        f"{where}: {shown(name)} must be {expected}, got {brief(value)}. Train it again, or copy it again."
    )
