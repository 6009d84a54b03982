"""ProgressLM as it was evaluated: a demonstration, one image, and the percentage at which the image lies in it.

The order of the parts, and the short sentences between the published texts, follow the evaluation code of the
pinned repository (ProgressLM/ProgressLM, ``eval/qwen25vl/codes/prompts``); the published texts come from the profile.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from stepscore.episodes import Clip, Episode, open_episodes, sample_frames
from stepscore.errors import EpisodeError, OptionError
from stepscore.judges.base import Ask
from stepscore.judges.common.ask_model import ask_texts, require
from stepscore.judges.common.curves import progress_curve, success_at_end
from stepscore.judges.common.option_checks import (
    check_options,
    frame_rate,
    optional,
    seed,
    text,
    whole,
    within,
)
from stepscore.judges.published.prompting import OWN, PUBLISHED
from stepscore.judges.published.published_judge import PublishedJudge
from stepscore.models import DecodedMedia, Generate, Model, Part, Prompt, Turn
from stepscore.registry import names
from stepscore.types import Judgement

_DECLINED = re.compile(r"<score>\s*n/?a\s*</score>", re.IGNORECASE)


@dataclass(frozen=True)
class ProgressLm(PublishedJudge):
    """Progress of single images of one camera, each placed in a demonstration by ProgressLM.

    The demonstration is the list of the episode's subgoals (the k-th of K is at k / K), or a video of the task being
    done (``demo``), of which evenly spread images are shown with their percentages. The answer is a percentage, or
    ``n/a`` where the image does not belong to the demonstration: then progress is unknown. So it is where an answer
    cannot be read. Facts: ``declined`` counts the ``n/a``, ``unread`` the others without a percentage.

    Attributes:
        model: ProgressLM-3B, by reinforcement learning or supervised fine-tuning.
        points: Points to judge, evenly from the first frame to the last.
        fps: Or one every 1/fps seconds (and the last), at most ``max_points``.
        max_points: With ``fps``: where there would be more, this many evenly spread ones instead.
        demo: Path of a video of the task being done; ``None`` to give the subgoals in words.
        demo_frames: Images of the demonstration, the first at 0 %, the last at 100 %.
        success_at: Progress that counts as success.
        profile: Profile of a model that is not known by its name: ``progresslm``.
        prompt: ``"published"``, ``"own"``, or a path to a text or to the published files.
        sampling_seed: Seed of the sampled answers, for servers that take one.
        max_tokens: Length at which an answer is cut.
    """

    model: Model = field(metadata=names("model"))
    points: int = 16
    fps: float | None = None
    max_points: int = 128
    demo: str | None = field(default=None, metadata=names("path"))
    demo_frames: int = 5
    success_at: float = 0.95
    profile: str | None = field(default=None, metadata=names("text"))
    prompt: str = field(default=PUBLISHED, metadata=names("path", PUBLISHED, OWN))
    sampling_seed: int = 0
    max_tokens: int = 4096
    name = "progresslm"
    version = 1

    def __post_init__(self) -> None:
        check_options(self, points=whole(1), fps=optional(frame_rate()), max_points=whole(1))
        check_options(self, demo=optional(text()), demo_frames=whole(2, 100), success_at=within(0, 1))
        check_options(self, prompt=text(), sampling_seed=seed(), max_tokens=whole(1))
        _ = self.rules

    @property
    def questions(self) -> tuple[str, ...]:
        """Names of the questions that its options ask."""
        return ("text",) if self.demo is None else ("visual",)

    @property
    def needs_subgoals(self) -> bool:
        """Whether its options ask for subgoals."""
        return self.demo is None

    def options(self) -> Mapping[str, object]:
        """Return all that can change a number, digests of prompts and demonstration included."""
        shown = {} if self.demo is None else {"demo": demonstration(self.demo).fingerprint}
        return {**self.published_options(), **shown}

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        """Return a progress curve over the judged points."""
        require(self.model, self.name, text=True)
        steps = [subgoal.name for subgoal in episode.subgoals]
        if self.demo is None and not steps:
            raise EpisodeError(
                f"Episode {episode.id} has no subgoals, which are its demonstration in words. Give some: --subgoals "
                "FILE. Or show a video of the task being done: -J demo=VIDEO"
            )
        count = None if self.fps is not None else self.points
        sampled = sample_frames(episode, count=count, fps=self.fps, most=self.max_points)
        demo = await asyncio.to_thread(self._demonstration, episode) if self.demo is not None else ()
        view = self.view_names(episode)[0]
        images = [self.frame(episode, view, int(index)) for index in sampled.indices[view]]
        texts = await ask_texts(ask, [self._request(episode, steps, demo, image) for image in images])
        raw = np.array([self.read_number(self.questions[0], text) for text in texts], dtype=np.float64)
        declined = sum(_DECLINED.search(text) is not None for text in texts)
        curve = progress_curve(sampled.times, raw)
        facts = {"declined": float(declined), "unread": float(np.isnan(raw).sum() - declined)}
        return Judgement(curve, success_score=success_at_end(curve, self.success_at), facts=facts)

    def _request(self, episode: Episode, steps: Sequence[str], demo: Sequence[Part], image: Part) -> Generate:
        name = self.questions[0]
        texts = self.texts(name)
        goal = f"The overall task goal is {episode.instruction}{'.' if name == 'text' else ''}"
        shown = (*demo, shifts_text(self.demo_frames)) if demo else (steps_text(steps),)
        user = (texts["system"], goal, texts["part1"], *shown, texts["part2"], image, texts["part3"])
        # The evaluation code states the system's text in both turns.
        turns = (Turn("system", (texts["system"],)), Turn("user", user))
        return self.sampled(Prompt(turns), max_tokens=self.max_tokens, seed=self.sampling_seed)

    def _demonstration(self, episode: Episode) -> tuple[Part, ...]:
        """Return the images of the demonstration, decoded."""
        shown = demonstration(str(self.demo))
        size = self.image_size(shown, shown.main_view)
        clip = shown.clip(shown.main_view, count=self.demo_frames, size=size)
        if len(clip.timestamps) < self.demo_frames:
            raise EpisodeError(
                f"The demonstration {self.demo} has {len(clip.timestamps)} frames; demo_frames is {self.demo_frames}."
            )
        frames = zip(clip.frames, clip.timestamps, clip.indices, strict=True)
        return tuple(
            DecodedMedia(Clip(frame[None], np.array([time]), np.array([index])))
            for frame, time, index in frames
        )


@lru_cache(maxsize=8)
def demonstration(path: str) -> Episode:
    """Return the one episode of a source."""
    found = list(open_episodes(path))
    if len(found) != 1:
        raise OptionError(f"demo is {path}, which holds {len(found)} episodes; a demonstration is one video.")
    return found[0]


def steps_text(steps: Sequence[str]) -> str:
    """Return a demonstration in words: every step with its number, and the percentage after it."""
    return "\n\n".join(
        f"Step {number}. {step}\nThe Progress for now is {round(100 * number / len(steps))}%."
        for number, step in enumerate(steps, start=1)
    )


def shifts_text(frames: int) -> str:
    """Return the sentence with the percentages of a demonstration's images."""
    shifts = " ".join(f"<image> {round(100 * number / (frames - 1))}%" for number in range(frames))
    return f"The progress shifts across all given visual demos is: {shifts}"
