"""GVL: how much of the task is done in each of these frames, shown in random order?

Ma et al. 2024, arXiv 2411.04549. A model that sees a video in order says that progress rises, whatever it
shows. Shuffled, every frame has to be looked at.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from stepscore.episodes import Clip, Episode, open_episodes, sample_frames
from stepscore.errors import EpisodeError, OptionError
from stepscore.judges.base import Ask, SingleModelJudge, episode_rng
from stepscore.judges.common.ask_model import require
from stepscore.judges.common.calibration import FittedMap, check_calibration, read_calibration
from stepscore.judges.common.percentages import stated_percentages
from stepscore.judges.common.prompts import load_prompt
from stepscore.metrics import voc
from stepscore.models import Answer, DecodedMedia, FrameRef, Generate, Model, Part, Prompt, Turn
from stepscore.types import Curve, FloatArray, IntArray, Judgement

Form = Literal["published", "json"]

LEAST_KNOWN = 0.5
"""Share of the frames that must be answered before their order says anything of the episode."""


@dataclass(frozen=True)
class Gvl(SingleModelJudge):
    """Progress = the percentage the model states for a frame, over 100, back in order of time.

    One question an episode and view. Frames carry numbers, and a percentage counts only with its frame's
    number: a frame that is missing, or stated twice and differently, is unknown. A percentage outside 0..100
    stands in the channel ``raw`` alone.

    The success score is the published one, the VOC: the rank correlation of the stated percentages with time,
    with 0 for a negative one (the fact ``voc`` keeps its sign). It is unknown when fewer than half of the
    frames were answered. The fact ``unread`` counts percentages that were asked for and not stated.

    Several views are asked about one by one at the same moments, each in an order of its own; progress is the
    mean over the views that answered, and each view's answer stands in ``raw:VIEW``.

    Attributes:
        model: Any model that looks at several pictures and writes.
        frames: Frames to ask about, spread evenly from the first to the last.
        form: ``published``, the wording of the paper's appendix, answered in lines; ``json``, a wording of
            our own that asks for one JSON object, to which servers with a JSON mode are held.
        anchor: Show the first frame beforehand as the scene at 0 %; it is then not among those asked about.
        context: How many other episodes of the same task to show beforehand, each frame with its share of the
            time passed as percentage. Such a straight line is a fair example only of a success: episodes
            whose label says failure are not taken.
        context_source: Where to take them from; any source of episodes.
        size: Longer side of a frame in pixels; ``None`` for the recorded size.
        seed: Another seed gives other orders and other examples; each episode has its own.
        temperature: 0 for the likeliest answer.
        max_tokens: Length at which the answer is cut; a number cut through is not read.
        calibration: A map from ``stepscore calibrate``, fitted with the same options and model.
    """

    model: Model
    frames: int = 15
    form: Form = "published"
    anchor: bool = True
    context: int = 0
    context_source: str | Path | None = None
    size: int | None = 224
    seed: int = 0
    temperature: float = 0.0
    max_tokens: int = 2048
    calibration: str | Path | None = None
    fitted: FittedMap | None = field(init=False, repr=False, default=None)
    name = "gvl"
    version = 1

    def __post_init__(self) -> None:
        for option, least in (("frames", 2), ("context", 0), ("max_tokens", 1)):
            if not isinstance(value := getattr(self, option), int) or value < least:
                raise OptionError(f"{option} is {value}; it must be a whole number of at least {least}.")
        if self.form not in get_args(Form):
            raise OptionError(f"form is {self.form!r}. Valid: {', '.join(get_args(Form))}.")
        if (self.context > 0) != (self.context_source is not None):
            raise OptionError("context and context_source go together: how many episodes, and from where.")
        if self.calibration is not None:
            fitted = read_calibration(self.calibration)
            check_calibration(fitted, self, self.model.name)
            object.__setattr__(self, "fitted", fitted)

    def options(self) -> Mapping[str, object]:
        """All that can change a number: the prompt's texts and what the examples are taken from included."""
        names = ("frames", "form", "anchor", "context", "size", "seed", "max_tokens")
        shown = [f"{e.id} {e.fingerprint} {e.instruction} {e.labels.success}" for e in self._examples_at_hand]
        digest = hashlib.sha256("\n".join(sorted(shown)).encode()).hexdigest() if shown else None
        return {
            **{name: getattr(self, name) for name in names},
            "temperature": float(self.temperature),
            "context_digest": digest,
            "prompt": {
                name: section.text for name, section in load_prompt(f"gvl_{self.form}").sections().items()
            },
            "views": "each asked alone, mean of those that answered",
            "calibration": None if self.fitted is None else self.fitted.content(),
        }

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        """The stated progress in order of time, and its VOC as success score."""
        require(self.model, self.name, text=True)
        moments = sample_frames(episode, count=self.frames + self.anchor)
        first = int(self.anchor and len(moments) > 1)
        times = moments.times[first:]
        stated = {}
        for view, indices in moments.indices.items():
            scene = [FrameRef(view, int(index), self.size) for index in indices[:first]]
            stated[view] = await self._ask_view(episode, view, scene, indices[first:], ask) / 100
        inside = {view: np.where((raw >= 0) & (raw <= 1), raw, np.nan) for view, raw in stated.items()}
        channels = {"raw": _mean_of_known(stated)}
        if len(stated) > 1:
            channels |= {f"raw:{view}": raw for view, raw in stated.items()}
        curve = Curve(times, _mean_of_known(inside), channels)
        order = voc(curve.progress) if curve.coverage >= LEAST_KNOWN else np.nan
        unread = float(sum(np.isnan(raw).sum() for raw in stated.values()))
        return Judgement(
            curve if self.fitted is None else self.fitted.apply(curve),
            success_score=order if np.isnan(order) else max(order, 0.0),
            facts={"voc": order, "unread": unread},
        )

    async def _ask_view(
        self, episode: Episode, view: str, scene: Sequence[FrameRef], indices: IntArray, ask: Ask
    ) -> FloatArray:
        """The percentage stated for each frame of a view, in order of time; NaN where none is."""
        rng = episode_rng(episode, self.name, self.seed, view)
        examples = await self._examples(episode, view, rng)
        order = rng.permutation(len(indices))
        frames = [FrameRef(view, int(indices[place]), self.size) for place in order]
        answer = await ask(self._question(episode.instruction.strip(), scene, examples, frames))
        assert isinstance(answer, Answer)
        numbers = [len(examples) + place + 1 for place in range(len(frames))]
        found = stated_percentages(answer.text, numbers, cut=answer.finish == "length")
        percents = np.full(len(indices), np.nan)
        percents[order] = [found.get(number, np.nan) for number in numbers]
        return percents

    def _question(
        self,
        instruction: str,
        scene: Sequence[FrameRef],
        examples: Sequence[tuple[DecodedMedia, int]],
        frames: Sequence[FrameRef],
    ) -> Generate:
        """All of it as one user's turn; numbers go on from the examples to the frames asked about."""
        sections = load_prompt(f"gvl_{self.form}").sections()

        def say(name: str, **fields: object) -> str:
            return sections[name].fill(instruction=instruction, **fields) + "\n"

        parts: list[Part] = [say("task"), *([say("examples")] if examples else []), say("order")]
        for picture in scene:
            parts += [say("scene"), picture, say("scene is")]
        for number, (shown, percent) in enumerate(examples, start=1):
            parts += [say("example", number=number), shown, say("example is", percent=percent)]
        parts.append(say("ask"))
        for number, frame in enumerate(frames, start=len(examples) + 1):
            parts += [say("frame", number=number), frame]
        return Generate(
            Prompt((Turn("user", tuple(parts)),)),
            max_tokens=self.max_tokens,
            temperature=float(self.temperature),
            seed=self.seed if self.temperature > 0 else None,
            json=self.form == "json",
        )

    @cached_property
    def _examples_at_hand(self) -> tuple[Episode, ...]:
        """Episodes of the context source that may serve as examples, by id."""
        if self.context_source is None:
            return ()
        usable = (e for e in open_episodes(self.context_source) if e.labels.success is not False and e.views)
        return tuple(sorted(usable, key=lambda e: e.id))

    async def _examples(
        self, episode: Episode, view: str, rng: np.random.Generator
    ) -> list[tuple[DecodedMedia, int]]:
        """Frames of other episodes of the task with their percentages, each episode's in random order."""
        if not self.context:
            return []
        task = episode.instruction.strip().casefold()
        fit = [
            other
            for other in self._examples_at_hand
            if other.instruction.strip().casefold() == task
            and other.fingerprint != episode.fingerprint
            and view in other.views
        ]
        if len(fit) < self.context:
            raise EpisodeError(
                f"Episode {episode.id} needs {self.context} examples of its task with the view {view!r}; "
                f"{self.context_source} has {len(fit)}. Give another context_source, or a smaller context."
            )
        found: list[tuple[DecodedMedia, int]] = []
        for chosen in sorted(rng.choice(len(fit), self.context, replace=False).tolist()):
            clip = await asyncio.to_thread(fit[chosen].clip, view, count=self.frames, size=self.size)
            share = clip.timestamps / clip.timestamps[-1] if clip.timestamps[-1] > 0 else clip.timestamps
            for place in rng.permutation(len(clip)):
                at = slice(place, place + 1)
                one = Clip(clip.frames[at], clip.timestamps[at], clip.indices[at])
                found.append((DecodedMedia(one), round(100 * float(share[place]))))
        return found


def _mean_of_known(by_view: Mapping[str, FloatArray]) -> FloatArray:
    """The mean over views at each moment, of those that are known there; NaN where none is."""
    values = np.stack(list(by_view.values()))
    known = ~np.isnan(values)
    count = known.sum(axis=0)
    total = np.where(known, values, 0.0).sum(axis=0)
    return np.asarray(np.where(count > 0, total / np.maximum(count, 1), np.nan), dtype=np.float64)
