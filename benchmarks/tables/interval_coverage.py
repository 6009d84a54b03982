"""How often nominal 95 % intervals cover the truth: the tables of docs/measurements/intervals.md.

Run: ``python -m benchmarks.tables.interval_coverage`` (about fifteen minutes on two busy cores), or with ``--quick``
for a tenth of the draws. Rates are enumerated exactly where the outcomes can be counted; the rest is
simulated with fixed seeds.
"""

from __future__ import annotations

import argparse
import itertools
import math
import zlib
from collections.abc import Callable, Iterable, Sequence
from functools import cache

import numpy as np
from scipy import stats

from stepscore.metrics.stats import (
    clopper_pearson_interval,
    compare_paired,
    compare_unpaired,
    mean_estimate,
    rate_estimate,
    statistic_estimate,
    wilson_interval,
)
from stepscore.metrics.stats.comparison_result import bonett_price_interval, newcombe_interval
from stepscore.metrics.stats.intervals import robust_t_interval
from stepscore.metrics.stats.sample import draw_sample, mean_of
from stepscore.types import Estimate

Draw = Callable[[np.random.Generator], Estimate]

ICCS = (0.0, 0.2, 0.5, 0.8)
UNEQUAL = {
    "20 clusters of 1 to 10": [*range(1, 11)] * 2,
    "40 clusters of 1 to 25, most small": [1] * 12 + [2] * 10 + [3] * 6 + [5] * 6 + [10] * 4 + [25] * 2,
    "20 clusters, 19 of 1 and one of 20": [1] * 19 + [20],
    "10 clusters of 1 to 10": [*range(1, 11)],
}


def coverage(name: str, truth: float, draws: int, draw: Draw) -> float:
    """Share of drawn estimates whose interval holds the truth; the name seeds the simulation."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    hits = 0
    for _ in range(draws):
        estimate = draw(rng)
        hits += estimate.lo <= truth <= estimate.hi
    return hits / draws


def table(title: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    print(f"\n### {title}\n")
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for row in rows:
        cells = (f"{100 * cell:.1f}" if isinstance(cell, float) else str(cell) for cell in row)
        print("| " + " | ".join(cells) + " |", flush=True)


def span(cells: Sequence[float]) -> str:
    return f"{100 * min(cells):.1f} to {100 * max(cells):.1f}"


# --- rates of independent episodes


def independent_rates() -> None:
    rates = np.arange(5, 96) / 100
    rows = []
    for name, interval in (("wilson", wilson_interval), ("clopper-pearson", clopper_pearson_interval)):
        means, lowest = [], []
        for n in range(10, 201):
            ends = np.array([interval(k, n) for k in range(n + 1)])
            inside = (ends[:, :1] <= rates) & (rates <= ends[:, 1:])
            at_rate = (stats.binom.pmf(np.arange(n + 1)[:, None], n, rates) * inside).sum(axis=0)
            means.append(float(at_rate.mean()))
            lowest.append(float(at_rate.min()))
        rows.append([name, min(means), max(means), min(lowest)])
    table(
        "Rates of independent episodes, n = 10..200, rates 0.05..0.95 by 0.01 (exact)",
        ["interval", "lowest average over rates", "highest average", "lowest at any rate and n"],
        rows,
    )


# --- clusters


def plain_t(outcomes: np.ndarray, clusters: np.ndarray) -> tuple[float, float]:
    """The cluster-robust t interval of a rate, not in Wilson's form."""
    return robust_t_interval(mean_of(draw_sample(outcomes, clusters=clusters)), 0.95)


def in_wilsons_form(outcomes: np.ndarray, clusters: np.ndarray) -> tuple[float, float]:
    estimate = rate_estimate(outcomes, clusters=clusters)
    return estimate.lo, estimate.hi


