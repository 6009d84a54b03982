"""The embedded judge's test set and card: what is played, what is scored, and how figures stand side by side."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.embedded import card, figures, testset, variants
from benchmarks.embedded.measures import judges
from stepscore.episodes import Episode, Label, Labels
from stepscore.training.embedded.tasks import SECOND_VIEW, VIEW
from stepscore.types import Estimate
from tests.fakes import FakeView, episode

WON = Labels((Label("success", "holds", value=1.0),))
LOST = Labels((Label("success", "ever", value=0.0),))
WANTED = testset.Wanted(seed=7, pairs=10, per_task=60, scenes=2)


def rollout(policy: str, scene: int, won: bool, frames: int, views: tuple[str, ...] = (VIEW,)) -> Episode:
    """A rollout of push; failures are longer than successes, as they are in the simulator."""
    name = f"{policy}-{scene}"
    return episode(
        name,
        views={view: FakeView(frames, 10.0, mark=name) for view in views},
        labels=WON if won else LOST,
        task="push",
        policy=policy,
        pair=f"push/seed-7/scene-{scene:04d}",
        instruction="push the puck to the goal",
    )


def met(scenes: int = 2, views: tuple[str, ...] = (VIEW,)) -> list[Episode]:
    """Every policy on some scenes: two of them succeed."""
    good = ("expert", "slow")
    return [
        rollout(policy, scene, policy in good, 12 if policy in good else 20, views)
        for scene in range(scenes)
        for policy in testset.POLICIES
    ]


def test_what_is_missing_is_played_by_those_who_mostly_give_it_on_new_scenes():
    plans = testset.top_up(met(), "push", WANTED)
    assert {plan.policy for plan in plans} == {"expert", "slow"}
    assert min(plan.scene for plan in plans) == 2
    assert len(plans) == math.ceil(testset.SPARE * 10) - 4
    assert [plan.scene for plan in plans] == sorted(plan.scene for plan in plans)


def test_enough_pairs_or_enough_episodes_end_the_work():
    enough = testset.Wanted(seed=7, pairs=4, per_task=60)
    assert testset.top_up(met(), "push", enough) == []
    assert testset.top_up(met(), "push", testset.Wanted(seed=7, pairs=10, per_task=26)) == []
    assert len(testset.top_up(met(), "push", testset.Wanted(seed=7, pairs=10, per_task=29))) == 3


def test_a_folder_belongs_to_one_test_set(tmp_path: Path):
    testset._check_same(tmp_path, ["push"], WANTED)
    testset._check_same(
        tmp_path, ["push"], testset.Wanted(seed=7, pairs=10, per_task=60, scenes=2, workers=9)
    )
    with pytest.raises(SystemExit, match="seed is 7"):
        testset._check_same(tmp_path, ["push"], testset.Wanted(seed=8, pairs=10, per_task=60, scenes=2))


def test_whole_videos_of_shared_scenes_are_scored_and_of_others_those_of_matched_pairs():
    shared = met(2, (VIEW, SECOND_VIEW))
    later = [rollout("expert", 5, True, 12), rollout("drop", 5, False, 20), rollout("freeze", 5, False, 9)]
    episodes = [*shared, *later]
    matched = variants.match_all(episodes, 1)
    planned = {
        e.id: {variant.name: variant for variant in found}
        for e, found in variants.plan_variants(episodes, matched, 1, 2)
    }
    assert all({"recorded", "left"} <= set(planned[e.id]) for e in shared)
    assert all(planned[e.id]["recorded"].subgoals for e in shared)
    assert "recorded" not in planned["freeze-5"]  # too short to be matched, and of no shared scene
    videos = {(m.success, "recorded") for m in matched.all} | {(m.failure, m.variant) for m in matched.all}
    assert all(variant in planned[name] for name, variant in videos)
    assert sum("frozen" in found for found in planned.values()) == 1
    assert (
        sum(bool(found["recorded"].others) for found in planned.values() if "recorded" in found)
        == variants.OTHER_INSTRUCTION_FACTOR
    )
    assert pickle.loads(pickle.dumps([list(found.values()) for found in planned.values()]))


def test_a_near_miss_is_cut_to_the_longest_success_and_not_before_it_has_arrived():
    rises = [Label("progress", "potential", t / 10, t / 10, min(t / 10, 0.9)) for t in range(20)]
    short = [
        replace(rollout("short:4", scene, False, 20), labels=Labels((*LOST.rows, *rises)))
        for scene in range(3)
    ]
    good = [rollout("expert", scene, True, frames) for scene, frames in enumerate((9, 10, 14))]
    found = variants.near_misses([*good, *short], "short:4")
    assert [(m.success, m.failure, m.variant) for m in found] == [
        ("expert-2", "short:4-0", "cut 1.40 s"),
        ("expert-1", "short:4-1", "cut 1.00 s"),
    ]


def test_judges_run_on_successes_stalls_and_failures_alike():
    chosen = judges.chosen_episodes(met(3), 6)
    assert sorted(judges._kind(e) for e in chosen) == sorted(judges.KINDS * 2)
    assert len({e.id for e in chosen}) == 6


def figure(group: str, name: str, value: float, target: float | None = None) -> figures.Figure:
    estimate = Estimate(value, value - 0.1, value + 0.1, 20, 5, 1.0, "")
    return figures.Figure(group, name, estimate, target, baselines={"length alone": 0.5})


def test_a_figure_comes_back_from_its_file(tmp_path: Path):
    rows = [figure("g", "a", 0.5, 0.4), figures.Figure("g", "b", figures.plain(math.nan, 0), note="none")]
    figures.write_json(tmp_path / "figures.json", rows, {"test_seed": 1})
    back, about = figures.read_json(tmp_path / "figures.json")
    assert about == {"test_seed": 1}
    assert back[0] == rows[0]
    assert math.isnan(back[1].estimate.value)
    assert figures.read_json(tmp_path / "none.json") == ([], {})


def test_evaluations_stand_side_by_side_with_the_target_beside():
    held_out = f"{figures.HELD_OUT_GROUP}: Success"
    columns = {
        "seed 0": [
            figure("Success", "success AUC, pooled", 0.98, 0.97),
            figure("Success", "success AUC, push", 0.8, 0.9),
            figure("Subgoals", "balanced accuracy, push: it is held", 0.7, 0.75),
            figure(held_out, "success AUC, pooled", 0.5),
            figure("Time", "seconds", 0.3),
        ],
        "seed 1": [figure("Success", "success AUC, pooled", 0.9, 0.97)],
    }
    text = card.card(columns, {})
    aimed, _, rest = text.partition("### Time: reported")
    assert "Targets reached: seed 0: 1 of 1; seed 1: 0 of 1." in aimed
    row = "| success AUC, pooled | ≥ 0.97 | 0.980 [0.880, 1.080] ✓ | 0.900 [0.800, 1.000] ✗ | 20 (5 scenes) | 0.500 |"
    assert row in aimed
    assert "| push | 0.800 [0.700, 0.900] ✗ |  | 20 (5 scenes) | 0.500 |" in rest
    assert "| push: it is held | 0.700" in rest
    below = rest[rest.index(f"### {figures.HELD_OUT_GROUP}") :]
    assert "| success AUC, pooled | 0.500" in below
    assert "| push |" not in below
