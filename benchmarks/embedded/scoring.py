"""Scores videos with a model: each episode is decoded once, all texts about a video go in one pass.

Requests are those of ``topreward``: the same frames, prefixes and words. Subgoals and other instructions stand in
the same sentence as the instruction. Where only the end of a video matters, only its last prefixes are scored.
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
from stepscore.judges.common import PromptTemplate, load_prompt, spread_prefixes, video_prompt
from stepscore.judges.topreward import TopReward
from stepscore.models import Model, PrefixScores, ScorePrefixes, VideoFrames
from stepscore.models.media import media_decoder
from stepscore.models.requests import Request
from stepscore.types import FloatArray, Frames

Change = Callable[[Episode], Episode]
TRAILING = 3
"""Prefixes that ``topreward`` averages at the end."""


@dataclass(frozen=True, eq=False)
class InMemoryView:
    """A view whose frames, times and facts are in memory."""

    view: View
    frames: Frames
    times: FloatArray
    facts: ViewInfo

    @classmethod
    def of(cls, view: View) -> InMemoryView:
        """Read all of a view."""
        times = view.timestamps()
        return cls(view, view.read(range(len(times))), times, view.info())

    def info(self) -> ViewInfo:
        """As recorded."""
        return self.facts

    def timestamps(self) -> FloatArray:
        """As recorded."""
        return self.times

    def read(self, indices: Sequence[int], size: int | None = None) -> Frames:
        """Return the frames at ``indices``; in another size than the recorded one they are read anew."""
        if size not in (None, max(self.frames.shape[1:3])):
            return self.view.read(indices, size)
        return self.frames[np.asarray(indices, dtype=np.int64)]

    def digest(self) -> bytes:
        """As recorded."""
        return self.view.digest()

    def location(self) -> str:
        """As recorded."""
        return self.view.location()


def in_memory(episode: Episode) -> Episode:
    """Return the episode with every frame of every view decoded."""
    return replace(episode, views={name: InMemoryView.of(view) for name, view in episode.views.items()})


@dataclass(frozen=True)
class Variant:
    """A video to be scored.

    Attributes:
        name: Its name in the rows.
        change: Makes it from the recorded episode.
        view: The camera.
        subgoals: Also score the subgoals.
        others: Also score these instructions, at the end.
        ends_only: Score the last prefixes only.
        reworded: Also score the instruction in these words.
    """

    name: str
    change: Change
    view: str
    subgoals: bool = False
    others: tuple[str, ...] = ()
    ends_only: bool = False
    reworded: str = ""


@dataclass(frozen=True)
class Scorer:
    """Scores videos with one model as one ``topreward`` would.

    Attributes:
        model: The model that scores.
        judge: Its frames, prefixes and words are used.
        max_episodes: Episodes in memory.
    """

    model: Model
    judge: TopReward
    max_episodes: int = 8
    _template: PromptTemplate = field(default_factory=lambda: load_prompt("statement"))

    def score(
        self, work: Sequence[tuple[Episode, Sequence[Variant]]], on_rows: Callable[[list[Scored]], None]
    ) -> None:
        """Score every video of every episode; rows come a few episodes at a time."""
        asyncio.run(self._all(work, on_rows))

    async def _all(
        self, work: Sequence[tuple[Episode, Sequence[Variant]]], on_rows: Callable[[list[Scored]], None]
    ) -> None:
        groups = [work[i : i + self.max_episodes] for i in range(0, len(work), self.max_episodes)]
        if not groups:
            return
        coming = asyncio.create_task(asyncio.to_thread(_decoded, groups[0]))
        for number in range(len(groups)):
            ready = await coming
            if number + 1 < len(groups):
                coming = asyncio.create_task(asyncio.to_thread(_decoded, groups[number + 1]))
            videos = [(episode, variant) for episode, variants in ready for variant in variants]
            # Videos of one length wait together, so that little is filled up in a batch.
            videos.sort(key=lambda video: len(video[0].views[video[1].view].timestamps()))
            on_rows(list(await asyncio.gather(*(self._one(episode, variant) for episode, variant in videos))))

    async def _one(self, episode: Episode, variant: Variant) -> Scored:
        changed = variant.change(episode.with_views([variant.view]))
        at = changed.view(variant.view).timestamps()
        frames, lengths = spread_prefixes(
            at,
            prefixes=self.judge.prefixes,
            fps=self.judge.fps,
            min_first=self.judge.min_first,
            max_frames=self.judge.max_frames,
        )
        if variant.ends_only:
            lengths = lengths[-TRAILING:]
        video = VideoFrames(variant.view, tuple(frames.tolist()), self.judge.size)
        subgoals = [s.name for s in episode.subgoals if variant.subgoals]
        texts = (episode.instruction, *([variant.reworded] if variant.reworded else []), *subgoals)
        margins = await self._margins(changed, video, lengths, texts)
        others = (
            await self._margins(changed, video, lengths[-1:], variant.others)
            if variant.others
            else np.empty((0, 1))
        )
        times = at[frames][np.array(lengths) - 1]
        found = truth_of(changed, times, float(at[-1]))
        return _row(
            episode,
            changed,
            variant,
            times,
            margins,
            found,
            dict(zip(variant.others, others[:, -1].tolist(), strict=True)),
        )

    async def _margins(
        self, episode: Episode, video: VideoFrames, lengths: tuple[int, ...], texts: Sequence[str]
    ) -> FloatArray:
        """Return the log-odds of True by text and prefix, shape (S, K)."""
        filled = (self._template.fill(instruction=text) for text in texts)
        prompts = tuple(video_prompt(text, template="open") for text in filled)
        words = (f" {self.judge.target}", f" {self.judge.other}")
        request: Request = ScorePrefixes(video, lengths, prompts, words)
        answer = await self.model.answer(request.resolved(media_decoder(episode)))
        assert isinstance(answer, PrefixScores)
        return answer.logprobs[..., 0] - answer.logprobs[..., 1]


def _decoded(group: Sequence[tuple[Episode, Sequence[Variant]]]) -> list[tuple[Episode, Sequence[Variant]]]:
    return [
        (in_memory(episode.with_views(sorted({variant.view for variant in variants}))), variants)
        for episode, variants in group
    ]


def _row(
    episode: Episode,
    changed: Episode,
    variant: Variant,
    times: FloatArray,
    margins: FloatArray,
    found: Mapping[str, Any],
    others: Mapping[str, float],
) -> Scored:
    names = [s.name for s in episode.subgoals] if variant.subgoals else []
    first = 2 if variant.reworded else 1
    _, recorded = episode.labels.progress()
    return Scored(
        episode.id,
        variant.name,
        str(episode.task),
        str(episode.policy),
        episode.pair,
        float(changed.view(variant.view).info().duration_s),
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
        float(margins[1, -1]) if variant.reworded else np.nan,
    )
