"""How often the tests of means reject at 5 % when the true difference is 0: tables of docs/measurements/intervals.md.

Run: ``python -m benchmarks.tables.false_alarms`` (about two minutes of one core), or with ``--quick`` for a
tenth of the draws. Every cell is simulated with a seed of its own. ``compare_paired`` and ``compare_unpaired`` report
the larger of two p-values, so a sample is rejected when both tests reject it; the second is run where the first does.
"""

from __future__ import annotations

import argparse
import math
import zlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from scipy import stats

from benchmarks.tables.interval_coverage import table
from stepscore.metrics.stats.sample import difference_of, draw_sample, mean_of
from stepscore.metrics.stats.significance import Stratum, permutation_test, sign_flip_test
from stepscore.metrics.stats.studentised import bootstrap_t_test

SIZES = (6, 10, 20, 30, 50)
LEVEL = 0.05
Law = Callable[[np.random.Generator, int], np.ndarray]
Rejects = Callable[[np.random.Generator, int], bool]

LAWS: dict[str, Law] = {
    "log-normal": lambda rng, n: rng.lognormal(size=n) - math.exp(0.5),
    "log-normal, sigma 1.5": lambda rng, n: rng.lognormal(0, 1.5, size=n) - math.exp(1.125),
    "Gaussian": lambda rng, n: rng.normal(size=n),
    "uniform": lambda rng, n: rng.random(n) - 0.5,
    "Student's t, 3 degrees of freedom": lambda rng, n: rng.standard_t(3, size=n),
    "beta(5, 1)": lambda rng, n: rng.beta(5, 1, size=n) - 5 / 6,
    "exponential": lambda rng, n: rng.exponential(size=n) - 1,
}
SKEWED, NORMAL = LAWS["log-normal"], LAWS["Gaussian"]


def shares(name: str, sizes: Sequence[int], draws: int, rejects: Rejects) -> list[object]:
    """One row: the share of samples rejected, for every size; name and size seed the simulation."""
    row: list[object] = [name]
    for n in sizes:
        rng = np.random.default_rng(zlib.crc32(f"{name} {n}".encode()))
        row.append(sum(rejects(rng, n) for _ in range(draws)) / draws)
    return row


# --- pairs


def paired(differences: np.ndarray, **groups: np.ndarray) -> bool:
    sample = draw_sample(differences, **groups)
    if sign_flip_test(sample.totals(sample.columns[0])).p_value > LEVEL:
        return False
    return bootstrap_t_test(mean_of(sample)).p_value <= LEVEL


def flipped(differences: np.ndarray) -> bool:
    return sign_flip_test(differences).p_value <= LEVEL


def by_task(rng: np.random.Generator, n: int) -> bool:
    return paired(SKEWED(rng, n), strata=np.arange(n) % 5)


def by_cluster(rng: np.random.Generator, n: int) -> bool:
    labels = np.repeat(np.arange(n), np.arange(n) % 5 + 1)
    return paired(SKEWED(rng, n)[labels] + SKEWED(rng, len(labels)), clusters=labels)


def pair_rows(draws: int) -> Iterator[list[object]]:
    for name, law in LAWS.items():
        # The log-normal is what is promised: four times the draws.
        more = 4 * draws if name == "log-normal" else draws
        yield shares(name, SIZES, more, lambda rng, n, law=law: paired(law(rng, n)))  # type: ignore[misc]
        if name.startswith("log-normal"):
            alone = f"{name}: sign-flip alone"
            yield shares(alone, SIZES, draws, lambda rng, n, law=law: flipped(law(rng, n)))  # type: ignore[misc]
    yield shares("log-normal, 5 tasks", SIZES, draws, by_task)
    yield shares("log-normal, n clusters of 1 to 5 pairs", SIZES, draws, by_cluster)


# --- arms

Arms = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]

ARMS: dict[str, Arms] = {
    "both Gaussian": lambda rng, n: (NORMAL(rng, n), NORMAL(rng, n)),
    "both log-normal": lambda rng, n: (SKEWED(rng, n), SKEWED(rng, n)),
    "log-normal, and mirrored": lambda rng, n: (SKEWED(rng, n), -SKEWED(rng, n)),
    "log-normal, and Gaussian of a tenth": lambda rng, n: (SKEWED(rng, n), 0.1 * NORMAL(rng, n)),
    "Gaussian of 3, and 2 n of 1": lambda rng, n: (3 * NORMAL(rng, n), NORMAL(rng, 2 * n)),
}


def stratum(a: np.ndarray, b: np.ndarray) -> list[Stratum]:
    return [Stratum(np.concatenate([a, b]), np.ones(len(a) + len(b)), len(a), 1.0)]


def unpaired(a: np.ndarray, b: np.ndarray) -> bool:
    difference = difference_of(mean_of(draw_sample(a)), mean_of(draw_sample(b)))
    if bootstrap_t_test(difference).p_value > LEVEL:
        return False
    return permutation_test(stratum(a, b)).p_value <= LEVEL


def permuted(a: np.ndarray, b: np.ndarray) -> bool:
    return permutation_test(stratum(a, b), studentised=False).p_value <= LEVEL


def arm_rows(draws: int) -> Iterator[list[object]]:
    for name, law in ARMS.items():
        yield shares(name, SIZES, draws, lambda rng, n, law=law: unpaired(*law(rng, n)))  # type: ignore[misc]
    for name in list(ARMS)[-2:]:
        alone, law = f"{name}: plain permutation alone", ARMS[name]
        yield shares(alone, SIZES, draws, lambda rng, n, law=law: permuted(*law(rng, n)))  # type: ignore[misc]


# --- power


def power_rows(draws: int) -> Iterator[list[object]]:
    """Where a t test finds a Gaussian shift in about 80 % of the samples, how often these do."""
    tests: dict[str, Callable[[np.ndarray], bool]] = {
        "t test": lambda x: bool(stats.ttest_1samp(x, 0).pvalue <= LEVEL),
        "sign-flip alone": flipped,
        "sign-flip and bootstrap-t": paired,
    }

    def shifted(rng: np.random.Generator, n: int) -> np.ndarray:
        return rng.normal((stats.t.ppf(0.975, n - 1) + stats.t.ppf(0.8, n - 1)) / math.sqrt(n), size=n)

    for name, test in tests.items():
        yield shares(name, SIZES, draws, lambda rng, n, test=test: test(shifted(rng, n)))  # type: ignore[misc]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the draws")
    scale = 10 if parser.parse_args().quick else 1
    print("Share of samples rejected at 5 %, in percent.")
    sizes = [f"n = {n}" for n in SIZES]
    table("Pairs: differences of mean 0", ["differences", *sizes], pair_rows(500 // scale))
    table("Arms of one mean, n episodes in the first", ["arms", *sizes], arm_rows(300 // scale))
    table("Power: Gaussian differences with a shift", ["test", *sizes], power_rows(300 // scale))


if __name__ == "__main__":
    main()
