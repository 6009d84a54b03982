"""How often numbers on a few fixed scenes err: tables of docs/measurements/intervals.md.

Run: ``python -m benchmarks.tables.few_scenes`` (about two minutes of one core), or with ``--quick`` for a tenth of
the draws. The rate of a scene is ``base + SD z`` with a normal ``z``, cut at 0 and 1. Two policies share the scene
effects ``z``, or each has its own. The truth is the rate, or the difference, that the same numbers of trials in the
same scenes have on average.
"""

from __future__ import annotations

import argparse
import itertools
import zlib
from collections.abc import Iterator
from functools import cache

import numpy as np
from scipy import stats

from benchmarks.tables.interval_coverage import table
from stepscore.metrics.stats import compare_within_scenes, estimate_within_scenes
from stepscore.metrics.stats.comparisons.within_scenes_rates import RatesWithinScenes
from stepscore.types import Estimate, FloatArray, IntArray

Design = tuple[tuple[int, ...], tuple[int, ...]]
"""Trials of A and of B in each scene."""

DEVIATIONS = (0.0, 0.2, 0.4)
BASES = (0.1, 0.3, 0.5)
RATES = tuple(round(0.05 * step, 2) for step in range(1, 20))
GAPS = (0.0, 0.2, 0.5, 0.8)
DESIGNS: dict[str, Design] = {
    "4 scenes of 3": ((3,) * 4, (3,) * 4),
    "6 scenes of 3": ((3,) * 6, (3,) * 6),
    "2 scenes of 6": ((6,) * 2, (6,) * 2),
    "3 scenes of 20": ((20,) * 3, (20,) * 3),
    "4 scenes of 1, 2, 3, 6; of 3": ((1, 2, 3, 6), (3,) * 4),
    "3 scenes of 2, 5, 9; of 6, 5, 3": ((2, 5, 9), (6, 5, 3)),
    "5 scenes of 1, 1, 2, 4, 8; of 8, 4, 2, 1, 1": ((1, 1, 2, 4, 8), (8, 4, 2, 1, 1)),
}
MEANS = ("4 scenes of 3", "3 scenes of 20", "4 scenes of 1, 2, 3, 6; of 3")
TWELVE: dict[str, Design] = {
    "1 scene of 12": ((12,), (12,)),
    "2 scenes of 6": ((6,) * 2, (6,) * 2),
    "3 scenes of 4": ((4,) * 3, (4,) * 3),
    "4 scenes of 3": ((3,) * 4, (3,) * 4),
    "6 scenes of 2": ((2,) * 6, (2,) * 6),
    "4 scenes of 1, 2, 3, 6; of 3": ((1, 2, 3, 6), (3,) * 4),
}


def seeded(*name: object) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(" ".join(map(str, name)).encode()))


def labels_of(trials: tuple[int, ...]) -> list[int]:
    return np.repeat(range(len(trials)), trials).tolist()


def weights_of(design: Design) -> FloatArray:
    n, m = (np.array(trials) for trials in design)
    return n * m / (n + m) / np.sum(n * m / (n + m))


@cache
def rate(won: int, trials: tuple[int, ...]) -> Estimate:
    """Return the estimate for a number of successes; their scenes do not change it."""
    return estimate_within_scenes(np.arange(sum(trials)) < won, scenes=labels_of(trials))


def tried(won: tuple[tuple[int, ...], ...], design: Design) -> RatesWithinScenes:
    (a, b), (n, m) = (map(np.array, pair) for pair in (won, design))
    return RatesWithinScenes(a, n, b, m)


@cache
def interval(won: tuple[tuple[int, ...], ...], design: Design) -> tuple[float, float]:
    """The interval of the difference of two policies' rates, as ``compare_within_scenes`` gives it."""
    return tried(won, design).interval(0.95)


@cache
def p_value(won: tuple[tuple[int, ...], ...], design: Design) -> float:
    """The p-value of the same."""
    return tried(won, design).test().p_value


