"""Intervals of few episodes, before and now, and what their draws leave open: docs/measurements/intervals.md.

Run: ``python -m benchmarks.tables.small_samples`` (about four minutes of one core), or with ``--quick`` for a tenth
of the draws. *Before* is a BCa bootstrap of a mean, with scenes a cluster-robust t, and an AUC within tasks with
every scene drawn apart.
"""

from __future__ import annotations

import argparse
import math
import zlib
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.tables.interval_coverage import table
from stepscore.analysis import auc_estimate, auc_within_tasks
from stepscore.metrics import OF_COUNTS, average_ranks, balanced_accuracy
from stepscore.metrics.stats import compare_paired, mean_estimate, share_estimate, statistic_estimate
from stepscore.metrics.stats.sample import draw_sample, mean_of
from stepscore.metrics.stats.significance import sign_flip_test
from stepscore.metrics.stats.studentised import bootstrap_t_test
from stepscore.types import Estimate

Law = Callable[[np.random.Generator, int], np.ndarray]
Drawn = tuple[np.ndarray, np.ndarray | None, np.ndarray | None]
"""Values, scenes and tasks of the episodes of one sample."""


def mixed(
    share: float, at: float, a: float, b: float, scale: float = 1.0, start: float = 0.0
) -> tuple[Law, float]:
    """A share of the values at one point, the rest ``start + scale beta(a, b)``; and the mean."""

    def law(rng: np.random.Generator, n: int) -> np.ndarray:
        return np.where(rng.random(n) < share, at, start + scale * rng.beta(a, b, n))

    return law, share * at + (1 - share) * (start + scale * a / (a + b))


LAWS = {
    "CRA: beta(0.3, 4)": mixed(0, 0, 0.3, 4),
    "CRA: beta(0.5, 8)": mixed(0, 0, 0.5, 8),
    "CRA: 60 % at 0, else beta(1, 4)": mixed(0.6, 0, 1, 4),
    "STR: beta(0.5, 2)": mixed(0, 0, 0.5, 2),
    "MP: 50 % at 1, else beta(2, 3)": mixed(0.5, 1, 2, 3),
    "MP: 80 % at 1, else beta(2, 3)": mixed(0.8, 1, 2, 3),
    "PPL: uniform": mixed(0, 0, 1, 1),
    "0.6 + 0.4 beta(0.5, 5)": mixed(0, 0, 0.5, 5, 0.4, 0.6),
}
SIZES = (5, 10, 30)
UNEQUAL = [*range(1, 11)]


def before_and_now(name: str, truth: float, draws: int, draw: Callable[[np.random.Generator], Drawn]) -> str:
    """Coverage before and now, and how much wider the interval is on average; the name seeds the simulation."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    hits, widths, known = np.zeros(2), np.zeros(2), 0
    for _ in range(draws):
        values, scenes, tasks = draw(rng)
        found = [make(values, clusters=scenes, strata=tasks) for make in (mean_estimate, share_estimate)]
        if math.isnan(found[0].lo):
            continue
        known += 1
        hits += [one.lo <= truth <= one.hi for one in found]
        widths += [min(one.hi, 1.0) - max(one.lo, 0.0) for one in found]
    before, now = 100 * hits / known
    return f"{before:.1f} → {now:.1f} (× {widths[1] / widths[0]:.2f})"


def alone(name: str, n: int) -> tuple[float, Callable[[np.random.Generator], Drawn]]:
    """Independent episodes of one law."""
    law, truth = LAWS[name]
    return truth, lambda rng: (law(rng, n), None, None)


def of_progress(sizes: list[int], rate: float, icc: float) -> Callable[[np.random.Generator], Drawn]:
    """MP in scenes: a scene's rate of reaching 1 is beta-distributed, else progress is beta(2, 3)."""
    scenes, scale = np.repeat(np.arange(len(sizes)), sizes), (1 - icc) / icc

    def draw(rng: np.random.Generator) -> Drawn:
        chance = rng.beta(rate * scale, (1 - rate) * scale, len(sizes))[scenes]
        reached = rng.random(len(scenes)) < chance
        return np.where(reached, 1.0, rng.beta(2, 3, len(scenes))), scenes, None

    return draw


def of_drops(sizes: list[int]) -> Callable[[np.random.Generator], Drawn]:
    """CRA in scenes: a scene's mean is beta(0.6, 5), its episodes lie about it."""
    scenes = np.repeat(np.arange(len(sizes)), sizes)

    def draw(rng: np.random.Generator) -> Drawn:
        mean = np.clip(rng.beta(0.6, 5, len(sizes)), 1e-4, 1)[scenes]
        return rng.beta(8 * mean, 8 * (1 - mean)), scenes, None

    return draw


