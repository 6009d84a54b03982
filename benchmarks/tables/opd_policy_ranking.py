"""How OPD of a judge's curves ranks policies, held against OPD of the simulator's own potential: v1.0 and robust.

    python -m benchmarks.tables.opd_policy_ranking DATASET [DATASET ...] [--runs FOLDER]

A DATASET is a folder of simulated rollouts with its labels. The embedded judge scores them as in the demo (kept in
FOLDER, so that this can be stopped and continued). PPL, CRA and STR of a policy are means over its episodes; the
truth is the same metric of the labelled potential at the judge's sample times. Agreement is Spearman's rank
correlation over the policies, of their means over all tasks and within each task; the interval of a difference
resamples scenes within tasks.

It fails where robust ranks policies distinguishably worse than v1.0 does, each held against its own metric of the
potential, over all tasks or within them. The other rows hold both against one truth, the potential's metric under
one revision; that of v1.0 counts time after the end as stagnation. They are for reading, and decide nothing.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import rankdata

from benchmarks.embedded.testset import POLICIES, read_any
from benchmarks.tables.demo_policies import demo_judge
from stepscore.analysis import curves_by_episode, done_rule
from stepscore.episodes import Episode
from stepscore.metrics.opd import compute_opd
from stepscore.runs import Run, score
from stepscore.types import FloatArray

METRICS = ("PPL", "CRA", "STR")
REVISIONS = ("v1.0", "robust")
RESAMPLES = 500


@dataclass(frozen=True)
class Judged:
    """One episode: OPD of the judge's curve and of the potential, each by revision and metric."""

    policy: str
    scene: str
    judge: Mapping[tuple[str, str], float]
    truth: Mapping[tuple[str, str], float]


def judged_episodes(episodes: Sequence[Episode], run: Run) -> list[Judged]:
    """Measure every episode with a curve and labelled progress."""
    curves = dict(curves_by_episode(run.curves(), "progress"))
    rule = done_rule(run)
    probabilities = dict(curves_by_episode(run.curves(), rule.channel)) if rule.channel else {}
    found = []
    for episode in episodes:
        times, progress = curves.get(episode.id, (np.empty(0), np.empty(0)))
        labelled, potential = episode.labels.progress("potential")
        if len(times) < 2 or not len(labelled):
            continue
        truth = np.interp(times, labelled, potential)
        probability = probabilities.get(episode.id, (times, None))[1]
        by_judge = _opd(times, progress, probability, rule.at)
        found.append(Judged(str(episode.policy), str(episode.pair), by_judge, _opd(times, truth, None, None)))
    return found


def _opd(
    times: FloatArray, progress: FloatArray, probability: FloatArray | None, done_at: float | None
) -> dict[tuple[str, str], float]:
    robust = compute_opd(progress, "robust", times, success_probability=probability, done_at=done_at)
    values = {"v1.0": compute_opd(progress, "v1.0", times), "robust": robust}
    return {(revision, metric): values[revision][metric] for revision in REVISIONS for metric in METRICS}


@dataclass(frozen=True)
class Agreement:
    """Rank correlations over policies of a metric, for each revision of the judge's, and robust minus v1.0."""

    v10: float
    robust: float
    lo: float
    hi: float


def agreement(
    judged: Sequence[Judged],
    metric: str,
    truth: str | None = None,
    *,
    within_tasks: bool = False,
    seed: int = 0,
) -> Agreement:
    """Correlate the policies' means of a metric with those of the potential.

    Args:
        judged: The episodes.
        metric: PPL, CRA or STR.
        truth: The revision of the potential's metric; ``None`` for that of the judge's.
        within_tasks: Rank the policies in each task, and average over tasks.
        seed: Seed of the resampling of scenes, which is within tasks.
    """
    by_task = [_scene_sums(list(group), metric, truth) for group in _tasks(judged)]
    rng = np.random.default_rng(seed)
    drawn = [_correlations(by_task, within_tasks=within_tasks, rng=rng) for _ in range(RESAMPLES)]
    v10, robust = _correlations(by_task, within_tasks=within_tasks)
    lo, hi = np.nanquantile([b - a for a, b in drawn], [0.025, 0.975])
    return Agreement(v10, robust, float(lo), float(hi))


