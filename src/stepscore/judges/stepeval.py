"""StepEval: a verdict on every subgoal, by a vision-language model that is shown the recording.

The method is StepEval's (ElMallah, Chhajer, Lee, arXiv 2509.19524): ordered subgoals s_1..s_n and the frames
of a recording go to a model as they are, and it returns a vector in {yes, no}^n; here also unknown.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Literal

import numpy as np

from stepscore._untrusted import read_text
from stepscore.episodes import Episode, SampledFrames, sample_frames
from stepscore.episodes.labels import Subgoal
from stepscore.errors import EpisodeError, OptionError, UnknownNameError
from stepscore.judges.base import Ask, StructuredJudge
from stepscore.judges.common.ask_model import ask_answers, ask_scores, least_mass, require
from stepscore.judges.common.framing import ViewLayout, image_parts
from stepscore.judges.common.option_checks import (
    boolean,
    check_options,
    frame_rate,
    image_size,
    one_of,
    optional,
    seed,
    text,
    whole,
    within,
)
from stepscore.judges.common.parsing import parse_subgoal_answer, parse_subgoal_answers
from stepscore.judges.common.prompts import PromptTemplate, load_prompt, prompt_names
from stepscore.judges.common.verdicts import verdict_from_scores, verdict_from_text
from stepscore.judges.stepeval_statements import PROMPT, WORDS, statement_scores
from stepscore.models import Answer, Generate, Model, Part, Prompt, Score, Scores, Turn
from stepscore.models.schemas import Constant, FreeText, JsonList, JsonObject, Schema, Seconds, Word
from stepscore.registry import names
from stepscore.types import Judgement, Verdict

Strategy = Literal["all-at-once", "per-subgoal", "sequential"]
AnswerFormat = Literal["text", "tokens", "statement"]
RULES_PREFIX = "stepeval_rules_"
MAX_RULES_BYTES = 1_000_000
"""Longest file of rules; it goes into every question."""
REPEAT_TEMPERATURE = 0.7
"""Default sampling temperature where a question is repeated."""


@dataclass(frozen=True)
class StepEval(StructuredJudge):
    """A verdict per subgoal: yes, no or unknown, with score, time and reason.

    Several views are shown in one question, arranged by ``layout``; a subgoal with a view of its own points
    the model to it. The success score is the lowest of the subgoals' scores (the most that all of them
    together can be worth), NaN where any verdict is unknown.

    Attributes:
        model: Any vision-language model; see ``answer`` for its capabilities.
        strategy: ``"all-at-once"`` asks about all subgoals in one question, ``"per-subgoal"`` about each on its
            own, ``"sequential"`` about each in order, with the verdicts before it.
        answer: ``"text"`` parses a generated answer. ``"tokens"`` compares the probabilities of ``words`` as
            the next token, one subgoal a question: score = P(yes) / (P(yes) + P(no)), and neither reason
            nor time. Where the server censors the less likely word, the verdict stands and the score is NaN.
            ``"statement"`` compares True with False after each subgoal as a statement about the whole video,
            all in one pass over it; see ``stepeval_statements.py``.
        frames: Frames of each view, spread evenly over the episode.
        fps: Or one every 1/fps seconds (and the last), at most ``max_frames``.
        max_frames: With ``fps``: where there would be more, this many evenly spread ones instead.
        size: Longer side of each frame in pixels; ``None`` for the recorded size.
        layout: ``"separate"`` (view after view), ``"interleaved"`` (by time) or ``"tiled"`` (the
            views side by side in one image).
        reason: Ask for one sentence of reason.
        when: Ask for the timestamp at which a subgoal came true; kept with a yes, if it lies in the episode.
        repeats: Times each question is asked. The verdict is the most frequent answer, unknown on a tie; the
            score is the share of yes among the answers that were yes or no; ``why`` begins with the count, to
            show how far the answers agree.
        temperature: Sampling temperature of text answers; ``None`` is 0 for one repeat and 0.7 for several.
        seed: Random seed of the sampling, where the model takes one; repeat r uses seed + r.
        template: The rules the model is given: ``default``, ``strict``, ``evidence``, or the path of a text
            file with rules of your own.
        words: With ``"tokens"``: the words for yes and no, one token each.
        max_tokens: Length at which a text answer is cut.
        structured: Hold text answers to the JSON that the question asks for, where a verdict is yes, no or unknown.
            ``None`` does so where the model supports it. The fact ``schema_mass`` is then the smallest probability
            that it gave to the allowed tokens, where it states it.
    """

    model: Model = field(metadata=names("model"))
    strategy: Strategy = "all-at-once"
    answer: AnswerFormat = "text"
    frames: int = 16
    fps: float | None = None
    max_frames: int = 64
    size: int | None = 512
    layout: ViewLayout = "separate"
    reason: bool = True
    when: bool = True
    repeats: int = 1
    temperature: float | None = None
    seed: int = 0
    template: str = field(default="default", metadata=names("path", "default", "strict", "evidence"))
    words: tuple[str, str] = field(default=("Yes", "No"), metadata=names("text"))
    max_tokens: int = 1024
    structured: bool | None = None
    name = "stepeval"
    needs_subgoals = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", tuple(self.words))
        check_options(self, strategy=one_of(Strategy), answer=one_of(AnswerFormat), layout=one_of(ViewLayout))
        check_options(
            self, frames=whole(1), fps=optional(frame_rate()), max_frames=whole(1), size=image_size()
        )
        check_options(self, reason=boolean(), when=boolean(), repeats=whole(1, 1000), seed=seed())
        check_options(self, temperature=optional(within(0, 100)), template=text(), max_tokens=whole(1))
        check_options(self, structured=optional(boolean()))
        if self.structured and self.answer != "text":
            raise OptionError("structured=true holds answers in words to a schema: choose answer=text.")
        if self.answer == "statement" and self.strategy != "per-subgoal":
            raise OptionError("answer=statement scores every subgoal by itself: choose strategy=per-subgoal.")
        if self.answer == "statement" and self.template != "default":
            raise OptionError("answer=statement sends no rules: leave template out, or choose answer=tokens.")
        if self.answer == "tokens" and self.strategy == "all-at-once":
            raise OptionError(
                "answer=tokens asks about one subgoal at a time: choose strategy=per-subgoal or sequential."
            )
        if self.answer != "text" and self.repeats > 1:
            raise OptionError(
                f"answer={self.answer} returns the same probabilities every time: leave repeats at 1."
            )
        if len(self.words) != 2 or not all(isinstance(word, str) for word in self.words):
            raise OptionError(f"words is {list(self.words)}; it must be a pair, for example ['Yes', 'No'].")
        self._rules()

    @property
    def is_structured(self) -> bool:
        """Whether answers are held to a schema; those by tokens and statements have none."""
        return self.answer == "text" and super().is_structured

    def options(self) -> Mapping[str, object]:
        """Return all that can change a number, prompt digests included."""
        left_out = ("model", "structured")
        values = {
            field.name: getattr(self, field.name) for field in fields(self) if field.name not in left_out
        }
        question, rules = self._question_template(), self._rules()
        return {
            **values,
            **self.structured_options(),
            "words": list(self.words),
            "temperature": self._temperature(),
            "template": rules.name.removeprefix(RULES_PREFIX),
            "prompts": {"form": question.digest, "rules": rules.digest},
        }

    def template_text(self) -> str:
        """Return the rules that the model is given; another text file may take their place."""
        return self._rules().text

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        """Return verdicts on the episode's subgoals, in their order."""
        in_text = self.answer == "text"
        require(self.model, "stepeval", text=in_text, scores=not in_text, structured=self.is_structured)
        if not episode.subgoals:
            raise EpisodeError(
                f"Episode {episode.id} has no subgoals to judge. Give some: --subgoals subgoals.yaml"
            )
        count = None if self.fps is not None else self.frames
        sampled = sample_frames(episode, count=count, fps=self.fps, most=self.max_frames)
        case = _Case(episode, image_parts(sampled, self.layout, self.size), sampled)
        if self.answer == "statement":
            verdicts = await self._statements(case, ask)
        elif self.strategy == "all-at-once":
            verdicts = await self._all_at_once(case, ask)
        else:
            verdicts = await self._one_by_one(case, ask)
        scores = [v.score if v.answer != "unknown" else math.nan for v in verdicts]
        facts = least_mass(case.answers)
        return Judgement(verdicts=tuple(verdicts), success_score=float(np.min(scores)), facts=facts)

    async def _statements(self, case: _Case, ask: Ask) -> list[Verdict]:
        logprobs = await statement_scores(case.episode, case.sampled, self.size, ask)
        scores = [Scores((float(yes), float(no)), (False, False)) for yes, no in logprobs]
        subgoals = case.episode.subgoals
        return [verdict_from_scores(s.name, pair, WORDS) for s, pair in zip(subgoals, scores, strict=True)]

    async def _all_at_once(self, case: _Case, ask: Ask) -> list[Verdict]:
        subgoals = case.episode.subgoals
        listed = "\n".join(
            f"{k}. {subgoal_prompt_text(s, case.views)}" for k, s in enumerate(subgoals, start=1)
        )
        prompt = self._prompt(case, {"subgoals": listed})
        texts = await case.ask_texts(ask, self._repeated(prompt, self._schema(len(subgoals))))
        answers = [parse_subgoal_answers(text, [s.name for s in subgoals]) for text in texts]
        return [
            verdict_from_text(s.name, [a[k] for a in answers], case.end_s) for k, s in enumerate(subgoals)
        ]

    async def _one_by_one(self, case: _Case, ask: Ask) -> list[Verdict]:
        """Ask a question a subgoal: all together, or each with the verdicts before it."""
        subgoals = list(case.episode.subgoals)
        if self.strategy == "per-subgoal":
            return await self._judge_each(case, subgoals, [], ask)
        verdicts: list[Verdict] = []
        for subgoal in subgoals:
            verdicts += await self._judge_each(case, [subgoal], verdicts, ask)
        return verdicts

    async def _judge_each(
        self, case: _Case, subgoals: Sequence[Subgoal], before: Sequence[Verdict], ask: Ask
    ) -> list[Verdict]:
        prompts = [self._question(case, subgoal, before) for subgoal in subgoals]
        if self.answer == "tokens":
            scores = await ask_scores(ask, [Score(prompt, self.words) for prompt in prompts])
            return [
                verdict_from_scores(s.name, pair, self.words)
                for s, pair in zip(subgoals, scores, strict=True)
            ]
        schema = self._schema()
        texts = await case.ask_texts(ask, [each for p in prompts for each in self._repeated(p, schema)])
        answers = [parse_subgoal_answer(text) for text in texts]
        return [
            verdict_from_text(s.name, answers[k * self.repeats : (k + 1) * self.repeats], case.end_s)
            for k, s in enumerate(subgoals)
        ]

    def _question(self, case: _Case, subgoal: Subgoal, before: Sequence[Verdict]) -> Prompt:
        values = {
            "number": str(case.episode.subgoals.index(subgoal) + 1),
            "count": str(len(case.episode.subgoals)),
            "subgoal": subgoal_prompt_text(subgoal, case.views),
            "before": "\n".join(f"{k}. {v.subgoal}: {v.answer}" for k, v in enumerate(before, start=1)),
            "yes": self.words[0].strip(),
            "no": self.words[1].strip(),
        }
        return self._prompt(case, values, with_verdicts=bool(before))

    def _prompt(self, case: _Case, values: Mapping[str, str], *, with_verdicts: bool = False) -> Prompt:
        conditions = {"reason": self.reason, "when": self.when, "before": with_verdicts}
        filled = {"instruction": case.episode.instruction, "rules": self._rules().text, **values}
        kept = [condition for condition, holds in conditions.items() if holds]
        images = {"pictures": case.images}  # stored name
        parts = self._question_template().parts(filled, images, when=kept)
        return Prompt((Turn("user", parts),))

    def _schema(self, subgoals: int | None = None) -> Schema | None:
        """Return the JSON that a question asks for, about one subgoal or this many; ``None`` for any text."""
        if not self.is_structured:
            return None
        keys: list[tuple[str, Schema]] = [("why", FreeText())] if self.reason else []
        keys.append(("answer", Word(("yes", "no"))))
        keys += [("when", Seconds())] if self.when else []
        if subgoals is None:
            return JsonObject(tuple(keys))
        entries = [JsonObject((("number", Constant(k)), *keys)) for k in range(1, subgoals + 1)]
        return JsonObject((("subgoals", JsonList(tuple(entries))),))

    def _repeated(self, prompt: Prompt, schema: Schema | None) -> list[Generate]:
        temperature = self._temperature()
        return [
            Generate(
                prompt,
                max_tokens=self.max_tokens,
                temperature=temperature,
                seed=self.seed + repeat if temperature > 0 else None,
                json=True,
                repeat=repeat,
                schema=schema,
            )
            for repeat in range(self.repeats)
        ]

    def _temperature(self) -> float:
        if self.temperature is not None:
            return self.temperature
        return REPEAT_TEMPERATURE if self.repeats > 1 else 0.0

    def _question_template(self) -> PromptTemplate:
        if self.answer == "statement":
            return load_prompt(PROMPT)
        if self.answer == "tokens":
            return load_prompt("stepeval_token")
        return load_prompt("stepeval_all" if self.strategy == "all-at-once" else "stepeval_one")

    def _rules(self) -> PromptTemplate:
        if self.template in prompt_names(RULES_PREFIX):
            return load_prompt(RULES_PREFIX + self.template)
        path = Path(self.template)
        if path.suffix != ".txt" or not os.path.exists(path):
            raise UnknownNameError(
                "template", self.template, prompt_names(RULES_PREFIX), hint="Or the path of a .txt file."
            )
        return PromptTemplate(path.stem, read_text(path, OptionError, max_bytes=MAX_RULES_BYTES).strip())


@dataclass(frozen=True, eq=False)
class _Case:
    """An episode with the images that every question shows."""

    episode: Episode
    images: tuple[Part, ...]
    sampled: SampledFrames
    answers: list[Answer] = field(default_factory=list)

    async def ask_texts(self, ask: Ask, requests: Sequence[Generate]) -> list[str]:
        """Return the generated texts, and keep the answers."""
        found = await ask_answers(ask, requests)
        self.answers.extend(found)
        return [answer.text for answer in found]

    @property
    def views(self) -> tuple[str, ...]:
        return self.sampled.views

    @property
    def end_s(self) -> float:
        return float(self.sampled.times[-1])


def subgoal_prompt_text(subgoal: Subgoal, views: Sequence[str]) -> str:
    """Return a subgoal as a prompt states it: name, criterion, when it counts, and the camera that shows it best."""
    criterion = f" ({subgoal.criterion})" if subgoal.criterion else ""
    counts = "true at some time" if subgoal.mode == "ever" else "still true in the last frame"
    camera = f"; best seen by the camera {subgoal.view}" if subgoal.view in views and len(views) > 1 else ""
    return f"{subgoal.name}{criterion} [counts if {counts}{camera}]"