SCENES: dict[str, tuple[float, Callable[[list[int]], Callable[[np.random.Generator], Drawn]]]] = {
    "MP: 50 % at 1, ICC 0.3": (0.7, lambda sizes: of_progress(sizes, 0.5, 0.3)),
    "MP: 70 % at 1, ICC 0.5": (0.82, lambda sizes: of_progress(sizes, 0.7, 0.5)),
    "MP: 85 % at 1, ICC 0.5": (0.91, lambda sizes: of_progress(sizes, 0.85, 0.5)),
    "CRA: beta(0.6, 5) by scene": (0.6 / 5.6, of_drops),
}
DESIGNS = {"10 of 3": [3] * 10, "10 of 6": [6] * 10, "20 of 3": [3] * 20}

STR_PAIRS = {
    "STR: 40 % at 0, else beta(1, 4); 20 % at 0, else beta(2, 3)": (mixed(0.4, 0, 1, 4), mixed(0.2, 0, 2, 3)),
    "STR: 70 % at 0, else beta(1, 3), in both": (mixed(0.7, 0, 1, 3), mixed(0.7, 0, 1, 3)),
    "STR: 90 % at 0, else uniform; 30 % at 0, else beta(2, 4)": (mixed(0.9, 0, 1, 1), mixed(0.3, 0, 2, 4)),
}
TASKS = {"15 and 15": (15, 15, 2), "27 and 3": (27, 3, 2), "5 tasks of 2": (6, 4, 5)}


def in_tasks(pair: str, design: tuple[int, int, int]) -> tuple[float, Callable[[np.random.Generator], Drawn]]:
    """The first episodes of one law, the others of another, in two tasks or in tasks of two."""
    ((first, mean), (second, other)), (n, m, tasks) = STR_PAIRS[pair], design
    labels = np.repeat([0, 1], [n, m]) if tasks == 2 else np.arange(n + m) // 2
    truth = (n * mean + m * other) / (n + m)
    return truth, lambda rng: (np.concatenate([first(rng, n), second(rng, m)]), None, labels)


def means(draws: int) -> None:
    rows = []
    for name in LAWS:
        laws = [alone(name, n) for n in SIZES]
        cells = [
            before_and_now(f"{name} {n}", truth, draws, draw)
            for n, (truth, draw) in zip(SIZES, laws, strict=True)
        ]
        rows.append([name, *cells])
    table("Means of values in 0..1, independent episodes", ["law", *(f"n = {n}" for n in SIZES)], rows)
    rows = []
    for name, (truth, made) in SCENES.items():
        cells = [before_and_now(f"{name} {d}", truth, draws, made(sizes)) for d, sizes in DESIGNS.items()]
        rows.append([name, *cells, before_and_now(f"{name} unequal", truth, draws, made(UNEQUAL))])
    table("Means of values in 0..1, in scenes", ["law", *DESIGNS, "10 of 1 to 10"], rows)
    rows = []
    for name in STR_PAIRS:
        cells = []
        for title, design in TASKS.items():
            truth, draw = in_tasks(name, design)
            cells.append(before_and_now(f"{name} {title}", truth, draws, draw))
        rows.append([name, *cells])
    table("Means of values in 0..1, in tasks", ["law", *TASKS], rows)


# --- AUC within tasks


def judged(
    rng: np.random.Generator, tasks: int, scenes: int, trials: int, gap: float, spread: float
) -> tuple:
    """Scores, labels, tasks and scenes; a scene has its own rate of success and shifts its scores."""
    scene = np.repeat(np.arange(tasks * scenes), trials)
    labels = (rng.random(len(scene)) < rng.random(tasks * scenes)[scene]).astype(float)
    shift = spread * rng.normal(size=tasks * scenes)[scene]
    return gap * labels + shift + rng.normal(size=len(scene)), labels, scene // scenes, scene


def ranks(scores: np.ndarray) -> np.ndarray:
    return 0.5 * average_ranks(scores) / len(scores)


def auc_before(
    scores: np.ndarray, labels: np.ndarray, tasks: np.ndarray, scenes: np.ndarray, resamples: int
) -> Estimate:
    """Every scene drawn apart, whose pairs count four times where it is drawn twice."""
    columns = ranks(scores), labels, tasks.astype(float)
    return statistic_estimate(auc_within_tasks, columns, clusters=scenes, strata=tasks, resamples=resamples)


def auc_cells(tasks: int, scenes: int, trials: int, gap: float, spread: float, draws: int) -> list[object]:
    """Coverage before and now with the average width, and the share of samples with an interval."""
    made = judged(np.random.default_rng(9), 20_000, scenes, trials, gap, spread)
    truth = auc_within_tasks(ranks(made[0]), made[1], made[2].astype(float))
    rng = np.random.default_rng(zlib.crc32(f"{tasks} {scenes} {trials} {gap} {spread}".encode()))
    found: list[list[Estimate]] = [[], []]
    for _ in range(draws):
        scores, labels, task, scene = judged(rng, tasks, scenes, trials, gap, spread)
        found[0].append(auc_before(scores, labels, task, scene, 400))
        groups = {"tasks": task.tolist(), "scenes": scene.tolist()}
        found[1].append(auc_estimate(scores, labels, **groups, within_tasks=True, resamples=400))
    cells: list[object] = [truth]
    for estimates in found:
        known = [one for one in estimates if not math.isnan(one.lo)]
        if not known:
            cells.append("no interval")
            continue
        covered = sum(one.lo <= truth <= one.hi for one in known) / len(known)
        width = float(np.mean([one.hi - one.lo for one in known]))
        cells.append(
            f"{100 * covered:.0f} (width {100 * width:.0f}; {100 * len(known) / draws:.0f} % have one)"
        )
    return cells


