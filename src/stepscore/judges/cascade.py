"""A cheap judge first, an expensive one only where the cheap one is unsure or two disagree.

The cheap judge's success probability decides, where a success map gives it one, else its success score: between
``unsure_from`` and ``unsure_to`` it is unsure, as it is where it gives none. With a second opinion, a difference of
more than ``disagree`` is a disagreement; a probability is compared with a probability, a score with a score. Whether
an episode was escalated depends on that episode alone, so the order of judging changes nothing; a limit on
what may be spent is the run's budget. Where the expensive judge was asked, its judgement is taken, with the cheap
one's curve and verdicts where it has none. Each judge combines views in its own way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from stepscore._untrusted import shown
from stepscore.episodes import Episode
from stepscore.errors import OptionError
from stepscore.judges.base import Ask, Judge, JudgeTraits, default_model, only_model
from stepscore.judges.common.option_checks import check_options, within
from stepscore.models import Model
from stepscore.registry import names
from stepscore.types import Judgement


@dataclass(frozen=True)
class Cascade:
    """A cheap judge first, an expensive one where the cheap one is unsure.

    Facts of an episode: ``escalated``, 1 where the second judge decided and 0 where the first did; ``first_score``
    and, with a success map, ``first_probability``, what the first judge gave.

    Attributes:
        first: The cheap judge, or its name: ``"topreward@hf/PATH"`` (judge, ``@``, model).
        second: The expensive judge, or its name.
        also: A second cheap judge, whose disagreement escalates too.
        unsure_from: Success probabilities, or scores where the first judge has no success map, from here ...
        unsure_to: ... to here are unsure.
        disagree: Difference of the two cheap judges that is a disagreement.
    """

    first: Judge | str = field(metadata=names("judge"))
    second: Judge | str = field(metadata=names("judge"))
    also: Judge | str | None = field(default=None, metadata=names("judge"))
    unsure_from: float = 0.25
    unsure_to: float = 0.75
    disagree: float = 0.3
    name = "cascade"
    version = 1

    def __post_init__(self) -> None:
        for option in ("first", "second", "also"):
            value = getattr(self, option)
            if isinstance(value, str):
                object.__setattr__(self, option, _judge_named(value))
            elif not (hasattr(value, "judge") or (option == "also" and value is None)):
                raise OptionError(
                    f"{option} must be a judge or its name, got {shown(repr(value))}. Name one: "
                    f"{option}=linear-time, or with its model: {option}=topreward@hf/PATH"
                )
        check_options(self, unsure_from=within(0, 1), unsure_to=within(0, 1), disagree=within(0, 1))
        if not 0.0 <= self.unsure_from <= self.unsure_to <= 1.0:
            raise OptionError(
                f"unsure_from is {self.unsure_from} and unsure_to {self.unsure_to}; "
                "expected 0 <= unsure_from <= unsure_to <= 1."
            )

    @property
    def models(self) -> tuple[Model, ...]:
        """The models of its judges."""
        judges = [j for j in (self.first, self.also, self.second) if j is not None and not isinstance(j, str)]
        return tuple(model for judge in judges for model in judge.models)

    @property
    def needs_subgoals(self) -> bool:
        """Whether one of its judges judges subgoals."""
        return any(JudgeTraits.of(judge).needs_subgoals for judge in (self.first, self.also, self.second))

    @property
    def uses_goals(self) -> bool:
        """Whether one of its judges looks at goal images."""
        return any(JudgeTraits.of(judge).uses_goals for judge in (self.first, self.also, self.second))

    def options(self) -> Mapping[str, object]:
        """Return all that can change a number, the judges' own options and models included."""
        return {
            "first": _describe(self.first),
            "second": _describe(self.second),
            "also": None if self.also is None else _describe(self.also),
            "unsure_from": self.unsure_from,
            "unsure_to": self.unsure_to,
            "disagree": self.disagree,
        }

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        """Return the cheap judgement, or the expensive one where the cheap one does not suffice."""
        cheap = await _ask_judge(self.first, episode, ask)
        other = None if self.also is None else await _ask_judge(self.also, episode, ask)
        first = {"first_score": cheap.success_score}
        if cheap.success_calibrated:
            first["first_probability"] = cheap.success_probability
        if not self._escalates(cheap, other):
            facts = {**cheap.facts, "escalated": 0.0, **first}
            return replace(cheap, facts=facts, success_score=_decisive_score(self.first, cheap))
        expensive = await _ask_judge(self.second, episode, ask)
        return replace(
            expensive,
            curve=expensive.curve if expensive.curve is not None else cheap.curve,
            verdicts=expensive.verdicts or cheap.verdicts,
            success_score=_decisive_score(self.second, expensive),
            facts={**expensive.facts, "escalated": 1.0, **first},
        )

    def _escalates(self, cheap: Judgement, other: Judgement | None) -> bool:
        score = cheap.success_probability if cheap.success_calibrated else cheap.success_score
        if math.isnan(score) or self.unsure_from <= score <= self.unsure_to:
            return True
        if other is None:
            return False
        both = cheap.success_calibrated and other.success_calibrated
        mine, its = (
            (cheap.success_probability, other.success_probability)
            if both
            else (cheap.success_score, other.success_score)
        )
        return math.isnan(its) or math.isnan(mine) or abs(mine - its) > self.disagree


def _decisive_score(judge: Judge | str, judgement: Judgement) -> float:
    """Return the deciding judge's success score; unknown for a judge whose score is no verdict (``gvl``)."""
    return judgement.success_score if JudgeTraits.of(judge).score_is_verdict else math.nan


def _judge_named(text: str) -> Judge:
    from stepscore.judges import get_judge

    name, at, model = text.partition("@")
    return get_judge(name, model=model) if at else get_judge(name)


def _describe(judge: Judge | str) -> Mapping[str, object]:
    assert not isinstance(judge, str)
    model = only_model(judge)
    return {
        "name": judge.name,
        "version": judge.version,
        "options": dict(judge.options()),
        "model": None if model is None else dict(model.describe()),
    }


async def _ask_judge(judge: Judge | str, episode: Episode, ask: Ask) -> Judgement:
    assert not isinstance(judge, str)
    model = default_model(judge)
    return await judge.judge(episode, ask if model is None else partial(ask, model=model))