def rate_coverage(trials: tuple[int, ...], base: float, deviation: float, draws: int) -> float:
    """Share of intervals of one policy's rate that hold the truth."""
    rng, n = seeded("rate", trials, base, deviation), np.array(trials)
    p = np.clip(base + deviation * rng.normal(size=(draws, len(n))), 0, 1)
    truth, won = p @ n / n.sum(), rng.binomial(n, p).sum(axis=1)
    ends = [rate(int(k), trials) for k in won]
    return float(np.mean([e.lo <= t <= e.hi for e, t in zip(ends, truth, strict=True)]))


def scene_rates(
    design: Design, bases: tuple[float, float], deviation: float, draws: int, *, shared: bool = True
) -> tuple[FloatArray, FloatArray, list[IntArray]]:
    """Rates of A and of B in each scene, and their successes: a row per draw."""
    rng = seeded("rates", design, bases, deviation, shared)
    effects = rng.normal(size=(draws, len(design[0])))
    own = effects if shared else rng.normal(size=effects.shape)
    p, q = (np.clip(base + deviation * z, 0, 1) for base, z in zip(bases, (effects, own), strict=True))
    return p, q, [rng.binomial(n, rates) for n, rates in zip(design, (p, q), strict=True)]


def each(won: list[IntArray]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The successes of each draw, A's and B's."""
    yield from zip(map(tuple, won[0].tolist()), map(tuple, won[1].tolist()), strict=True)


def covered(
    design: Design, bases: tuple[float, float], deviation: float, draws: int, *, shared: bool = True
) -> float:
    """Share of intervals of the difference that hold the truth."""
    p, q, won = scene_rates(design, bases, deviation, draws, shared=shared)
    truth = ((p - q) @ weights_of(design)).tolist()
    ends = [interval(counts, design) for counts in each(won)]
    hits = [lo - 1e-9 <= true <= hi + 1e-9 for (lo, hi), true in zip(ends, truth, strict=True)]
    return sum(hits) / draws


def false_alarms(design: Design, base: float, deviation: float, draws: int) -> tuple[float, float]:
    """Share of draws of equal policies with p < 0.05, and that of Fisher's test, which ignores scenes."""
    _, _, won = scene_rates(design, (base, base), deviation, draws)
    within = sum(p_value(counts, design) < 0.05 for counts in each(won))
    ignored = sum(fisher(sum(a), sum(b), design) < 0.05 for a, b in each(won))
    return within / draws, ignored / draws


@cache
def fisher(a: int, b: int, design: Design) -> float:
    n, m = (sum(trials) for trials in design)
    return float(stats.fisher_exact([[a, n - a], [b, m - b]]).pvalue)


def decided(design: Design, deviation: float, draws: int) -> float:
    """Share of comparisons of 10 % with 93 % that are decided.

    Scene rates are beta-distributed about these, and multiplied so that the rate of all trials is just that.
    """
    rng = seeded("decided", design, deviation)

    def about(mean: float, trials: tuple[int, ...]) -> FloatArray:
        size, n = (draws, len(trials)), np.array(trials)
        if not deviation or len(trials) == 1:
            return np.full(size, mean)
        scale = mean * (1 - mean) / deviation**2 - 1
        drawn = rng.beta(mean * scale, (1 - mean) * scale, size) + 1e-9
        return np.clip(drawn * mean / (drawn @ n / n.sum())[:, None], 0, 1)

    # Failures of 7 % instead of successes of 93 %, so that none exceeds 1 by much.
    chances = (1 - about(0.07, design[0]), about(0.1, design[1]))
    won = [rng.binomial(n, rates) for n, rates in zip(design, chances, strict=True)]
    return sum(p_value(counts, design) < 0.05 for counts in each(won)) / draws


def progress(kind: str, rng: np.random.Generator, rates: FloatArray, trials: tuple[int, ...]) -> FloatArray:
    """Highest progress of each trial: Gaussian about the scene's rate, or .9 of successes and .3 of failures."""
    each = np.repeat(rates, trials)
    if kind == "Gaussian":
        return rng.normal(each, 0.15)
    return np.where(rng.random(len(each)) < each, 0.9, 0.3) + rng.normal(0, 0.03, len(each))


def means(design: Design, kind: str, gap: float, deviation: float, draws: int) -> tuple[float, float, float]:
    """Coverage of A's mean and of the difference, and share with p < 0.05."""
    rng, hits, n = seeded("means", design, kind, gap, deviation), np.zeros(3), np.array(design[0])
    slope = 1.0 if kind == "Gaussian" else 0.6
    scenes = (labels_of(design[0]), labels_of(design[1]))
    for _ in range(draws):
        effects = deviation * rng.normal(size=len(n))
        p, q = (np.clip(0.5 + sign * gap / 2 + effects, 0, 1) for sign in (1, -1))
        a, b = progress(kind, rng, p, design[0]), progress(kind, rng, q, design[1])
        mean, true = p @ n / n.sum(), slope * float((p - q) @ weights_of(design))
        mean = mean if kind == "Gaussian" else 0.3 + 0.6 * mean
        one = estimate_within_scenes(a, scenes=scenes[0], shares=True)
        two = compare_within_scenes(a, b, scenes=scenes)
        ends = two.difference
        hits += [one.lo <= mean <= one.hi, ends.lo <= true <= ends.hi, two.p_value < 0.05]
    covered, difference_covered, alarms = (hits / draws).tolist()
    return covered, difference_covered, alarms


def rate_rows(draws: int) -> Iterator[list[object]]:
    for name, design in DESIGNS.items():
        cells = [[rate_coverage(design[0], base, sd, draws) for base in RATES] for sd in DEVIATIONS]
        yield [name.partition(";")[0], *(float(np.mean(cell)) for cell in cells), *map(min, cells)]


def difference_rows(draws: int) -> Iterator[list[object]]:
    for name, design in DESIGNS.items():
        cells = []
        for sd, shared in itertools.product(DEVIATIONS, (True, False)):
            if sd or shared:
                pairs = [(0.5 + gap / 2, 0.5 - gap / 2) for gap in GAPS]
                cells.append(min(covered(design, pair, sd, draws, shared=shared) for pair in pairs))
        yield [name, *cells]


def alarm_rows(draws: int) -> Iterator[list[object]]:
    for name, design in DESIGNS.items():
        found = [[false_alarms(design, base, sd, draws) for base in BASES] for sd in DEVIATIONS]
        yield [
            name,
            *(max(cell[0] for cell in cells) for cells in found),
            *(max(cell[1] for cell in cells) for cells in found),
        ]


def mean_rows(draws: int) -> Iterator[list[object]]:
    for name, kind in itertools.product(MEANS, ("Gaussian", "two ends")):
        yield [name, kind, *means(DESIGNS[name], kind, 0.0, 0.4, draws)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the draws")
    scale = 10 if parser.parse_args().quick else 1
    deviations = [f"SD {sd}" for sd in DEVIATIONS]
    table(
        "Rate on these scenes: average and lowest coverage over rates 0.05 to 0.95",
        ["trials", *deviations, *(f"lowest, {sd}" for sd in deviations)],
        rate_rows(4000 // scale),
    )
    table(
        "Difference of two rates: lowest coverage over differences of 0, 0.2, 0.5 and 0.8",
        ["trials of A; of B", "SD 0", "SD 0.2", "own SD 0.2", "SD 0.4", "own SD 0.4"],
        difference_rows(500 // scale),
    )
    table(
        "False alarms of equal policies at 0.05: highest over rates 0.1, 0.3 and 0.5",
        ["trials of A; of B", *deviations, *(f"scenes ignored, {sd}" for sd in deviations)],
        alarm_rows(1000 // scale),
    )
    table(
        "10 % against 93 %, 12 trials each: share that is decided",
        ["trials of A; of B", "SD 0", "SD 0.2"],
        (
            [name, *(decided(design, sd, 4000 // scale) for sd in (0.0, 0.2))]
            for name, design in TWELVE.items()
        ),
    )
    table(
        "Highest progress, scene effects of SD 0.4: coverage, and false alarms of equal policies at 0.05",
        ["trials of A; of B", "progress", "mean of A", "difference", "false alarms"],
        mean_rows(200 // scale),
    )


if __name__ == "__main__":
    main()
