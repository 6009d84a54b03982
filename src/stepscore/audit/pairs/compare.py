"""Direct comparison: ask a judge that compares frames about the two frames of a pair.

Each pair becomes an episode of four frames (first, BEFORE, AFTER, last), so that asking is an ordinary run
with journal, cache, budget and dry run. For episodes played backwards, start and goal stay those of the
recording and only BEFORE and AFTER are exchanged.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stepscore.audit.pairs.pair import Pair
from stepscore.episodes import Episode, choose_frames, sample_frames
from stepscore.errors import OptionError, exits_as_errors
from stepscore.judges import Ask, FrameComparer, Judge, judge_registry, prepare
from stepscore.models import Model
from stepscore.runs import Run
from stepscore.types import Judgement

BEFORE, AFTER = 1, 2
"""Indices of the two frames in a pair's episode; 0 is the start."""


class Question(NamedTuple):
    """Two frame numbers, and the repetition of the question."""

    before: int
    after: int
    repeat: int = 0

    @property
    def name(self) -> str:
        """Key of the answer in a judgement's facts: ``1>2``, repeated ``1>2#1``."""
        return f"{self.before}>{self.after}" + (f"#{self.repeat}" if self.repeat else "")


PAIR = (Question(BEFORE, AFTER),)
"""The question about a pair."""


@dataclass(frozen=True)
class Compare:
    """Ask a judge that compares frames questions about an episode; the answers are facts of the judgement."""

    comparer: Judge
    questions: tuple[Question, ...] = PAIR
    name = "compare"
    version = 1

    @property
    def models(self) -> tuple[Model, ...]:
        """Models of the judge."""
        return self.comparer.models

    @property
    def local_code(self) -> Mapping[str, str] | None:
        """File and class of a custom judge."""
        code: Mapping[str, str] | None = getattr(self.comparer, "local_code", None)
        return code

    def prepare(self, *, offline: bool = False) -> None:
        """Let the judge download what it needs."""
        prepare(self.comparer, offline=offline)

    def options(self) -> Mapping[str, object]:
        """Return the judge, its options and the questions."""
        judge = {
            "name": self.comparer.name,
            "version": self.comparer.version,
            "options": dict(self.comparer.options()),
        }
        return {"judge": judge, "questions": [question.name for question in self.questions]}

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        """Return a judgement whose facts are the answers by question, NaN where unknown."""
        assert isinstance(self.comparer, FrameComparer)
        n = len(episode.view(episode.main_view).timestamps())
        sampled = sample_frames(episode, indices=range(n))
        facts: dict[str, float] = {}
        for repeat in sorted({question.repeat for question in self.questions}):
            asked = [question for question in self.questions if question.repeat == repeat]
            pairs = [(question.before, question.after) for question in asked]
            changes = await self.comparer.compare(episode, sampled, pairs, ask, repeat=repeat)
            facts |= {question.name: float(change) for question, change in zip(asked, changes, strict=True)}
        return Judgement(facts=facts)


def check_compares(judge: Judge) -> None:
    """Raise OptionError if a judge cannot compare two frames."""
    if isinstance(judge, FrameComparer):
        return
    able = ", ".join(comparing_judges())
    raise OptionError(
        f"Judge {judge.name!r} scores whole videos and cannot compare two frames. Score its curve with "
        f"--by curve. Judges that compare frames: {able}."
    )


def comparing_judges() -> list[str]:
    """Return the built-in judges that compare two frames."""
    return [name for name in judge_registry.names() if hasattr(judge_registry.get(name), "compare")]


def pair_clips(pairs: Sequence[Pair], videos: Mapping[str, Episode]) -> list[Episode]:
    """Return an episode of four frames (start, BEFORE, AFTER, end) for each pair, named by its id."""
    return [_clip(pair, videos[pair.id]) for pair in pairs]


def _clip(pair: Pair, video: Episode) -> Episode:
    if video.error is not None:
        return video_of_error(pair.id, video.error)
    try:
        with exits_as_errors():
            last_s = float(video.view(video.main_view).timestamps()[-1])
    except Exception as error:  # a third-party view may raise anything
        return video_of_error(pair.id, str(error))
    start_s, end_s = (0.0, last_s) if pair.played == "forwards" else (last_s, 0.0)
    return choose_frames(video, (start_s, pair.before_s, pair.after_s, end_s), pair.id)


def video_of_error(name: str, error: str) -> Episode:
    """Return an unreadable episode."""
    return Episode(id=name, instruction="", error=error)


def compared(run: Run) -> dict[str, dict[str, float]]:
    """Return the answers of a run of :class:`Compare` by episode and question; NaN where unknown."""
    table = run.judgements().select(["episode_id", "facts"])
    return {
        row["episode_id"]: {
            name: math.nan if value is None else float(value)
            for name, value in (json.loads(row["facts"]) if row["facts"] else {}).items()
        }
        for row in table.to_pylist()
    }


def pair_changes(run: Run, pairs: Sequence[Pair]) -> list[float]:
    """Return the answer about each pair in a run of :class:`Compare`; NaN where unknown."""
    answers = compared(run)
    return [answers.get(pair.id, {}).get(PAIR[0].name, math.nan) for pair in pairs]
