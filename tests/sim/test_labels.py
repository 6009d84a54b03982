"""A rollout's truth as labels: what a reader of the labels finds is what the simulator said."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from stepscore.episodes.labels.labels import Labels, check_stages, read_labels
from stepscore.episodes.labels.subgoals import read_subgoals
from stepscore.procedures.labels_table import write_labels
from stepscore.sim import Rollout, RolloutPlan, get_task, rollout_labels
from stepscore.sim.labels import write_subgoals

TASK = get_task("drawer-open")
REACHED, AJAR, OPEN = (milestone.subgoal for milestone in TASK.milestones)
UNDONE = ([0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 1], [0, 1, 1], [0, 1, 0], [1, 0, 0], [0, 0, 0])


def rollout(truths: object, fps: int = 10) -> Rollout:
    table = np.array(truths, dtype=bool)
    n, k = table.shape
    stages = np.array([max([0, *np.flatnonzero(row) + 1]) for row in table])
    return Rollout(
        plan=RolloutPlan(TASK.name, "undo", 3),
        fps=fps,
        frames={},
        states=np.zeros((n, 4)),
        environment_states=np.zeros((n, 9)),
        actions=np.zeros((n, 4)),
        potential=stages / k,
        stages=stages,
        truths=table,
    )


def through_the_file(folder: Path, one: Rollout) -> Labels:
    write_labels(folder / "labels.parquet", {"episode_000000": rollout_labels(one, TASK)})
    return Labels(read_labels(folder / "labels.parquet")["episode_000000"])


def test_success_is_that_of_the_last_frame_and_success_ever_stands_beside_it(tmp_path: Path) -> None:
    labels = through_the_file(tmp_path, rollout(UNDONE))
    assert labels.success is False
    assert labels.success_mode == "holds"
    assert {row.name: row.value for row in labels.rows if row.kind == "success"} == {
        "ever": 1.0,
        "holds": 0.0,
    }
    assert through_the_file(tmp_path, rollout(UNDONE[:5])).success is True


def test_a_subgoal_follows_its_mode(tmp_path: Path) -> None:
    labels = through_the_file(tmp_path, rollout(UNDONE))
    assert [labels.subgoal(name) for name in (REACHED, AJAR, OPEN)] == [True, True, False]
    never = through_the_file(tmp_path, rollout([[0, 0, 0]] * 4))
    assert [never.subgoal(name) for name in (REACHED, AJAR, OPEN)] == [False, False, False]


@pytest.mark.parametrize("shown", range(1, len(UNDONE) + 1))
def test_the_truth_of_a_prefix_is_read_off_at_its_last_frame(shown: int) -> None:
    rows = rollout_labels(rollout(UNDONE), TASK)
    last_s = (shown - 1) / 10
    for number, milestone in enumerate(TASK.milestones):
        mine = [r for r in rows if r.kind == "subgoal" and r.name == milestone.subgoal]
        begun = [r for r in mine if r.start_s <= last_s + 1e-9]
        column = [row[number] for row in UNDONE[:shown]]
        if milestone.mode == "ever":
            assert any(r.value == 1.0 for r in begun) == bool(any(column))
        else:
            (now,) = [r for r in begun if last_s < r.end_s - 1e-9]
            assert now.value == column[-1]


def test_stages_cover_the_rollout_without_gap_and_may_come_back(tmp_path: Path) -> None:
    stages = through_the_file(tmp_path, rollout(UNDONE)).stages
    assert check_stages(stages, "here") == stages
    reach, loosen, pull = (milestone.stage for milestone in TASK.milestones)
    assert [stage.name for stage in stages] == [reach, loosen, pull, loosen, reach]
    assert stages[0].start_s == 0.0
    assert stages[-1].end_s == 0.8
    assert all(a.end_s == b.start_s for a, b in pairwise(stages))


def test_progress_is_the_potential_at_every_frame(tmp_path: Path) -> None:
    one = rollout(UNDONE)
    times, values = through_the_file(tmp_path, one).progress()
    assert times == pytest.approx(np.arange(8) / 10)
    assert values == pytest.approx(one.potential)


def test_the_subgoals_file_is_the_one_that_is_read(tmp_path: Path) -> None:
    write_subgoals(tmp_path / "subgoals.yaml", [TASK, get_task("pick-place")])
    entry = read_subgoals(tmp_path / "subgoals.yaml")[TASK.instruction]
    assert entry.success == "holds"
    assert [(subgoal.name, subgoal.mode) for subgoal in entry.subgoals] == [
        (milestone.subgoal, milestone.mode) for milestone in TASK.milestones
    ]