def auc_rows(draws: int) -> Iterator[list[object]]:
    for tasks, scenes, trials in ((10, 1, 6), (20, 1, 6), (10, 2, 4), (5, 2, 6), (5, 3, 4), (4, 6, 4)):
        for gap, spread in ((1.5, 0.0), (1.5, 1.0)):
            if scenes == 1 and spread:
                continue  # pairs of one scene do not see it
            name = f"{tasks} tasks, {scenes} scene{'s' * (scenes > 1)} a task, {trials} trials"
            yield [name, f"{spread:g}", *auc_cells(tasks, scenes, trials, gap, spread, draws)]


# --- Monte Carlo error


def ends_by_seed(make: Callable[[int], Estimate], seeds: int) -> tuple[float, float]:
    """Deviation of an end over seeds, in parts of a standard error and of the interval's width."""
    ends = np.array([(one.lo, one.hi) for one in map(make, range(seeds))])
    width = float(np.mean(ends[:, 1] - ends[:, 0]))
    deviation = float(np.mean(ends.std(axis=0, ddof=1)))
    return deviation / (width / (2 * 1.96)), deviation / width


def end_rows(seeds: int) -> Iterator[list[object]]:
    rng = np.random.default_rng(0)
    for n in (20, 100, 500):
        values = rng.beta(1, 4, n)
        for name, make in (
            ("mean, BCa, 2,000 draws", lambda seed, v=values: mean_estimate(v, resamples=2000, seed=seed)),
            ("mean, BCa, as many as now", lambda seed, v=values: mean_estimate(v, seed=seed)),
            ("mean of values in 0..1", lambda seed, v=values: share_estimate(v, seed=seed)),
        ):
            yield [name, n, *ends_by_seed(make, seeds)]
    said, labels = rng.random(60) < 0.6, rng.random(60) < 0.5
    of_counts = OF_COUNTS[balanced_accuracy]

    def balanced(seed: int) -> Estimate:
        columns = (said | labels).astype(float), labels.astype(float)
        return statistic_estimate(balanced_accuracy, columns, of_counts=of_counts, seed=seed)

    yield ["balanced accuracy, BCa, 2,000 draws", 60, *ends_by_seed(balanced, seeds)]


def shifted_to(p: float, n: int) -> np.ndarray:
    """Skewed differences whose comparison has about this p-value."""
    values = np.random.default_rng(n).gamma(4, size=n)
    values -= values.mean()
    low, high = 0.0, 6 * float(values.std()) / math.sqrt(n)
    for _ in range(12):
        middle = (low + high) / 2
        sample = draw_sample(values + middle)
        drawn = max(
            sign_flip_test(sample.columns[0], draws=39_999, seed=1).p_value,
            bootstrap_t_test(mean_of(sample), draws=39_999, seed=1).p_value,
        )
        low, high = (middle, high) if drawn > p else (low, middle)
    return values + high


def p_rows(seeds: int) -> Iterator[list[object]]:
    for n in (20, 100):
        for p in (0.045, 0.049, 0.08):
            values = shifted_to(p, n)
            sample = draw_sample(values)
            first = np.array(
                [
                    max(
                        sign_flip_test(sample.columns[0], seed=seed).p_value,
                        bootstrap_t_test(mean_of(sample), seed=seed).p_value,
                    )
                    for seed in range(seeds)
                ]
            )
            zeros = np.zeros(n)
            now = np.array([compare_paired(values, zeros, seed=seed).p_value for seed in range(seeds)])
            wrong = [float(np.mean((found <= 0.05) != (p <= 0.05))) for found in (first, now)]
            yield [n, f"{p:g}", f"{first.std(ddof=1):.4f}", f"{now.std(ddof=1):.4f}", *wrong]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the draws")
    scale = 10 if parser.parse_args().quick else 1
    means(500 // scale)
    table(
        "AUC within tasks",
        ["design", "SD of a scene's scores", "AUC", "before", "now"],
        auc_rows(100 // scale),
    )
    table(
        "Deviation of an interval's end over seeds",
        ["interval", "n", "of a standard error", "of the width"],
        end_rows(100 // scale),
    )
    header = ["pairs", "p-value", "deviation before", "now", "on the wrong side of 0.05 before", "now"]
    table("Deviation of a p-value over seeds", header, p_rows(50 // scale))


if __name__ == "__main__":
    main()
