"""Which episodes each probe gets, within which cost, and what is known to be too few beforehand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import cast

import pytest

from stepscore.audit import (
    MIN_SCENES,
    PROBES,
    AuditOptions,
    AuditPlan,
    Context,
    audit,
    choose_probes,
    make_plan,
    probe_result,
    scene_of,
    shortfall_sentences,
)
from stepscore.audit.planning.choosing import BUDGET, FIRST_SCENES, PROBE_EPISODES, again_count
from stepscore.audit.probe import Outcome
from stepscore.episodes import Episode
from stepscore.judges import Judge, get_judge
from tests.audit.planted_judges import COUNTERFACTUALS, TASKS, answers, planted_judges, scripted_episodes

EVERY_PROBE = tuple(PROBES.values())
POLICIES = ("good", "fair", "bad")


@cache
def planned(scenes: int, *, full: bool = False, causal: bool = False) -> AuditPlan:
    """The plan on four tasks with so many scenes each, all of which three policies play."""
    two = scripted_episodes(scenes)
    third = [
        replace(one, id=one.id.replace("/good/", "/fair/"), policy="fair")
        for one in two
        if one.policy == "good"
    ]
    episodes = sorted([*two, *third], key=lambda one: one.id)
    return make_plan(
        episodes, EVERY_PROBE, Context(episodes, dict(COUNTERFACTUALS)), full=full, causal=causal
    )


def taken(plan: AuditPlan) -> dict[str, list[Episode]]:
    by_id = {one.id: one for one in plan.episodes}
    found: dict[str, list[Episode]] = {name: [] for name in PROBES}
    for each in plan.probed:
        found[each.probe].append(by_id[each.episode])
    return found


def scenes_of(episodes: Sequence[Episode]) -> Counter[object]:
    return Counter(map(scene_of, episodes))


def cost(plan: AuditPlan, *, causal: bool = False) -> float:
    """What the plan costs over judging once: recorded episodes, every changed one by its length, asking again."""
    lengths = {each.changed.id: PROBES[each.probe].length for each in plan.probed}
    free = {e.changed.id for e in plan.probed if causal and PROBES[e.probe].truncates}
    changed = sum(length for name, length in lengths.items() if name not in free)
    return (len(plan.episodes) + changed + 3 * len(plan.again)) / len(plan.episodes)


def outcomes(plan: AuditPlan, fault: str) -> dict[str, Outcome]:
    judge = planted_judges(list(plan.episodes))[fault]
    judged = answers(judge, plan)
    return {probe.name: probe_result(probe, fault, plan, judged).outcome for probe in EVERY_PROBE}


def test_of_72_episodes_of_24_scenes_a_sound_judge_is_decided_by_most_probes_within_the_cost() -> None:
    plan = planned(6)
    assert (len(plan.episodes), len(scenes_of(plan.episodes))) == (72, 24)
    assert cost(plan) <= BUDGET
    found = Counter(outcomes(plan, "none").values())
    assert found["pass"] >= 20
    assert found["fail"] == 0
    clock = Counter(outcomes(plan, "clock").values())
    assert clock["fail"] >= 20


@pytest.mark.parametrize("scenes", [3, 6, 12])
def test_every_probe_has_ten_scenes_before_any_has_an_episode_of_a_scene_again(scenes: int) -> None:
    for episodes in taken(planned(scenes)).values():
        counts = scenes_of(episodes)
        if episodes:
            assert len(counts) >= FIRST_SCENES
    plan = planned(scenes)
    most = {
        name: len(scenes_of([e for e in plan.episodes if e.labels.success or not PROBES[name].successes]))
        for name in PROBES
    }
    for name, episodes in taken(plan).items():
        counts = scenes_of(episodes)
        assert max(counts.values(), default=1) == 1 or len(counts) == most[name]


@pytest.mark.parametrize(("scenes", "causal"), [(1, False), (3, True), (6, True), (12, False)])
def test_the_budget_is_kept_and_used(scenes: int, causal: bool) -> None:
    plan = planned(scenes, causal=causal)
    assert cost(plan, causal=causal) <= BUDGET
    everything = cost(planned(scenes, full=True), causal=causal)
    assert cost(plan, causal=causal) > min(BUDGET, everything) - 1


def test_with_a_small_budget_some_probes_decide_and_the_others_are_named() -> None:
    """Of ten episodes in ten scenes there is not enough for every probe; none gets a share that decides nothing."""
    episodes = [one for one in planned(6).episodes if one.policy == "good"][:10]
    plan = make_plan(episodes, EVERY_PROBE, Context(episodes, dict(COUNTERFACTUALS)))
    assert cost(plan) <= BUDGET
    counts = [len(scenes_of(found)) for found in taken(plan).values()]
    assert sum(count >= MIN_SCENES for count in counts) >= 5
    left_out = {short.probe for short in plan.shortfalls if not short.scenes}
    assert left_out
    (said,) = [one for one in shortfall_sentences(plan) if "-T full=true" in one]
    short = [one.probe for one in plan.shortfalls if one.needed == MIN_SCENES <= one.available]
    assert left_out == {
        one.probe for one in plan.shortfalls if one.available >= MIN_SCENES and not one.scenes
    }
    assert set(short) <= left_out
    assert all(name in said for name in short[:8])
    assert len(short) <= 8 or f"and {len(short) - 8} more probes" in said


def test_too_few_scenes_are_said_beforehand_with_how_many_are_needed() -> None:
    short = {one.probe: one for one in planned(6).shortfalls}
    assert set(short) == {"still-success", "blank-success", "early-success"}
    assert {(one.needed, one.available) for one in short.values()} == {(35, 24)}
    assert len(shortfall_sentences(planned(6))) == 1
    assert "at least 35 scenes are needed, there are 24" in shortfall_sentences(planned(6))[0]
    assert planned(10, full=True).shortfalls == ()
    few = shortfall_sentences(planned(1, full=True))
    assert any("at least 8 scenes are needed, there are 3 to 4" in one for one in few)
    assert not any("-T full=true" in one for one in few)


def test_asking_again_is_spread_over_scenes_too() -> None:
    plan = planned(6)
    assert len(plan.again) == again_count(72) == 36
    assert len(scenes_of(plan.again)) == 24
    assert [one.id for one in plan.again] == sorted(one.id for one in plan.again)
    assert planned(1, full=True).again == planned(1, full=True).episodes
    assert [again_count(n) for n in (4, 12, 30, 1000)] == [4, 10, 15, 40]


def test_no_probe_takes_more_than_a_thousand_episodes() -> None:
    first = scripted_episodes(1)
    episodes = [
        replace(one, id=f"{one.id}{i:04d}", pair=f"{one.pair}{i}") for i in range(300) for one in first
    ]
    assert len(episodes) == 2400
    plan = make_plan(episodes, choose_probes(["thinned", "frozen-first"]), Context(episodes))
    counts = Counter(each.probe for each in plan.probed)
    assert counts == {"thinned": PROBE_EPISODES, "frozen-first": PROBE_EPISODES}


def test_an_episode_without_a_scene_is_one_of_its_own() -> None:
    bare = [replace(one, pair=None) for one in scripted_episodes(1)]
    assert len(scenes_of(bare)) == len(bare)
    assert len(scenes_of(scripted_episodes(1))) == len(TASKS)


def test_only_what_is_asked_again_is_set_aside(tmp_path: Path) -> None:
    episodes = [one for one in planned(6).episodes if one.policy == "good"]
    plans: dict[str, AuditPlan] = {}
    for name, judge in (("dense", get_judge("linear-time")), ("plain", planted_judges(episodes)["none"])):
        options = AuditOptions(trivial=False)
        audit(
            episodes, cast(Judge, judge), tmp_path / name, options, on_plan=partial(plans.__setitem__, name)
        )
    assert len(plans["plain"].probed) > len(plans["dense"].probed)
    assert len(plans["plain"].again) == len(plans["dense"].again) == 12
