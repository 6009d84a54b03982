"""The audit on judges whose faults are known: false flags of an oracle from simulator truth, and planted faults.

    python -m benchmarks.audit.oracle [--seeds 20] [--kit-seeds 5] [--scenes 8] [--first-seed 61001]
    python -m benchmarks.audit.oracle --subset [--first-seed 61001]

Rollouts have no images: the oracle reads the simulator's truth, so probes that change pixels alone (cameras,
resolution, noise, compression, light) leave it unmoved by construction. It answers unknown on black images, which
nobody can see, and under instructions whose truth the simulator does not know. The planted judges spoil the same
truth, each in its way; what every probe must show of them is stated in ``tests/audit/planted_judges.py``. Exit code 1
where the oracle is flagged (a probe fails) in more than 5 % of all decisions. ``--subset`` audits the oracle on 72
rollouts of 24 scenes within the budget, as ``stepscore audit`` does by default, and prints how many probes decide.
Needs the extra sim.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from benchmarks.audit.simulated_truth import COUNTERFACTUALS, POLICIES, TASKS, SimulatedTruth, simulate_truth
from stepscore.analysis import agreement_with_baselines
from stepscore.audit import (
    PROBES,
    AuditPlan,
    Context,
    Outcome,
    ProbeResult,
    make_plan,
    probe_result,
    scene_of,
    shortfall_sentences,
)
from stepscore.audit.planning.choosing import BUDGET
from stepscore.audit.repeats import AGAIN_COST
from stepscore.episodes import Episode
from stepscore.judges import Judge
from stepscore.metrics.stats import wilson_interval
from stepscore.runs import score
from tests.audit.planted_judges import EXPECTED_IN_SIMULATION, PlantedJudge, agrees, answers, planted_judges

MOST_FLAGS = 0.05
FAVOURED = "undo"
EVERY_PROBE = tuple(PROBES.values())
OUTCOMES: tuple[Outcome, ...] = ("pass", "warn", "fail", "undecided")
Found = Mapping[str, ProbeResult]


def planned(truth: SimulatedTruth, seed: int) -> AuditPlan:
    """Return the plan of an audit with every probe on every episode."""
    context = Context(truth.episodes, dict(COUNTERFACTUALS), seed=seed)
    return make_plan(truth.episodes, EVERY_PROBE, context, full=True)


def audited(judge: PlantedJudge, plan: AuditPlan) -> dict[str, ProbeResult]:
    """Return what every probe shows of a judge, without a run folder."""
    judged = answers(judge, plan)
    return {probe.name: probe_result(probe, judge.name, plan, judged) for probe in EVERY_PROBE}


def audit_seed(seed: int, scenes: int, faults: tuple[str, ...]) -> dict[str, Found]:
    """Return what the probes show of some planted judges on the rollouts of one seed."""
    truth = simulate_truth(seed, scenes)
    plan = planned(truth, seed)
    judges = planted_judges(truth.episodes, truth.others, favoured=FAVOURED, success_at=1.0)
    return {fault: audited(judges[fault], plan) for fault in faults}


def print_oracle(found: list[Found]) -> float:
    """Print how often every probe had which outcome on the oracle, and return the share of fails."""
    print(f"\nThe oracle over {len(found)} seeds: outcomes, effects from least to most, and n")
    for probe in PROBES:
        results = [one[probe] for one in found]
        counts = Counter(result.outcome for result in results)
        known = [result.effect.value for result in results if result.effect.n]
        spread = f"{min(known):6.2f} … {max(known):5.2f}" if known else "unknown"
        least = min(result.effect.n for result in results)
        print(
            f"{probe:16}"
            + "".join(f"{name} {counts[name]:2}  " for name in OUTCOMES)
            + f"{spread:16} n >= {least}"
        )
    every = [result for one in found for result in one.values()]
    moved = [result for result in every if result.family not in ("camera", "image")]
    print_flags("All probes", every)
    print_flags("Without those that change pixels alone", moved)
    return sum(result.outcome == "fail" for result in every) / len(every)


def print_flags(title: str, results: list[ProbeResult]) -> None:
    """Print how many decisions had which outcome, and the share of fails with its interval."""
    counts, total = Counter(result.outcome for result in results), len(results)
    low, high = wilson_interval(counts["fail"], total)
    print(
        f"\n{title}: {total} decisions, "
        + ", ".join(f"{counts[name]} {name}" for name in OUTCOMES)
        + f".\nFalse flags: {counts['fail']} of {total} = {100 * counts['fail'] / total:.1f} % "
        f"[{100 * low:.1f}, {100 * high:.1f}] (at most {100 * MOST_FLAGS:g} %)"
    )


def print_kit(found: Mapping[str, list[Found]]) -> None:
    """Print which probes flag which planted judge, beside what was stated, and every outcome that differs."""
    seeds = len(next(iter(found.values())))
    print(
        f"\nPlanted judges over {seeds} seeds: probes that must fail and do, and what differs from what was stated"
    )
    for fault, audits in found.items():
        stated = EXPECTED_IN_SIMULATION[fault]
        must = [probe for probe, outcome in stated.items() if outcome == "fail"]
        hits = sum(one[probe].outcome == "fail" for one in audits for probe in must)
        wrong = {
            probe: Counter(
                one[probe].outcome for one in audits if not agrees(one[probe].outcome, stated[probe])
            )
            for probe in PROBES
        }
        wrong = {probe: counts for probe, counts in wrong.items() if counts}
        share = f"{hits}/{len(must) * seeds}" if must else "none must"
        print(f"{fault:24} found {share:10} differs {sum(sum(c.values()) for c in wrong.values()):3}")
        for probe, counts in wrong.items():
            listed = ", ".join(f"{outcome} {count}x" for outcome, count in counts.items())
            effects = " ".join(f"{one[probe].effect.value:.2f}" for one in audits)
            print(f"    {probe}: stated {stated[probe]}, got {listed} of {seeds} (effects {effects})")


def audit_subset(seed: int) -> tuple[Found, AuditPlan]:
    """Return what a default audit shows of the oracle on three scenes of eight tasks, and its plan."""
    truth = simulate_truth(seed, 3, TASKS[:8])
    plan = make_plan(truth.episodes, EVERY_PROBE, Context(truth.episodes, dict(COUNTERFACTUALS), seed=seed))
    judges = planted_judges(truth.episodes, truth.others, favoured=FAVOURED, success_at=1.0)
    return audited(judges["none"], plan), plan


def plan_cost(plan: AuditPlan) -> float:
    """Return what a plan costs over judging its episodes once, a video of twice the length as two."""
    recorded = {episode.id: duration_of(episode) for episode in plan.episodes}
    judged = plan.to_judge(causal=False, probes=EVERY_PROBE)
    lengths = [duration_of(one) / recorded[one.id.partition("~")[0]] for one in judged]
    return (sum(lengths) + AGAIN_COST * len(plan.again)) / len(plan.episodes)


def duration_of(episode: Episode) -> float:
    """Return the seconds of an episode's video."""
    assert episode.info is not None
    return episode.info.duration_s


