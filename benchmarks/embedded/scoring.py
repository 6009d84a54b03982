"""Films put to the model: each episode decoded once, all texts about a film in one pass.

What is asked is what ``topreward`` asks: the same frames, prefixes and words. Subgoals and other instructions
stand in the same sentence as the instruction. A film whose end alone matters is asked of its last prefixes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from benchmarks.embedded.rows import Scored, Statement, truth_of
from stepscore.episodes import Episode
from stepscore.episodes.view import View, ViewInfo
from stepscore.judges.common.prompt_files import fill, read_prompt
from stepscore.judges.topreward import USER, TopReward, choose_prefixes
from stepscore.models import Model, PrefixScores, ScorePrefixes, VideoFrames
from stepscore.models.requests import Request, media_decoder, resolve
from stepscore.types import FloatArray, Frames

Change = Callable[[Episode], Episode]
TRAILING = 3
"""Prefixes that ``topreward`` averages at the end."""


@dataclass(frozen=True, eq=False)
class HeldView:
    """A view that was read before: its frames, times and facts are in memory."""

    view: View
    frames: Frames
    times: FloatArray
    facts: ViewInfo

    @classmethod
    def of(cls, view: View) -> HeldView:
        """All of a view."""
        times = view.timestamps()
        return cls(view, view.read(range(len(times))), times, view.info())

    def info(self) -> ViewInfo:
        """As recorded."""
        return self.facts

    def timestamps(self) -> FloatArray:
        """As recorded."""
        return self.times

    def read(self, indices: Sequence[int], size: int | None = None) -> Frames:
        """The frames at ``indices``; in another size than the recorded one they are read anew."""
        if size not in (None, max(self.frames.shape[1:3])):
            return self.view.read(indices, size)
        return self.frames[np.asarray(indices, dtype=np.int64)]

    def digest(self) -> bytes:
        """As recorded."""
        return self.view.digest()

    def location(self) -> str:
        """As recorded."""
        return self.view.location()


def held(episode: Episode) -> Episode:
    """The episode with every frame of every view decoded."""
    return replace(episode, views={name: HeldView.of(view) for name, view in episode.views.items()})


@dataclass(frozen=True)
class Look:
    """A film to be scored.

    Attributes:
        variant: What it is called.
        change: Makes it of the recorded episode.
        view: The camera.
        subgoals: Also ask of the subgoals.
        others: Also ask of these instructions, at the end.
        ends_only: Ask of the last prefixes alone.
        reworded: Also ask of the instruction in these words.
    """

    variant: str
    change: Change
    view: str
    subgoals: bool = False
    others: tuple[str, ...] = ()
    ends_only: bool = False
    reworded: str = ""


@dataclass(frozen=True)
class Scorer:
    """Puts films to one model as one ``topreward`` would.

    Attributes:
        model: Who answers.
        judge: Whose frames, prefixes and words are used.
        at_once: Episodes in memory.
    """

    model: Model
    judge: TopReward
    at_once: int = 8
    _tail: str = field(default_factory=lambda: read_prompt("topreward_upstream"))

    def score(
        self, work: Sequence[tuple[Episode, Sequence[Look]]], on_rows: Callable[[list[Scored]], None]
    ) -> None:
        """Score every film of every episode; rows come a few episodes at a time."""
        asyncio.run(self._all(work, on_rows))

    async def _all(
        self, work: Sequence[tuple[Episode, Sequence[Look]]], on_rows: Callable[[list[Scored]], None]
    ) -> None:
        groups = [work[i : i + self.at_once] for i in range(0, len(work), self.at_once)]
        if not groups:
            return
        coming = asyncio.create_task(asyncio.to_thread(_decoded, groups[0]))
        for number in range(len(groups)):
            ready = await coming
            if number + 1 < len(groups):
                coming = asyncio.create_task(asyncio.to_thread(_decoded, groups[number + 1]))
            films = [(episode, look) for episode, looks in ready for look in looks]
            # Films of one length wait together, so that little is filled up in a batch.
            films.sort(key=lambda film: len(film[0].views[film[1].view].timestamps()))
            on_rows(list(await asyncio.gather(*(self._one(episode, look) for episode, look in films))))

    async def _one(self, episode: Episode, look: Look) -> Scored:
        shown = look.change(episode.with_views([look.view]))
        at = shown.view(look.view).timestamps()
        frames, lengths = choose_prefixes(
            at,
            prefixes=self.judge.prefixes,
            fps=self.judge.fps,
            min_first=self.judge.min_first,
            max_frames=self.judge.max_frames,
        )
        if look.ends_only:
            lengths = lengths[-TRAILING:]
        film = VideoFrames(look.view, tuple(frames.tolist()), self.judge.size)
        asked = [s.name for s in episode.subgoals if look.subgoals]
        texts = (episode.instruction, *([look.reworded] if look.reworded else []), *asked)
        margins = await self._margins(shown, film, lengths, texts)
        others = (
            await self._margins(shown, film, lengths[-1:], look.others) if look.others else np.empty((0, 1))
        )
        times = at[frames][np.array(lengths) - 1]
        found = truth_of(shown, times, float(at[-1]))
        return _row(
            episode,
            shown,
            look,
            times,
            margins,
            found,
            dict(zip(look.others, others[:, -1].tolist(), strict=True)),
        )

    async def _margins(
        self, episode: Episode, film: VideoFrames, lengths: tuple[int, ...], texts: Sequence[str]
    ) -> FloatArray:
        """Log-odds of True by text and prefix, shape (S, K)."""
        tails = tuple(fill(self._tail, instruction=text) for text in texts)
        words = (f" {self.judge.target}", f" {self.judge.other}")
        request: Request = ScorePrefixes(film, lengths, USER, tails, words)
        answer = await self.model.answer(resolve(request, media_decoder(episode)))
        assert isinstance(answer, PrefixScores)
        return answer.logprobs[..., 0] - answer.logprobs[..., 1]


def _decoded(group: Sequence[tuple[Episode, Sequence[Look]]]) -> list[tuple[Episode, Sequence[Look]]]:
    return [
        (held(episode.with_views(sorted({look.view for look in looks}))), looks) for episode, looks in group
    ]


def _row(
    episode: Episode,
    shown: Episode,
    look: Look,
    times: FloatArray,
    margins: FloatArray,
    found: Mapping[str, Any],
    others: Mapping[str, float],
) -> Scored:
    names = [s.name for s in episode.subgoals] if look.subgoals else []
    first = 2 if look.reworded else 1
    _, recorded = episode.labels.progress()
    return Scored(
        episode.id,
        look.variant,
        str(episode.task),
        str(episode.policy),
        episode.pair,
        float(shown.view(look.view).info().duration_s),
        found["success"],
        found["ever"],
        times,
        found["potential"],
        Statement(margins[0], found["own"]),
        {
            name: Statement(margins[first + number], found["subgoals"].get(name, np.full(len(times), np.nan)))
            for number, name in enumerate(names)
        },
        others,
        float(recorded.max()) if len(recorded) else np.nan,
        float(margins[1, -1]) if look.reworded else np.nan,
    )
