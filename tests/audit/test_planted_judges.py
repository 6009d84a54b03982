"""Planted faults are found, and a judge without a fault is not flagged."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import cast

import pytest

from stepscore.audit import (
    PROBES,
    AuditOptions,
    AuditPlan,
    Context,
    ProbeResult,
    audit,
    judged_episodes,
    make_plan,
    probe_result,
)
from stepscore.judges import Judge
from stepscore.runs import open_run
from tests.audit.planted_judges import (
    COUNTERFACTUALS,
    EXPECTED,
    agrees,
    answers,
    planted_judges,
    scripted_episodes,
)

EVERY_PROBE = tuple(PROBES.values())


@cache
def planned(seed: int = 0) -> AuditPlan:
    episodes = scripted_episodes(seed=seed)
    context = Context(episodes, dict(COUNTERFACTUALS), seed=seed)
    return make_plan(episodes, EVERY_PROBE, context, full=True)


def results(fault: str, seed: int = 0) -> dict[str, ProbeResult]:
    plan = planned(seed)
    judge = planted_judges(list(plan.episodes))[fault]
    judged = answers(judge, plan)
    return {probe.name: probe_result(probe, fault, plan, judged) for probe in EVERY_PROBE}


@pytest.mark.parametrize("fault", EXPECTED)
def test_every_probe_has_the_outcome_that_was_stated_beforehand(fault: str) -> None:
    found = results(fault)
    wrong = {
        probe: (found[probe].outcome, expected, found[probe].effect)
        for probe, expected in EXPECTED[fault].items()
        if not agrees(found[probe].outcome, expected)
    }
    assert not wrong


def test_the_oracle_is_not_flagged_on_other_episodes() -> None:
    assert [
        one.probe for seed in (1, 2) for one in results("none", seed).values() if one.outcome == "fail"
    ] == []


def test_an_audit_through_run_folders_gives_the_same_effects(tmp_path: Path) -> None:
    plan = planned()
    episodes = [
        episode for episode in plan.episodes if episode.pair and episode.pair.endswith(("1", "2", "3"))
    ]
    judge = planted_judges(list(plan.episodes))["noisy"]
    names = ["beyond-length", "round-trip", "other-task", "early-success"]
    options = AuditOptions(probes=names, full=True, trivial=False, counterfactuals=COUNTERFACTUALS)
    found = audit(episodes, cast(Judge, judge), tmp_path / "audit", options)
    smaller = make_plan(episodes, EVERY_PROBE, Context(episodes, dict(COUNTERFACTUALS)), full=True)
    judged = answers(judge, smaller)
    assert [one.probe for one in found.results] == [
        "beyond-length",
        "round-trip",
        "early-success",
        "other-task",
        "policies-success",
        "policies-progress",
        "agreement",
    ]
    for one in found.results[: len(names)]:
        direct = probe_result(PROBES[one.probe], judge.name, smaller, judged)
        assert one.effect.n == direct.effect.n
        assert one.effect.value == pytest.approx(direct.effect.value, nan_ok=True)
    assert set(judged_episodes(open_run(tmp_path / "audit" / "judge"))) < set(judged)
