"""GVL: how much of the task is done in each of these frames, shown in random order?

Ma et al. 2024, arXiv 2411.04549. A model that sees a video in order tends to state rising progress, whatever it
shows. Shuffling forces it to look at every frame.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from stepscore.episodes import Clip, Episode, open_episodes, sample_frames
from stepscore.errors import EpisodeError, OptionError
from stepscore.judges.base import Ask, StructuredJudge, episode_rng
from stepscore.judges.common.ask_model import least_mass, require
from stepscore.judges.common.calibration import CalibratedJudge, FittedMap
from stepscore.judges.common.digits import expected_numbers, logprobs_to_request
from stepscore.judges.common.frame_percentages import parse_frame_percentages
from stepscore.judges.common.option_checks import (
    boolean,
    check_options,
    image_size,
    one_of,
    optional,
    seed,
    whole,
    within,
)
from stepscore.judges.common.prompts import load_prompt
from stepscore.metrics import voc
from stepscore.models import Answer, DecodedMedia, FrameRef, Generate, Model, Part, Prompt, Turn
from stepscore.models.schemas import (
    Constant,
    FreeText,
    JsonList,
    JsonObject,
    Number,
    Schema,
    Written,
    number_spans,
)
from stepscore.registry import names
from stepscore.types import Curve, FloatArray, IntArray, Judgement

PromptForm = Literal["published", "json"]

MIN_COVERAGE = 0.5
"""Share of the frames with a stated percentage below which the success score is unknown."""


@dataclass(frozen=True)
class Gvl(CalibratedJudge, StructuredJudge):
    """Progress = the percentage the model states for a frame, over 100, back in order of time.

    One question per episode and view. Frames carry numbers, and a percentage counts only with its frame's
    number: a frame that is missing, or stated twice and differently, is unknown. A percentage outside 0..100
    is kept only in the channel ``raw``.

    The success score is the published one, the VOC: the rank correlation of the stated percentages with time,
    with 0 for a negative one (the fact ``voc`` keeps its sign). It is unknown when fewer than half of the
    frames were answered. A correlation is not a verdict: success by judge is unknown without a success map. The
    fact ``unread`` counts percentages that are missing in the answer.

    Several views are asked about one by one at the same timestamps, each in its own order; progress is the
    mean over the views that answered, and each view's answer is in ``raw:VIEW``.

    Attributes:
        model: Any model that takes several images and generates text.
        frames: Frames to ask about, spread evenly from the first to the last.
        form: ``published``, the wording of the paper's appendix, answered in lines; ``json``, a wording of
            our own that asks for one JSON object, to which servers with a JSON mode are held.
        anchor: Show the first frame beforehand as the scene at 0 %; it is then not among those asked about.
        context: How many other episodes of the same task to show beforehand, each frame with its share of the
            time passed as percentage. Such a straight line is a fair example only of a success: episodes
            whose label says failure are not taken.
        context_source: Source of those episodes.
        size: Longer side of a frame in pixels; ``None`` for the recorded size.
        seed: Random seed of the order and of the choice of examples; each episode has its own.
        temperature: Sampling temperature; 0 for the likeliest answer.
        max_tokens: Length at which the answer is cut; a number cut through is not read.
        calibration: A map from ``stepscore calibrate``, fitted with the same options and model.
        structured: Constrain the answer to the question's form: every frame once, in the order shown, each
            with a percentage or ``unknown``. ``None``: if the model supports it. If the model returns
            the log-probabilities of its answers, a percentage is then the expected value of the number's tokens. The
            fact ``schema_mass`` is the smallest probability that the model gave to the allowed tokens, if it
            reports it.
    """

    model: Model = field(metadata=names("model"))
    frames: int = 15
    form: PromptForm = "published"
    anchor: bool = True
    context: int = 0
    context_source: str | Path | None = field(default=None, metadata=names("path"))
    size: int | None = 224
    seed: int = 0
    temperature: float = 0.0
    max_tokens: int = 2048
    calibration: str | Path | None = field(default=None, metadata=names("path"))
    structured: bool | None = None
    fitted: FittedMap | None = field(init=False, repr=False, default=None)
    name = "gvl"
    score_is_verdict = False

    def __post_init__(self) -> None:
        check_options(
            self, frames=whole(2), form=one_of(PromptForm), anchor=boolean(), context=whole(0, 1000)
        )
        check_options(self, size=image_size(), seed=seed(), temperature=within(0, 100), max_tokens=whole(1))
        check_options(self, structured=optional(boolean()))
        if (self.context > 0) != (self.context_source is not None):
            raise OptionError("context and context_source go together: how many episodes, and from where.")
        self.read_map()

    def options(self) -> Mapping[str, object]:
        """Return everything that can change a number: the prompt's texts and the source of examples included."""
        names = ("frames", "form", "anchor", "context", "size", "seed", "max_tokens")
        examples = [
            f"{e.id} {e.fingerprint} {e.instruction} {e.labels.success}" for e in self._example_episodes
        ]
        digest = hashlib.sha256("\n".join(sorted(examples)).encode()).hexdigest() if examples else None
        return {
            **{name: getattr(self, name) for name in names},
            **self.structured_options(),
            "temperature": float(self.temperature),
            "context_digest": digest,
            "prompt": {
                name: section.text for name, section in load_prompt(f"gvl_{self.form}").sections().items()
            },
            "views": "each asked alone, mean of those that answered",
            "calibration": self.map_content(),
        }

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        """Return the stated progress in order of time, and its VOC as success score."""
        require(self.model, self.name, text=True, structured=self.is_structured)
        sampled = sample_frames(episode, count=self.frames + self.anchor)
        first = int(self.anchor and len(sampled) > 1)
        times = sampled.times[first:]
        stated: dict[str, FloatArray] = {}
        answers: list[Answer] = []
        for view, indices in sampled.indices.items():
            scene = [FrameRef(view, int(index), self.size) for index in indices[:first]]
            percents, answer = await self._ask_view(episode, view, scene, indices[first:], ask)
            stated[view] = percents / 100
            answers.append(answer)
        inside = {view: np.where((raw >= 0) & (raw <= 1), raw, np.nan) for view, raw in stated.items()}
        channels = {"raw": _mean_of_known(stated)}
        if len(stated) > 1:
            channels |= {f"raw:{view}": raw for view, raw in stated.items()}
        curve = Curve(times, _mean_of_known(inside), channels)
        order = voc(curve.progress) if curve.coverage >= MIN_COVERAGE else np.nan
        unread = float(sum(np.isnan(raw).sum() for raw in stated.values()))
        judgement = Judgement(
            curve,
            success_score=order if np.isnan(order) else max(order, 0.0),
            facts={"voc": order, "unread": unread, **least_mass(answers)},
        )
        return self.calibrated(judgement, episode)

    async def _ask_view(
        self, episode: Episode, view: str, scene: Sequence[FrameRef], indices: IntArray, ask: Ask
    ) -> tuple[FloatArray, Answer]:
        """Return the percentage of each frame of a view, in order of time, NaN if none is; and the answer."""
        rng = episode_rng(episode, self.name, self.seed, view)
        examples = await self._examples(episode, view, rng)
        order = rng.permutation(len(indices))
        frames = [FrameRef(view, int(indices[at]), self.size) for at in order]
        question = self._question(episode.instruction.strip(), scene, examples, frames)
        answer = await ask(question)
        numbers = [len(examples) + at + 1 for at in range(len(frames))]
        stated = parse_frame_percentages(answer.text, numbers, cut=answer.finish == "length")
        if question.schema is not None and (spans := list(number_spans(question.schema, answer.text))):
            # The schema locates the numbers: percentages in descriptions do not count, and 1 is 1 %.
            pairs = zip(numbers, spans, strict=True)
            stated = {number: float(answer.text[slice(*span)]) for number, span in pairs if span is not None}
            expected = dict(zip(numbers, expected_numbers(answer, question.schema), strict=False))
            stated |= {number: value for number, value in expected.items() if not np.isnan(value)}
        percents = np.full(len(indices), np.nan)
        percents[order] = [stated.get(number, np.nan) for number in numbers]
        return percents, answer

    def _question(
        self,
        instruction: str,
        scene: Sequence[FrameRef],
        examples: Sequence[tuple[DecodedMedia, int]],
        frames: Sequence[FrameRef],
    ) -> Generate:
        """Return the question as one user's turn; numbers continue from the examples to the frames asked about."""
        sections = load_prompt(f"gvl_{self.form}").sections()

        def text(name: str, **fields: object) -> str:
            return sections[name].fill(instruction=instruction, **fields) + "\n"

        parts: list[Part] = [text("task"), *([text("examples")] if examples else []), text("order")]
        for image in scene:
            parts += [text("scene"), image, text("scene is")]
        for number, (example, percent) in enumerate(examples, start=1):
            parts += [text("example", number=number), example, text("example is", percent=percent)]
        parts.append(text("ask"))
        numbers = range(len(examples) + 1, len(examples) + len(frames) + 1)
        for number, frame in zip(numbers, frames, strict=True):
            parts += [text("frame", number=number), frame]
        held = self.is_structured
        return Generate(
            Prompt((Turn("user", tuple(parts)),)),
            max_tokens=self.max_tokens,
            temperature=float(self.temperature),
            seed=self.seed if self.temperature > 0 else None,
            json=self.form == "json",
            top_logprobs=logprobs_to_request(self.model, self.max_tokens) if held else 0,
            schema=answer_schema(self.form, numbers) if held else None,
        )

    @cached_property
    def _example_episodes(self) -> tuple[Episode, ...]:
        """Episodes of the context source that may serve as examples, by id."""
        if self.context_source is None:
            return ()
        usable = (e for e in open_episodes(self.context_source) if e.labels.success is not False and e.views)
        return tuple(sorted(usable, key=lambda e: e.id))

    async def _examples(
        self, episode: Episode, view: str, rng: np.random.Generator
    ) -> list[tuple[DecodedMedia, int]]:
        """Return frames of other episodes of the task with their percentages, each episode's in random order."""
        if not self.context:
            return []
        task = episode.instruction.strip().casefold()
        usable = [
            other
            for other in self._example_episodes
            if other.instruction.strip().casefold() == task
            and other.fingerprint != episode.fingerprint
            and view in other.views
        ]
        if len(usable) < self.context:
            raise EpisodeError(
                f"Episode {episode.id} needs {self.context} examples of its task with the view {view!r}; "
                f"{self.context_source} has {len(usable)}. Give another context_source, or a smaller context."
            )
        examples: list[tuple[DecodedMedia, int]] = []
        for chosen in sorted(rng.choice(len(usable), self.context, replace=False).tolist()):
            clip = await asyncio.to_thread(usable[chosen].clip, view, count=self.frames, size=self.size)
            share = clip.timestamps / clip.timestamps[-1] if clip.timestamps[-1] > 0 else clip.timestamps
            for number in rng.permutation(len(clip)):
                at = slice(number, number + 1)
                frame = Clip(clip.frames[at], clip.timestamps[at], clip.indices[at])
                examples.append((DecodedMedia(frame), round(100 * float(share[number]))))
        return examples


def answer_schema(form: PromptForm, numbers: Sequence[int]) -> Schema:
    """Return the form of an answer about frames of these numbers: a line, or an entry of a JSON list, for each."""
    if form == "json":
        entries = [
            JsonObject(
                (("frame", Constant(number)), ("description", FreeText()), ("percent", Number(0, 100)))
            )
            for number in numbers
        ]
        return JsonObject((("frames", JsonList(tuple(entries))),))
    percent = Number(0, 100, unit="%")
    parts: list[str | Schema] = []
    for number in numbers:
        begins = "\nFrame" if parts else "Frame"
        parts += [
            f"{begins} {number}: Frame Description: ",
            FreeText(),
            ", Task Completion Percentages:",
            percent,
        ]
    return Written(tuple(parts))


def _mean_of_known(by_view: Mapping[str, FloatArray]) -> FloatArray:
    """Return the mean over views at each point, of those that are known there; NaN if none is."""
    values = np.stack(list(by_view.values()))
    known = ~np.isnan(values)
    count = known.sum(axis=0)
    total = np.where(known, values, 0.0).sum(axis=0)
    return np.asarray(np.where(count > 0, total / np.maximum(count, 1), np.nan), dtype=np.float64)
