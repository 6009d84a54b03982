"""The benchmarks that rank policies find what was planted."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.embedded.testset import POLICIES as ALL_POLICIES
from benchmarks.tables.demo_policies import BEST, LIKE, POLICIES, TIED, standings
from benchmarks.tables.opd_policy_ranking import METRICS, REVISIONS, Judged, agreement
from stepscore.analysis import EpisodeMetrics, metric_columns


def judged(noise: dict[str, float]) -> list[Judged]:
    """Policies that differ, under a judge whose metrics have this error in each revision."""
    rng = np.random.default_rng(0)
    found = []
    for task in ("open", "close"):
        for scene in range(4):
            for skill, policy in enumerate(ALL_POLICIES):
                truth = {(r, m): skill / 20 for r in REVISIONS for m in METRICS}
                judge = {(r, m): truth[r, m] + rng.normal(0, noise[r]) for r in REVISIONS for m in METRICS}
                found.append(Judged(policy, f"{task}/scene-{scene}", judge, truth))
    return found


@pytest.mark.parametrize("within_tasks", [False, True])
def test_the_revision_with_the_smaller_error_ranks_better(within_tasks):
    found = agreement(judged({"v1.0": 2.0, "robust": 0.0}), "PPL", within_tasks=within_tasks)
    assert found.robust == pytest.approx(1.0)
    assert found.lo > 0
    same = agreement(judged({"v1.0": 0.0, "robust": 0.0}), "PPL", within_tasks=within_tasks)
    assert (same.lo, same.hi) == pytest.approx((0.0, 0.0))


def of_values(**values: dict[str, float]) -> EpisodeMetrics:
    """Metrics of the demo's policies on eight scenes: the policy's value, plus a little by scene."""
    scenes = [(policy, scene) for policy in POLICIES for scene in range(8)]
    rows = tuple({"policy": p, "task": f"t{s % 4}", "pair": f"s{s}", "instruction": ""} for p, s in scenes)
    columns = tuple(c for c in metric_columns("robust") if c.name in values)
    wave = np.sin(np.arange(8))
    tables = {
        name: np.array([by_policy[p] + 0.01 * wave[(s + 3 * list(POLICIES).index(p)) % 8] for p, s in scenes])
        for name, by_policy in values.items()
    }
    return EpisodeMetrics(rows, columns, tables, ())


def test_the_expert_is_best_tied_alike_or_behind():
    level = {"expert": 0.9, "hesitate": 0.5, "drop": 0.4, "undo": 0.3}
    found = standings(of_values(PPL=level, CRA=level, MP={**level, "undo": 0.9005}))
    assert found["PPL"] == BEST
    assert found["CRA"] == "behind undo"  # lower is better
    assert found["MP"] == LIKE
    tied = of_values(MP=level)
    tied.values["MP"][24:] = tied.values["MP"][:8]
    assert standings(tied)["MP"] == TIED
