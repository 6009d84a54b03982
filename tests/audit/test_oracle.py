"""An oracle from simulator truth is not flagged; under another goal its truth is the object's distance to it."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

pytest.importorskip("metaworld", reason="SIMULATOR ABSENT: the oracle was not audited")

from benchmarks.audit.oracle import audited, planned
from benchmarks.audit.simulated_truth import REACHED, SimulatedTruth, simulate_truth
from stepscore.audit import ProbeResult
from stepscore.sim import RenderOptions, get_task, plan_rollouts
from stepscore.sim.workers import play_scene
from tests.audit.planted_judges import EXPECTED_IN_SIMULATION, agrees, planted_judges

SEED, SCENES, TASKS = 61001, 5, ("drawer-open", "drawer-close")


@cache
def truth() -> SimulatedTruth:
    return simulate_truth(SEED, SCENES, TASKS)


def found(fault: str) -> dict[str, ProbeResult]:
    judges = planted_judges(truth().episodes, truth().others, favoured="undo", success_at=1.0)
    return audited(judges[fault], planned(truth(), SEED))


def test_the_oracle_is_flagged_by_no_probe_and_knows_what_another_instruction_asks_for() -> None:
    results = found("none")
    assert [name for name, one in results.items() if one.outcome == "fail"] == []
    decided = {name for name, one in results.items() if one.outcome != "undecided"}
    assert set(results) - decided == {"blank", "blank-success"}
    assert results["opposite"].effect.value == results["other-task"].effect.value == 1.0


@pytest.mark.parametrize("fault", ["clock", "last frame only"])
def test_planted_judges_are_found_on_simulated_rollouts_as_it_was_stated(fault: str) -> None:
    stated = EXPECTED_IN_SIMULATION[fault]
    wrong = {
        name: (one.outcome, stated[name])
        for name, one in found(fault).items()
        if not agrees(one.outcome, stated[name])
    }
    assert wrong == {}


def test_under_the_opposite_goal_the_truth_is_how_far_the_drawer_is_from_it() -> None:
    plans = plan_rollouts(["drawer-open"], ["expert"], 1, SEED)
    (rollout,) = play_scene(plans, RenderOptions(views=(), fps=10))
    assert get_task("drawer-open").instruction == "open the drawer"
    seen = []
    for row in rollout.environment_states:
        closed, opened = rollout.environment_states[0][:3], row[3:6]
        whole = max(float(np.linalg.norm(opened - closed)) - REACHED, 0.0)
        left = max(float(np.linalg.norm(row[:3] - closed)) - REACHED, 0.0)
        seen.append(min(max(1.0 - left / whole, 0.0), 1.0))
    episode = next(one for one in truth().episodes if one.task == "drawer-open" and one.policy == "expert")
    assert truth().others[episode.id, "close the drawer"] == pytest.approx(seen)
    assert seen[0] == 1.0
    assert seen[-1] < 0.1
    done = truth().others[episode.id, "Do not open the drawer."]
    assert done.tolist() == [float(not success) for success in rollout.success]
    assert (episode.id, "close the window") not in truth().others
