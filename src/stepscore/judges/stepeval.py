"""StepEval: a verdict on every subgoal, by a vision-language model that looks at the recording.

The method is StepEval's (ElMallah, Chhajer, Lee, arXiv 2509.19524): ordered subgoals s_1..s_n and the frames
of a recording go to a model as they are, and a vector in {yes, no}^n comes back; here also unknown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from stepscore.episodes import Episode, SampledFrames, sample_frames
from stepscore.episodes.labels import Subgoal
from stepscore.errors import EpisodeError, OptionError, UnknownNameError
from stepscore.judges.base import Ask, SingleModelJudge
from stepscore.judges.common.ask_model import ask_scores, ask_texts, require
from stepscore.judges.common.framing import Layout, check_layout, check_sampling, image_parts
from stepscore.judges.common.parsing import stated_verdict, stated_verdicts
from stepscore.judges.common.prompts import PromptTemplate, load_prompt, prompt_names
from stepscore.judges.common.verdicts import settle, weigh
from stepscore.judges.stepeval_statements import PROMPT, WORDS, statement_scores
from stepscore.models import Generate, Model, Part, Prompt, Score, Scores, Turn
from stepscore.types import Judgement, Verdict

Strategy = Literal["all-at-once", "per-subgoal", "sequential"]
AnswerForm = Literal["text", "tokens", "statement"]
TEMPLATES = "stepeval_rules_"
REPEAT_TEMPERATURE = 0.7


@dataclass(frozen=True)
class StepEval(SingleModelJudge):
    """A verdict per subgoal: yes, no or unknown, with score, time and reason.

    Several views are shown in one question, arranged by ``layout``; a subgoal with a view of its own points
    the model to it. The success score is the lowest of the subgoals' scores (the most that all of them
    together can be worth), NaN where any verdict is unknown.

    Attributes:
        model: Who looks.
        strategy: ``"all-at-once"`` asks of all subgoals in one question, ``"per-subgoal"`` of each on its
            own, ``"sequential"`` of each in order, told what was judged before.
        answer: ``"text"`` reads the answer in words. ``"tokens"`` compares the probabilities of ``words`` as
            the next token, one subgoal a question: score = P(yes) / (P(yes) + P(no)), and neither reason
            nor time. Where the server hides the less likely word, the verdict stands and the score is NaN.
            ``"statement"`` weighs True against False after each subgoal as a statement about the whole video,
            all in one pass over it; see ``stepeval_statements.py``.
        frames: Frames of each view, spread evenly over the episode.
        fps: Or one every 1/fps seconds (and the last), at most ``max_frames``.
        max_frames: With ``fps``: where there would be more, this many evenly spread ones instead.
        size: Longer side of each frame in pixels; ``None`` for the recorded size.
        layout: ``"separate"`` (view after view), ``"interleaved"`` (moment by moment) or ``"tiled"`` (the
            views of a moment side by side in one picture).
        reason: Ask for one sentence of reason.
        when: Ask for the second at which a subgoal came true; kept with a yes, if it lies in the episode.
        repeats: Ask so often. The verdict is the most frequent answer, unknown on a tie; the score is the
            share of yes among the answers that were yes or no; ``why`` begins with the count, so
            that the answers' agreement can be seen.
        temperature: Of text answers; ``None`` is 0 for one repeat and 0.7 for several.
        seed: Of the sampling, where the model takes one; repeat r uses seed + r.
        template: The rules the model is given: ``default``, ``strict``, ``evidence``, or the path of a text
            file with rules of your own.
        words: With ``"tokens"``: the words for yes and no, one token each.
        max_tokens: Length at which a text answer is cut.
    """

    model: Model
    strategy: Strategy = "all-at-once"
    answer: AnswerForm = "text"
    frames: int = 16
    fps: float | None = None
    max_frames: int = 64
    size: int | None = 512
    layout: Layout = "separate"
    reason: bool = True
    when: bool = True
    repeats: int = 1
    temperature: float | None = None
    seed: int = 0
    template: str = "default"
    words: tuple[str, str] = ("Yes", "No")
    max_tokens: int = 1024
    name = "stepeval"
    version = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", tuple(self.words))
        if self.strategy not in get_args(Strategy):
            raise UnknownNameError("strategy", self.strategy, get_args(Strategy))
        if self.answer not in get_args(AnswerForm):
            raise UnknownNameError("answer", self.answer, get_args(AnswerForm))
        if self.answer == "statement" and self.strategy != "per-subgoal":
            raise OptionError("answer=statement weighs every subgoal by itself: choose strategy=per-subgoal.")
        if self.answer == "statement" and self.template != "default":
            raise OptionError("answer=statement tells no rules: leave template out, or choose answer=tokens.")
        if self.answer == "tokens" and self.strategy == "all-at-once":
            raise OptionError(
                "answer=tokens asks of one subgoal at a time: choose strategy=per-subgoal or sequential."
            )
        if self.answer != "text" and self.repeats > 1:
            raise OptionError(
                f"answer={self.answer} gives the same probabilities every time: leave repeats at 1."
            )
        if self.repeats < 1 or len(self.words) != 2:
            raise OptionError("repeats must be at least 1, and words a pair, for example ['Yes', 'No'].")
        check_layout(self.layout)
        check_sampling(self.frames, self.fps, self.max_frames, name="frames")
        self._rules()

    def options(self) -> Mapping[str, object]:
        """All that can change a number, prompt digests included."""
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "model"}
        form, rules = self._form(), self._rules()
        return {
            **values,
            "words": list(self.words),
            "temperature": self._heat(),
            "template": rules.name.removeprefix(TEMPLATES),
            "prompts": {"form": form.digest, "rules": rules.digest},
        }

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        """Verdicts on the episode's subgoals, in their order."""
        require(self.model, "stepeval", text=self.answer == "text", scores=self.answer != "text")
        if not episode.subgoals:
            raise EpisodeError(
                f"Episode {episode.id} has no subgoals to judge. Give some: --subgoals subgoals.yaml"
            )
        even = None if self.fps is not None else self.frames
        moments = sample_frames(episode, count=even, fps=self.fps, most=self.max_frames)
        case = _Case(episode, image_parts(moments, self.layout, self.size), moments)
        if self.answer == "statement":
            verdicts = await self._statements(case, ask)
        elif self.strategy == "all-at-once":
            verdicts = await self._all_at_once(case, ask)
        else:
            verdicts = await self._one_by_one(case, ask)
        scores = [v.score if v.answer != "unknown" else math.nan for v in verdicts]
        return Judgement(verdicts=tuple(verdicts), success_score=float(np.min(scores)))

    async def _statements(self, case: _Case, ask: Ask) -> list[Verdict]:
        scores = await statement_scores(case.episode, case.moments, self.size, ask)
        told = [Scores((float(yes), float(no)), (False, False)) for yes, no in scores]
        return [weigh(s.name, said, WORDS) for s, said in zip(case.episode.subgoals, told, strict=True)]

    async def _all_at_once(self, case: _Case, ask: Ask) -> list[Verdict]:
        subgoals = case.episode.subgoals
        listed = "\n".join(
            f"{k}. {subgoal_prompt_text(s, case.views)}" for k, s in enumerate(subgoals, start=1)
        )
        prompt = self._prompt(case, {"subgoals": listed})
        texts = await ask_texts(ask, self._repeated(prompt))
        answers = [stated_verdicts(text, [s.name for s in subgoals]) for text in texts]
        return [settle(s.name, [a[k] for a in answers], case.end_s) for k, s in enumerate(subgoals)]

    async def _one_by_one(self, case: _Case, ask: Ask) -> list[Verdict]:
        """A question a subgoal: all together, or each after the one before it and told of it."""
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
            return [weigh(s.name, said, self.words) for s, said in zip(subgoals, scores, strict=True)]
        texts = await ask_texts(ask, [request for prompt in prompts for request in self._repeated(prompt)])
        stated = [stated_verdict(text) for text in texts]
        return [
            settle(s.name, stated[k * self.repeats : (k + 1) * self.repeats], case.end_s)
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
        return self._prompt(case, values, told=bool(before))

    def _prompt(self, case: _Case, values: Mapping[str, str], *, told: bool = False) -> Prompt:
        asked = {"reason": self.reason, "when": self.when, "before": told}
        filled = {"instruction": case.episode.instruction, "rules": self._rules().text, **values}
        kept = [condition for condition, wanted in asked.items() if wanted]
        parts = self._form().parts(filled, {"pictures": case.pictures}, when=kept)
        return Prompt((Turn("user", parts),))

    def _repeated(self, prompt: Prompt) -> list[Generate]:
        heat = self._heat()
        return [
            Generate(
                prompt,
                max_tokens=self.max_tokens,
                temperature=heat,
                seed=self.seed + repeat if heat > 0 else None,
                json=True,
                repeat=repeat,
            )
            for repeat in range(self.repeats)
        ]

    def _heat(self) -> float:
        if self.temperature is not None:
            return self.temperature
        return REPEAT_TEMPERATURE if self.repeats > 1 else 0.0

    def _form(self) -> PromptTemplate:
        if self.answer == "statement":
            return load_prompt(PROMPT)
        if self.answer == "tokens":
            return load_prompt("stepeval_token")
        return load_prompt("stepeval_all" if self.strategy == "all-at-once" else "stepeval_one")

    def _rules(self) -> PromptTemplate:
        if self.template in prompt_names(TEMPLATES):
            return load_prompt(TEMPLATES + self.template)
        path = Path(self.template)
        if path.suffix != ".txt" or not path.is_file():
            raise UnknownNameError(
                "template", self.template, prompt_names(TEMPLATES), hint="Or the path of a .txt file."
            )
        return PromptTemplate(path.stem, path.read_text(encoding="utf-8").strip())


@dataclass(frozen=True, eq=False)
class _Case:
    """An episode with the pictures that every question shows."""

    episode: Episode
    pictures: tuple[Part, ...]
    moments: SampledFrames

    @property
    def views(self) -> tuple[str, ...]:
        return self.moments.views

    @property
    def end_s(self) -> float:
        return float(self.moments.times[-1])


def subgoal_prompt_text(subgoal: Subgoal, views: Sequence[str]) -> str:
    """A subgoal as the model reads it: name, criterion, when it counts, and where it is best seen."""
    criterion = f" ({subgoal.criterion})" if subgoal.criterion else ""
    counts = "true at some time" if subgoal.mode == "ever" else "still true in the last frame"
    seen = f"; best seen by the camera {subgoal.view}" if subgoal.view in views and len(views) > 1 else ""
    return f"{subgoal.name}{criterion} [counts if {counts}{seen}]"