@cache
def every_outcome(
    clusters: int, size: int, interval: Callable[[np.ndarray, np.ndarray], tuple[float, float]]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All ways ``clusters`` can have 0..size successes each, their log multiplicity, and their intervals."""
    bars = itertools.combinations(range(clusters + size), size)
    counts = np.array([np.diff([-1, *bar, clusters + size]) - 1 for bar in bars])
    labels = np.repeat(np.arange(clusters), size)
    ends = []
    for row in counts:
        successes = np.repeat(np.arange(size + 1), row)
        ends.append(interval((np.arange(size) < successes[:, None]).ravel(), labels))
    log_factorial = np.cumsum(np.log(np.maximum(np.arange(clusters + 1), 1)))
    return counts, log_factorial[clusters] - log_factorial[counts].sum(axis=1), np.array(ends)


def enumerated_rate(
    clusters: int,
    size: int,
    rate: float,
    icc: float,
    interval: Callable[[np.ndarray, np.ndarray], tuple[float, float]] = in_wilsons_form,
) -> float:
    counts, log_ways, ends = every_outcome(clusters, size, interval)
    scale = (1 - icc) / icc if icc else math.inf
    law = (
        stats.betabinom.pmf(np.arange(size + 1), size, rate * scale, (1 - rate) * scale)
        if icc
        else stats.binom.pmf(np.arange(size + 1), size, rate)
    )
    inside = (ends[:, 0] <= rate) & (rate <= ends[:, 1])
    return float(np.exp(log_ways + counts @ np.log(law)) @ inside)


def clustered_rate(sizes: np.ndarray, rate: float, icc: float) -> Draw:
    labels = np.repeat(np.arange(len(sizes)), sizes)
    scale = (1 - icc) / icc if icc else math.inf

    def draw(rng: np.random.Generator) -> Estimate:
        chance = rng.beta(rate * scale, (1 - rate) * scale, size=len(sizes))[labels] if icc else rate
        return rate_estimate(rng.random(len(labels)) < chance, clusters=labels)

    return draw


def clustered_gaussian(sizes: np.ndarray, icc: float, tasks: int = 1) -> Draw:
    labels = np.repeat(np.arange(len(sizes)), sizes)
    task = labels % tasks

    def draw(rng: np.random.Generator) -> Estimate:
        shared = math.sqrt(icc) * rng.normal(size=len(sizes))[labels]
        values = shared + math.sqrt(1 - icc) * rng.normal(size=len(labels)) + 3.0 * (task - task.mean())
        return mean_estimate(values, clusters=labels, strata=task)

    return draw


def equal_clusters(draws: int) -> None:
    rows: list[list[object]] = []
    for rate, clusters in itertools.product((0.05, 0.1, 0.2, 0.35, 0.5, 0.8), (20, 50)):
        row: list[object] = [f"rate {rate}", clusters]
        for icc in ICCS:
            of_ten = clustered_rate(np.full(clusters, 10), rate, icc)
            cells = [enumerated_rate(clusters, size, rate, icc) for size in (2, 3)]
            cells.append(coverage(f"rate {rate} {clusters} {icc}", rate, draws, of_ten))
            row.append(span(cells))
        rows.append(row)
    for tasks, clusters in itertools.product((1, 5), (20, 50)):
        row = [f"Gaussian, {tasks} task{'s' * (tasks > 1)}", clusters]
        for icc in ICCS:
            sizes = [np.full(clusters, size) for size in (2, 3, 10)]
            names = [f"gauss {tasks} {clusters} {size[0]} {icc}" for size in sizes]
            laws = [clustered_gaussian(size, icc, tasks) for size in sizes]
            cells = [coverage(name, 0.0, draws // 2, law) for name, law in zip(names, laws, strict=True)]
            row.append(span(cells))
        rows.append(row)
    table(
        "Means of equal clusters: lowest to highest over clusters of 2, 3 and 10 episodes",
        ["data", "clusters", *(f"ICC {icc}" for icc in ICCS)],
        rows,
    )


def wilsons_form() -> None:
    rows = []
    for rate in (0.05, 0.1, 0.2, 0.5):
        for name, interval in (("p +- t SE", plain_t), ("Wilson's form", in_wilsons_form)):
            cells = [enumerated_rate(20, 2, rate, icc, interval) for icc in ICCS]
            rows.append([f"rate {rate}", name, *cells])
    header = ["data", "interval", *(f"ICC {icc}" for icc in ICCS)]
    table("Why Wilson's form: rates in 20 clusters of 2 (exact)", header, rows)


def unequal_clusters(draws: int) -> None:
    rows: list[list[object]] = []
    for name, sizes in UNEQUAL.items():
        design = np.array(sizes)
        cells = [coverage(f"{name} {icc}", 0.0, draws, clustered_gaussian(design, icc)) for icc in ICCS]
        rows.append([name, "Gaussian", *cells])
        for rate in (0.05, 0.1, 0.3, 0.5):
            laws = [clustered_rate(design, rate, icc) for icc in ICCS]
            cells = [
                coverage(f"{name} {rate} {icc}", rate, draws, law)
                for icc, law in zip(ICCS, laws, strict=True)
            ]
            rows.append([name, f"rate {rate}", *cells])
    table("Means of unequal clusters", ["clusters", "data", *(f"ICC {icc}" for icc in ICCS)], rows)


# --- bootstrap


def by_size(
    title: str,
    sizes: Sequence[int],
    draws: int,
    cases: dict[str, tuple[float, Callable[[np.random.Generator, int], Estimate]]],
) -> None:
    """One row a case, one column a sample size."""
    rows = []
    for name, (truth, estimate) in cases.items():
        cells = []
        for n in sizes:

            def draw(rng: np.random.Generator, n: int = n, estimate: Callable = estimate) -> Estimate:
                return estimate(rng, n)

            cells.append(coverage(f"{name} {n}", truth, draws, draw))
        rows.append([name, *cells])
    table(title, ["what", *(f"n = {n}" for n in sizes)], rows)


def scipys(values: np.ndarray, rng: np.random.Generator) -> Estimate:
    found = stats.bootstrap((values,), np.mean, n_resamples=2000, method="BCa", rng=rng).confidence_interval
    return Estimate(float(values.mean()), found.low, found.high, len(values), len(values), 1.0, "scipy BCa")


def bootstrap_means(draws: int) -> None:
    by_size(
        "BCa bootstrap, means of independent episodes",
        (5, 10, 20, 50),
        draws,
        {
            "Gaussian": (0.0, lambda rng, n: mean_estimate(rng.normal(size=n))),
            "Gaussian, plain BCa (scipy)": (0.0, lambda rng, n: scipys(rng.normal(size=n), rng)),
            "Gaussian, 2 episodes a task": (
                0.0,
                lambda rng, n: mean_estimate(rng.normal(size=n), strata=np.arange(n) // 2),
            ),
            "beta(5, 1), near the top": (5 / 6, lambda rng, n: mean_estimate(rng.beta(5, 1, size=n))),
            "beta(5, 1), plain BCa (scipy)": (5 / 6, lambda rng, n: scipys(rng.beta(5, 1, size=n), rng)),
            "beta(0.5, 0.5), at both ends": (0.5, lambda rng, n: mean_estimate(rng.beta(0.5, 0.5, size=n))),
            "log-normal, heavy tail": (math.exp(0.5), lambda rng, n: mean_estimate(rng.lognormal(size=n))),
        },
    )


def spearman(x: np.ndarray, y: np.ndarray) -> float:
    ranks = []
    for values in (x, y):
        ordered = np.sort(values)
        ranks.append(np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right"))
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def bootstrap_others(draws: int) -> None:
    def pairs(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        x = rng.normal(size=n)
        return x, 0.6 * x + 0.8 * rng.normal(size=n)

    def clustered_median(rng: np.random.Generator, clusters: int) -> Estimate:
        labels = np.repeat(np.arange(clusters), 5)
        values = rng.normal(size=clusters)[labels] + rng.normal(size=len(labels))
        return statistic_estimate(np.median, values, clusters=labels, resamples=1000)

    by_size(
        "BCa bootstrap, other statistics",
        (10, 20, 50),
        draws,
        {
            "median, Gaussian": (
                0.0,
                lambda rng, n: statistic_estimate(np.median, rng.normal(size=n), resamples=1000),
            ),
            "median, n clusters of 5, ICC 0.5": (0.0, clustered_median),
            "Spearman's rho of 0.58": (
                6 / math.pi * math.asin(0.3),
                lambda rng, n: statistic_estimate(spearman, pairs(rng, n), resamples=1000),
            ),
        },
    )


# --- comparison


def rate_differences() -> None:
    """Exact: all pairs of counts for two arms, all numbers of pairs won and lost for pairs."""
    sizes, rows = (10, 20, 50), []
    for rate_a, rate_b in ((0.5, 0.5), (0.6, 0.4), (0.9, 0.6), (0.1, 0.05)):
        cells = []
        for n in sizes:
            laws = [stats.binom.pmf(np.arange(n + 1), n, rate) for rate in (rate_a, rate_b)]
            total = 0.0
            for j, k in itertools.product(range(n + 1), repeat=2):
                lo, hi = newcombe_interval(j / n, n, k / n, n, 0.95)[0]
                total += laws[0][j] * laws[1][k] * (lo <= rate_a - rate_b <= hi)
            cells.append(float(total))
        rows.append([f"arms of rate {rate_a} and {rate_b} (Newcombe)", *cells])
    for won, lost in ((0.2, 0.2), (0.3, 0.1), (0.5, 0.05), (0.05, 0.05)):
        cells = []
        for n in sizes:
            total = 0.0
            for j in range(n + 1):
                for k in range(n + 1 - j):
                    lo, hi = bonett_price_interval(j, k, n, 0.95)[0]
                    if lo <= won - lost <= hi:
                        total += stats.multinomial.pmf([j, k, n - j - k], n, [won, lost, 1 - won - lost])
            cells.append(float(total))
        rows.append([f"pairs, {won} won and {lost} lost (Bonett-Price)", *cells])
    table("Differences of rates (exact)", ["what", *(f"n = {n}" for n in sizes)], rows)


def mean_differences(draws: int) -> None:
    def arms(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        return rng.beta(3, 1, size=n), rng.beta(2, 2, size=n)

    # The means are 3/4 and 1/2; P(beta(3, 1) > beta(2, 2)) = E[1 - y^3] = 1 - 0.2.
    by_size(
        "Differences of means and probability of improvement, beta(3, 1) against beta(2, 2)",
        (10, 20, 50),
        draws,
        {
            "difference, arms": (0.25, lambda rng, n: compare_unpaired(*arms(rng, n)).difference),
            "difference, pairs": (0.25, lambda rng, n: compare_paired(*arms(rng, n)).difference),
            "probability of improvement, arms": (
                0.8,
                lambda rng, n: compare_unpaired(*arms(rng, n)).probability_of_improvement,
            ),
            "probability of improvement, pairs": (
                0.8,
                lambda rng, n: compare_paired(*arms(rng, n)).probability_of_improvement,
            ),
        },
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the draws")
    scale = 10 if parser.parse_args().quick else 1
    print("Coverage of nominal 95 % intervals, in percent.")
    independent_rates()
    equal_clusters(4000 // scale)
    wilsons_form()
    unequal_clusters(2000 // scale)
    bootstrap_means(2000 // scale)
    bootstrap_others(400 // scale)
    rate_differences()
    mean_differences(1000 // scale)


if __name__ == "__main__":
    main()