def print_subset(seed: int) -> None:
    """Print how many probes a default audit decides about the oracle, and its cost."""
    found, plan = audit_subset(seed)
    counts = Counter(result.outcome for result in found.values())
    scenes = len({scene_of(episode) for episode in plan.episodes})
    print(
        f"A default audit of the oracle on {len(plan.episodes)} rollouts of {scenes} scenes, seed {seed}: "
        + ", ".join(f"{counts[name]} {name}" for name in OUTCOMES)
        + f".\n{counts['pass'] + counts['fail']} of {len(found)} probes decided, "
        f"at {plan_cost(plan):.1f} times the cost of judging once (at most {BUDGET:g})."
    )
    for sentence in shortfall_sentences(plan):
        print(sentence)


AGREEMENT = ("balanced accuracy", "progress MAE", "progress tau", "progress EPR")


def print_agreement(seed: int, scenes: int) -> None:
    """Print how far every planted judge agrees with labels: it finds what no probe does."""
    truth = simulate_truth(seed, scenes)
    judges = planted_judges(truth.episodes, truth.others, favoured=FAVOURED, success_at=1.0)
    print(f"\nAgreement with labels, seed {seed}: {', '.join(AGREEMENT)}, whom its final progress favours")
    for fault, judge in judges.items():
        with tempfile.TemporaryDirectory() as folder:
            run = score(truth.episodes, cast(Judge, judge), Path(folder) / "run")
            found = agreement_with_baselines([run])
        values = {
            row["metric"].removeprefix("judge:"): row["value"]
            for row in found.to_dicts()
            if row["group"]["judge"] == fault and "baseline_for" not in row["group"]
        }
        favoured = {
            f"{pair.favoured} over {pair.other}"
            for one in found.policies
            if one.quantity == "progress"
            for pair in one.flagged
        }
        known = [values.get(name) for name in AGREEMENT]
        cells = "".join("unknown  " if value is None else f"{value:7.2f}  " for value in known)
        print(f"{fault:24}{cells}{', '.join(sorted(favoured)) or 'nobody'}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument(
        "--kit-seeds", type=int, default=5, help="seeds on which the planted judges are audited"
    )
    parser.add_argument("--scenes", type=int, default=8, help="scenes of each task")
    parser.add_argument("--first-seed", type=int, default=61001)
    parser.add_argument("--subset", action="store_true", help="audit by default, 72 rollouts of 24 scenes")
    given = parser.parse_args()
    if given.subset:
        print_subset(given.first_seed)
        return
    oracle: list[Found] = []
    kit: dict[str, list[Found]] = {fault: [] for fault in EXPECTED_IN_SIMULATION}
    for number in range(given.seeds):
        faults = tuple(kit) if number < given.kit_seeds else ("none",)
        found = audit_seed(given.first_seed + number, given.scenes, faults)
        oracle.append(found["none"])
        for fault, one in found.items() if len(found) > 1 else ():
            kit[fault].append(one)
        print(f"seed {given.first_seed + number} audited", file=sys.stderr, flush=True)
    last = given.first_seed + given.seeds - 1
    print(
        f"Seeds {given.first_seed} to {last}: {len(TASKS)} tasks, {given.scenes} scenes, {len(POLICIES)} policies"
    )
    flags = print_oracle(oracle)
    if given.kit_seeds:
        print_kit(kit)
        print_agreement(given.first_seed, given.scenes)
    sys.exit(flags > MOST_FLAGS)


if __name__ == "__main__":
    main()
