"""The simulator's truth of a rollout, as rows of the labels table.

========  =====================================================================================================
success   two rows: ``ever`` (done in some frame) and ``holds`` (done in the last one). The table sorts ``holds``
          last, and that is the value of ``Labels.success``
subgoal   mode ``holds``: a row for every span, 1 where it is true and 0 where not, so that the last one is the
          verdict. Mode ``ever``: a row with 1 for every span in which it is true; without any, one row with 0
stage     which milestone is being worked on, span by span, without gaps; a stage may come back
progress  ``potential``: the progress potential at every frame
========  =====================================================================================================

Frame i has the timestamp i / fps, and what is true in it is true until the next. So the truth of a prefix is
that of its last frame: the span that covers it (``holds``), or any span of 1 that has begun (``ever``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import yaml

from stepscore.episodes.labels import POTENTIAL, Label
from stepscore.sim.rollout import Rollout
from stepscore.sim.tasks import Task

AUTHOR = "simulator"


def rollout_labels(rollout: Rollout, task: Task) -> list[Label]:
    """Return all labels of one rollout."""
    return [
        *_success(rollout),
        *_subgoals(rollout, task),
        *_stages(rollout, task),
        *(
            Label("progress", POTENTIAL, number / rollout.fps, value=float(value), author=AUTHOR)
            for number, value in enumerate(rollout.potential)
        ),
    ]


def constant_intervals(values: Sequence[object], fps: float) -> Iterator[tuple[object, float, float]]:
    """Yield runs of equal values: the value, and its start and end in seconds."""
    first = 0
    for value, run in groupby(values):
        end = first + len(list(run))
        yield value, first / fps, end / fps
        first = end


def write_subgoals(path: Path, tasks: Sequence[Task]) -> None:
    """Write the subgoals file of some tasks, by their instruction, as ``--subgoals`` reads it."""
    content = {
        task.instruction: {
            "success": task.success,
            "subgoals": [
                {"name": milestone.subgoal, "mode": milestone.mode} for milestone in task.milestones
            ],
        }
        for task in tasks
    }
    text = yaml.safe_dump({"tasks": content}, sort_keys=False, allow_unicode=True, width=110)
    path.write_text(text, encoding="utf-8")


def _success(rollout: Rollout) -> Iterator[Label]:
    yield Label("success", "ever", value=float(rollout.success.any()), author=AUTHOR)
    yield Label("success", "holds", value=float(rollout.success[-1]), author=AUTHOR)


def _subgoals(rollout: Rollout, task: Task) -> Iterator[Label]:
    for milestone, true in zip(task.milestones, rollout.truths.T, strict=True):
        if milestone.mode == "ever" and not true.any():
            yield Label("subgoal", milestone.subgoal, value=0.0, author=AUTHOR)
            continue
        for value, start_s, end_s in constant_intervals(true.tolist(), rollout.fps):
            if value or milestone.mode == "holds":
                yield Label("subgoal", milestone.subgoal, start_s, end_s, float(bool(value)), AUTHOR)


def _stages(rollout: Rollout, task: Task) -> Iterator[Label]:
    names = [milestone.stage for milestone in task.milestones]
    # After success the last stage continues: nothing else is left to do.
    working = [names[min(stage, len(names) - 1)] for stage in rollout.stages.tolist()]
    for name, start_s, end_s in constant_intervals(working, rollout.fps):
        yield Label("stage", str(name), start_s, end_s, author=AUTHOR)