def _tasks(judged: Sequence[Judged]) -> list[list[Judged]]:
    groups: dict[str, list[Judged]] = {}
    for one in judged:
        groups.setdefault(one.scene.partition("/")[0], []).append(one)
    return list(groups.values())


def _scene_sums(judged: Sequence[Judged], metric: str, truth: str | None) -> FloatArray:
    """Return sums and counts of a task, shape (scenes, 4, policies, 2): judge and potential under each revision."""
    scenes = sorted({one.scene for one in judged})
    sums = np.zeros((len(scenes), 4, len(POLICIES), 2))
    for one in judged:
        cells = [
            *(one.judge[revision, metric] for revision in REVISIONS),
            *(one.truth[truth or revision, metric] for revision in REVISIONS),
        ]
        for row, value in enumerate(cells):
            if not np.isnan(value):
                sums[scenes.index(one.scene), row, POLICIES.index(one.policy)] += (value, 1)
    return sums


def _correlations(
    by_task: Sequence[FloatArray], *, within_tasks: bool, rng: np.random.Generator | None = None
) -> tuple[float, float]:
    """Return the correlations under both revisions, of all scenes or of scenes drawn again within each task."""
    sums = [_drawn(scenes, rng).sum(axis=0) for scenes in by_task]
    groups = sums if within_tasks else [np.sum(sums, axis=0)]
    pairs = []
    for group in groups:
        with np.errstate(invalid="ignore"):
            means = group[..., 0] / group[..., 1]
        pairs.append([_rank_correlation(means[0], means[2]), _rank_correlation(means[1], means[3])])
    v10, robust = np.nanmean(pairs, axis=0)
    return float(v10), float(robust)


def _drawn(scenes: FloatArray, rng: np.random.Generator | None) -> FloatArray:
    return scenes if rng is None else scenes[rng.integers(0, len(scenes), len(scenes))]


def _rank_correlation(a: FloatArray, b: FloatArray) -> float:
    known = ~np.isnan(a + b)
    x, y = rankdata(a[known]), rankdata(b[known])
    return float(np.corrcoef(x, y)[0, 1]) if np.ptp(x) > 0 and np.ptp(y) > 0 else np.nan


def print_agreement(judged: Sequence[Judged]) -> bool:
    """Print both revisions against each truth; return whether robust is nowhere worse, each against its own."""
    policies, tasks = {one.policy for one in judged}, len(_tasks(judged))
    scenes = len({one.scene for one in judged})
    print(f"{len(judged)} episodes, {tasks} tasks, {scenes} scenes, {len(policies)} policies")
    head = f"{'v1.0':>8}{'robust':>8}  {'robust - v1.0':<24}"
    print(f"\nrank correlation over policies   {'of their means':<42}within a task, averaged")
    print(f"{'metric':7}{'potential under':26}{head}{head}".rstrip())
    as_good = True
    for metric in METRICS:
        for truth in (None, *REVISIONS):
            cells = ""
            for within_tasks in (False, True):
                found = agreement(judged, metric, truth, within_tasks=within_tasks)
                difference = f"{found.robust - found.v10:+.3f} ({found.lo:+.3f}…{found.hi:+.3f})"
                cells += f"{found.v10:8.3f}{found.robust:8.3f}  {difference:<24}"
                as_good &= truth is not None or found.hi >= 0
            name = "the same revision" if truth is None else truth
            print(f"{metric:7}{name:26}{cells}".rstrip())
    return as_good


def judge_datasets(datasets: Iterable[Path], runs: Path) -> list[Judged]:
    """Judge each dataset, or continue where that was stopped, and measure its episodes."""
    judge, found = demo_judge(), list[Judged]()
    for dataset in datasets:
        episodes = read_any(dataset)
        found += judged_episodes(episodes, score(episodes, judge, runs / "-".join(dataset.parts[-3:])))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("datasets", type=Path, nargs="+")
    parser.add_argument("--runs", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        judged = judge_datasets(options.datasets, options.runs or Path(temporary))
    if not print_agreement(judged):
        sys.exit("robust ranks policies worse than v1.0.")


if __name__ == "__main__":
    main()
