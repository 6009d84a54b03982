"""A benchmark of the small simulated dataset, and a judge that reads its labels: the oracle of a board's numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stepscore.audit.board import Benchmark, BenchmarkParts, open_benchmark
from stepscore.audit.board.questions import make_questions, write_questions
from stepscore.audit.pairs import make_progress_pairs, write_pairs
from stepscore.episodes import Episode, open_episodes
from stepscore.errors import CapabilityError
from stepscore.judges import Ask
from stepscore.models import Model
from stepscore.types import Curve, Judgement, Verdict
from tests.paths import TINY_SIM

LABELS, SUBGOALS = TINY_SIM / "labels.parquet", TINY_SIM / "subgoals.yaml"


def make_benchmark(folder: Path, *, limit: int | None = None) -> Benchmark:
    """The small simulated dataset with pairs and questions made from its labels."""
    episodes = open_episodes(TINY_SIM, labels=LABELS, subgoals=SUBGOALS)
    write_pairs(folder / "pairs.jsonl", make_progress_pairs(episodes, per_span=12, seed=1))
    write_questions(folder / "questions.jsonl", make_questions(episodes, most=8, seed=1))
    parts = BenchmarkParts(
        str(TINY_SIM),
        "tiny",
        seed=0,
        labels=LABELS,
        subgoals=SUBGOALS,
        pairs=folder / "pairs.jsonl",
        questions=folder / "questions.jsonl",
    )
    return open_benchmark(parts, limit=limit)


@dataclass(frozen=True)
class Oracle:
    """True progress at every frame, and true verdicts; ``wrong`` turns both around."""

    wrong: bool = False
    name = "oracle"
    version = 1

    @property
    def models(self) -> tuple[Model, ...]:
        return ()

    def options(self) -> Mapping[str, object]:
        return {"wrong": self.wrong}

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        at = episode.view(episode.main_view).timestamps()
        times, truth = episode.labels.progress()
        progress = np.interp(at, times, truth)
        answers = [(goal.name, episode.labels.subgoal(goal.name)) for goal in episode.subgoals]
        success = episode.labels.success
        return Judgement(
            Curve(at, 1 - progress if self.wrong else progress),
            tuple(
                Verdict(name, "unknown" if done is None else ("yes" if done != self.wrong else "no"))
                for name, done in answers
            ),
            success_score=math.nan if success is None else float(success != self.wrong),
        )


@dataclass(frozen=True)
class CannotAnswer(Oracle):
    """A judge whose model lacks what it needs."""

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        raise CapabilityError("the model returns no log-probabilities.")
