"""Distance of judges to true progress, by the truth that labels state and by the one that stages imply.

    python -m benchmarks.tables.stage_truth [DATASET]

A dataset of simulated rollouts has a potential at every frame (labels of kind ``progress``) and stages. The potential
itself, read as a judge's curve, must come out best: of a truth that puts the clock before it, the numbers are wrong.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import stepscore
from stepscore.analysis import EpisodeMetrics, measure_episodes
from stepscore.episodes import Episode, Labels, open_episodes
from stepscore.judges import Ask
from stepscore.types import Curve, FloatArray, Judgement

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Potential:
    """The labelled potential as a judge's curve, with noise of a standard deviation."""

    points: Mapping[str, tuple[FloatArray, FloatArray]]
    noise: float
    name = "potential"
    models = ()
    version = 1

    def options(self) -> Mapping[str, object]:
        """Return all that can change a number."""
        return {"noise": self.noise}

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        """Return the potential, with its noise."""
        times, values = self.points[episode.id]
        drawn = np.random.default_rng(len(episode.id) + len(values)).normal(0, self.noise, len(values))
        return Judgement(Curve(times, np.clip(values + drawn, 0, 1)))


def without_progress(episode: Episode) -> Episode:
    """The episode as if only its stages, subgoals and outcome had been labelled."""
    return replace(
        episode, labels=Labels(tuple(row for row in episode.labels.rows if row.kind != "progress"))
    )


def mean_error(metrics: EpisodeMetrics, outcome: float) -> float:
    return float(np.nanmean(metrics.values["stage_MAE"][metrics.values["success_label"] == outcome]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("dataset", nargs="?", type=Path, default=ROOT / "tests" / "data" / "tiny_sim")
    dataset = parser.parse_args().dataset
    episodes = list(
        open_episodes(dataset, labels=dataset / "labels.parquet", subgoals=dataset / "subgoals.yaml")
    )
    points = {episode.id: episode.labels.progress("potential") for episode in episodes}
    judges = {
        "the potential itself": Potential(points, 0.0),
        "the potential, noise 0.05": Potential(points, 0.05),
        "linear-time": stepscore.get_judge("linear-time"),
        "constant": stepscore.get_judge("constant"),
        "random-monotone": stepscore.get_judge("random-monotone"),
    }
    print(f"{'stage_MAE':26} {'by labels':>22} {'by stages alone':>22}")
    print(f"{'':26} {'successes':>11} {'failures':>10} {'successes':>11} {'failures':>10}")
    for name, judge in judges.items():
        cells = []
        for number, chosen in enumerate((episodes, [without_progress(episode) for episode in episodes])):
            with tempfile.TemporaryDirectory() as folder:
                metrics = measure_episodes(stepscore.score(chosen, judge, Path(folder) / str(number)))
            cells += [mean_error(metrics, 1.0), mean_error(metrics, 0.0)]
        print(f"{name:26} " + " ".join(f"{cell:10.3f}" for cell in cells))


if __name__ == "__main__":
    main()
