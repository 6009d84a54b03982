"""How often intervals of a judge's error cover the truth: tables of docs/measurements/intervals.md.

Run: ``python -m benchmarks.tables.judge_errors`` (about five minutes of one core), or with ``--quick`` for a tenth
of the draws. An episode is judged wrong with the error rate: all errors are false alarms (one-sided), or half of them
are misses (two-sided). In scenes, the error rate of a scene is beta-distributed with the ICC given, and all errors of
a scene are of one kind. The last table also has the false alarms of "the judge favours a policy".
"""

from __future__ import annotations

import argparse
import itertools
import math
import zlib
from collections.abc import Iterator

import numpy as np
from scipy import stats

from benchmarks.tables.interval_coverage import ICCS, table
from stepscore.metrics.stats import compare_errors, error_estimate, rate_estimate
from stepscore.metrics.stats.comparison_result import bonett_price_interval
from stepscore.types import Estimate

RATES = (0.02, 0.05, 0.10)
SIDES = ("one-sided", "two-sided")
SCENES = {
    "25 in 12 scenes of 2 and one of 1": [2] * 12 + [1],
    "25 in 10 scenes of 1 to 5": [1, 1, 1, 2, 2, 2, 3, 3, 5, 5],
    "100 in 50 scenes of 2": [2] * 50,
    "100 in 20 scenes of 5": [5] * 20,
    "100 in 20 scenes of 1 to 9": [1, 2, 3, 4, 5, 5, 6, 7, 8, 9] * 2,
    "100 in 10 scenes of 10": [10] * 10,
}


def expected(rate: float, side: str) -> float:
    """The mean error."""
    return rate if side == "one-sided" else 0.0


def errors_in_scenes(
    rng: np.random.Generator, scenes: np.ndarray, rate: float, icc: float, side: str
) -> np.ndarray:
    """A judge's error on each episode, its scene given as a number."""
    size, scale = int(scenes.max()) + 1, (1 - icc) / icc if icc else math.inf
    chance = rng.beta(rate * scale, (1 - rate) * scale, size) if icc else np.full(size, rate)
    sign = np.ones(size) if side == "one-sided" else rng.choice([-1.0, 1.0], size)
    return sign[scenes] * (rng.random(len(scenes)) < chance[scenes])


def former_interval(errors: np.ndarray, scenes: np.ndarray | None = None) -> Estimate:
    """Errors of one sign as a rate, which this table is made against."""
    sign = -1.0 if errors.sum() < 0 else 1.0
    found = rate_estimate(sign * errors, clusters=scenes)
    lo = -found.hi if not errors.any() else found.lo
    ends = (lo, found.hi) if sign > 0 else (-found.hi, -lo)
    return Estimate(sign * found.value, *ends, found.n, found.clusters, found.coverage, found.method)


def independent(n: int, rate: float, side: str) -> tuple[float, float]:
    """Exact coverage over all numbers of false alarms and misses: the former interval, and Bonett-Price."""
    up, truth = (rate, rate) if side == "one-sided" else (rate / 2, 0.0)
    law = [up, rate - up, 1 - rate]
    counts = np.array([(j, k, n - j - k) for j in range(n + 1) for k in range(n + 1 - j)])
    weights = stats.multinomial.pmf(counts, n, law)
    found = np.zeros(2)
    for (false_alarms, misses, right), weight in zip(counts.tolist(), weights.tolist(), strict=True):
        if weight < 1e-9:
            continue
        lo, hi = bonett_price_interval(false_alarms, misses, n, 0.95)[0]
        found[1] += weight * (lo <= truth <= hi)
        if false_alarms and misses:  # a bootstrap, taken at its word
            found[0] += weight * 0.95
        else:
            former = former_interval(np.repeat([1.0, -1.0, 0.0], [false_alarms, misses, right]))
            found[0] += weight * (former.lo <= truth <= former.hi)
    return float(found[0]), float(found[1])


