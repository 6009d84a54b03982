"""All-prefix OPD in one pass against the per-prefix loops of the published code.

    python -m benchmarks.speed.opd_prefixes [--curves 1000] [--steps 200]

The baseline is the algorithm of PRM-as-a-Judge's step-metrics script: for every prefix, plain Python loops
over its samples. It is timed on the first ``--baseline-curves`` of the curves and scaled to all of them,
since its cost is the same for each. Both give the same numbers, which is checked first.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from stepscore.metrics.opd import opd_prefixes
from stepscore.types import FloatArray

# Long enough that the fixed cost of a call does not flatter the growth.
LENGTHS = {"v1.0": 10_000, "v1.5": 10_000, "robust": 1_000}


def looped_prefixes(progress: list[float]) -> list[dict[str, float]]:
    """OPD v1.0 of every prefix, each from scratch."""
    return [looped(progress[: end + 1]) for end in range(len(progress))]


def looped(progress: list[float]) -> dict[str, float]:
    best = max(progress)
    values = {f"MC{round(100 * q)}": 1.0 if best >= q else 0.0 for q in (0.25, 0.5, 0.75, 1.0)}
    path, before = 0.0, 0.0
    for value in progress:
        path += abs(value - before)
        before = value
    regret, peak = 0.0, 0.0
    for value in progress:
        peak = max(peak, value)
        regret += max(0.0, peak - value)
    still, before = 0, 0.0
    for value in progress:
        if abs(value - before) < 0.005:
            still += 1
        before = value
    values |= {"MP": best, "PPL": progress[-1] * (progress[-1] / path) if path > 1e-9 else 0.0}
    values |= {"CRA": regret / len(progress), "STR": still / len(progress)}
    return values


def seconds(work: Callable[[], object], repeats: int) -> float:
    """Return the shortest of several runs, the least disturbed one."""
    spent = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        spent.append(time.perf_counter() - start)
    return min(spent)


def curves(count: int, steps: int) -> FloatArray:
    walk = np.random.default_rng(0).normal(0.004, 0.02, (count, steps)).cumsum(axis=1)
    return np.clip(walk, 0.0, 1.0)


def doubling(revision: str, steps: int, repeats: int) -> float:
    """How many times as long a curve of twice the steps takes."""
    short, long = curves(1, steps)[0], curves(1, 2 * steps)[0]
    once, twice = (seconds(partial(opd_prefixes, p, revision), repeats) for p in (short, long))
    return twice / once


def measure(
    count: int, steps: int, baseline_curves: int, repeats: int = 5, *, growth: bool = True
) -> dict[str, float]:
    """Seconds per curve of the loops, of one call a curve and of one call for all; and how time grows."""
    batch = curves(count, steps)
    lists = batch[:baseline_curves].tolist()
    one_pass, by_loop = opd_prefixes(batch[0], "v1.0"), looped_prefixes(lists[0])
    for name in by_loop[0]:
        np.testing.assert_allclose(one_pass[name], [row[name] for row in by_loop], atol=1e-12)
    loops = seconds(lambda: [looped_prefixes(curve) for curve in lists], 2) / len(lists)
    single = seconds(lambda: [opd_prefixes(curve, "v1.0") for curve in batch], repeats) / count
    together = seconds(lambda: opd_prefixes(batch, "v1.0"), repeats) / count
    grown = {f"growth {name}": doubling(name, steps, repeats) for name, steps in LENGTHS.items() if growth}
    return {"loops": loops, "a call each": single, "one call": together, **grown}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--curves", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--baseline-curves", type=int, default=30)
    options = parser.parse_args()
    found = measure(options.curves, options.steps, options.baseline_curves)
    print(f"all-prefix OPD v1.0, {options.curves} curves of {options.steps} steps")
    print(f"(loops timed on {options.baseline_curves} curves and scaled)\n")
    print(f"{'way':24} {'us a curve':>12} {'times as fast':>14}")
    for way in ("loops", "a call each", "one call"):
        print(f"{way:24} {1e6 * found[way]:12.1f} {found['loops'] / found[way]:14.0f}")
    print(f"\n{'twice the length':24} {'takes x times':>12}")
    for name, value in found.items():
        if name.startswith("growth"):
            print(f"{name.removeprefix('growth '):24} {value:12.2f}")


if __name__ == "__main__":
    main()
