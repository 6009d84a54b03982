"""The audit on judges whose faults are known: false flags of an oracle from simulator truth, and planted faults.

    python -m benchmarks.audit.oracle [--seeds 20] [--kit-seeds 5] [--scenes 8] [--first-seed 61001]

Rollouts have no images: the oracle reads the simulator's truth, so probes that change pixels alone (cameras,
resolution, noise, compression, light) leave it unmoved by construction. It answers unknown on black images, which
nobody can see, and under instructions whose truth the simulator does not know. The planted judges spoil the same
truth, each in its way; what every probe must show of them is stated in ``tests/audit/planted_judges.py``. Exit code 1
where the oracle is flagged (a probe fails) in more than 5 % of all decisions. Needs the extra sim.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping

from benchmarks.audit.simulated_truth import COUNTERFACTUALS, POLICIES, TASKS, SimulatedTruth, simulate_truth
from stepscore.audit import PROBES, AuditPlan, Context, Outcome, ProbeResult, make_plan, probe_result
from stepscore.metrics.stats import wilson_interval
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
    decisions = Counter(result.outcome for one in found for result in one.values())
    total = sum(decisions.values())
    flags = decisions["fail"]
    low, high = wilson_interval(flags, total)
    print(
        f"\n{total} decisions: " + ", ".join(f"{decisions[name]} {name}" for name in OUTCOMES) + ".\n"
        f"False flags: {flags} of {total} = {100 * flags / total:.1f} % "
        f"[{100 * low:.1f}, {100 * high:.1f}] (at most {100 * MOST_FLAGS:g} %)"
    )
    return flags / total


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
    given = parser.parse_args()
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
    sys.exit(flags > MOST_FLAGS)


if __name__ == "__main__":
    main()