def clustered(design: str, rate: float, icc: float, side: str, draws: int) -> float:
    """Share of drawn samples whose interval covers the mean error."""
    sizes, truth = SCENES[design], expected(rate, side)
    scenes = np.repeat(np.arange(len(sizes)), sizes)
    rng = np.random.default_rng(zlib.crc32(f"{design} {rate} {icc} {side}".encode()))
    hits = 0
    for _ in range(draws):
        found = error_estimate(errors_in_scenes(rng, scenes, rate, icc, side), clusters=scenes)
        hits += found.lo <= truth <= found.hi
    return hits / draws


def difference(
    scenes: int, trials: int, rates: tuple[float, float], side: str, *, shared: bool, draws: int
) -> tuple[float, float]:
    """Coverage of the difference of two policies' errors, and share of samples with p <= 0.05.

    Half of the chance of an error is the scene's, which both policies have in common where they share scenes.
    """
    rng = np.random.default_rng(zlib.crc32(f"{scenes} {trials} {rates} {side} {shared}".encode()))
    truth = expected(rates[0], side) - expected(rates[1], side)
    scene = np.repeat(np.arange(scenes), trials)
    keys = ([("t", i) for i in scene], [("t", i if shared else i + scenes) for i in scene])
    strata = (["t"] * len(scene), ["t"] * len(scene))
    hits = alarms = 0
    for _ in range(draws):
        ease, sign = rng.random(scenes), rng.choice([-1.0, 1.0], scenes)
        arms = []
        for rate in rates:
            own = ease if shared else rng.random(scenes)
            wrong = rng.random(len(scene)) < 2 * rate * (own[scene] < 0.5)
            arms.append(wrong * (1.0 if side == "one-sided" else sign[scene]))
        found, test = compare_errors(
            *arms, keys=keys, strata=strata, clusters=([k for _, k in keys[0]], [k for _, k in keys[1]])
        )
        hits += found.lo <= truth <= found.hi
        alarms += test.p_value <= 0.05
        assert (test.p_value <= 0.05) == (not found.lo <= 0 <= found.hi)
    return hits / draws, alarms / draws


def difference_rows(draws: int) -> Iterator[list[object]]:
    for shared, (scenes, trials) in itertools.product((True, False), ((25, 1), (100, 1), (12, 2), (20, 5))):
        name = f"{scenes} scenes, {'both policies' if shared else 'of its own each'}, {trials} a scene"
        covered, alarms = [], []
        for side in SIDES:
            for rate in RATES:
                for other in (rate, 0.0):
                    hit, alarm = difference(scenes, trials, (rate, other), side, shared=shared, draws=draws)
                    covered.append(hit)
                    if other == rate:
                        alarms.append(alarm)
        yield [name, min(covered), max(alarms)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the draws")
    scale = 10 if parser.parse_args().quick else 1
    rates = [f"rate {rate}" for rate in RATES]
    rows: list[list[object]] = []
    for n, side in itertools.product((25, 100), SIDES):
        cells = [independent(n, rate, side) for rate in RATES]
        rows += [[n, side, "as a rate", *(former for former, _ in cells)]]
        rows += [[n, side, "Bonett-Price", *(now for _, now in cells)]]
    table("Errors of a judge, independent episodes (exact)", ["n", "errors", "interval", *rates], rows)
    rows = []
    for design, side in itertools.product(SCENES, SIDES):
        found = [[clustered(design, rate, icc, side, 1000 // scale) for icc in ICCS] for rate in RATES]
        rows.append([design, side, *(min(cells) for cells in found)])
    table(
        "Errors of a judge, episodes in scenes: lowest over ICC 0, 0.2, 0.5 and 0.8",
        ["n", "errors", *rates],
        rows,
    )
    header = ["episodes of a policy", "lowest coverage", "most false alarms at 0.05"]
    table(
        "Difference of two policies' errors: over rates, sides, and the other policy as wrong or never",
        header,
        difference_rows(1500 // scale),
    )


if __name__ == "__main__":
    main()
