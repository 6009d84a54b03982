"""The contract of a judge, which scores how far an episode got.

``await ask(request)`` may be called any number of times, and a request may depend on earlier answers. A request names
its frames symbolically; the engine decodes, batches and sends it. A judge is a picklable value that loads what it
needs on first use.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol, Self

import numpy as np

from stepscore.episodes import Episode
from stepscore.errors import OptionError
from stepscore.models import Model
from stepscore.models.calls import Ask as Ask
from stepscore.types import Judgement


class Judge(Protocol):
    """Scores an episode. It may have any of the fields of :class:`JudgeTraits`, as attributes or properties."""

    name: str

    @property
    def version(self) -> int:
        """Rises when the same input may score differently."""

    @property
    def models(self) -> tuple[Model, ...]:
        """Every model it may ask; its requests go to the first unless they name another. Empty for none."""

    def options(self) -> Mapping[str, object]:
        """Return everything that can change a number, as JSON values; it enters the protocol."""

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        """Return the judgement of one episode. Raises EpisodeError when this episode cannot be judged."""


@dataclass(frozen=True)
class JudgeTraits:
    """What a judge states about itself, with defaults.

    Attributes:
        causal: Its points do not depend on later frames.
        needs_subgoals: It judges subgoals, and cannot judge an episode without any.
        uses_goals: It uses goal images if there are any.
        score_is_verdict: Its success score answers whether the task was done, so that 0.5 divides yes from no.
        local_code: File, class and sha256 of a judge in a file that the command line named.
        prepare: Fetches what it needs before its first request; called with ``offline``.
    """

    causal: bool = False
    needs_subgoals: bool = False
    uses_goals: bool = False
    score_is_verdict: bool = True
    local_code: Mapping[str, str] | None = None
    prepare: Callable[..., None] | None = None

    @classmethod
    def of(cls, judge: object) -> Self:
        """Return the traits of a judge."""
        stated: dict[str, Any] = {f.name: getattr(judge, f.name, f.default) for f in fields(cls)}
        return cls(**stated)


class SingleModelJudge:
    """Mixin for a judge that asks one model."""

    model: Model

    @property
    def models(self) -> tuple[Model, ...]:
        """Its model."""
        return (self.model,)


class StructuredJudge(SingleModelJudge):
    """Mixin for a judge with text answers that its option ``structured`` constrains by a schema."""

    structured: bool | None

    @property
    def is_structured(self) -> bool:
        """Whether answers are constrained by a schema: the option, by default if the model supports it."""
        return self.model.capabilities.structured if self.structured is None else self.structured

    @property
    def version(self) -> int:
        """2 with a schema, which changes the answers; 1 without, as before."""
        return 2 if self.is_structured else 1

    def structured_options(self) -> dict[str, object]:
        """Return the option as the protocol states it: only if it changes an answer."""
        return {"structured": True} if self.is_structured else {}


def prepare(judge: Judge, *, offline: bool = False) -> None:
    """Let a judge with a method ``prepare`` fetch what it needs before its first request.

    With ``offline`` nothing is fetched, and what is missing is an OptionError with the command that gets it.
    """
    if (own := JudgeTraits.of(judge).prepare) is not None:
        own(offline=offline)


def check_subgoals(judge: Judge, episodes: Sequence[Episode]) -> None:
    """Raise OptionError if a judge needs subgoals (``needs_subgoals``) and no episode has any.

    If only some have none, those become rows with their error.
    """
    if not JudgeTraits.of(judge).needs_subgoals or any(episode.subgoals for episode in episodes):
        return
    tasks = sorted({episode.task or episode.instruction for episode in episodes if episode.error is None})
    named = f" (tasks: {_first_names(tasks)})" if tasks else ""
    given = sorted(getattr(episodes, "subgoals_file", {}))
    repair = (
        f'The subgoals file has the tasks {_first_names(given)}: name them as the episodes do, or "*" for every task.'
        if given
        else "Give them: --subgoals FILE. Draft the file: stepscore plan SOURCE --model MODEL -o FILE"
    )
    raise OptionError(
        f"Judge {judge.name!r} judges subgoals, and none of the {len(episodes)} episodes has any{named}. {repair}"
    )


def _first_names(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:3])) + (" ..." if len(names) > 3 else "")


def default_model(judge: Judge) -> Model | None:
    """Return the model that a judge's requests go to unless they name another."""
    return judge.models[0] if judge.models else None


def only_model(judge: Judge) -> Model | None:
    """Return the model of a judge that asks exactly one; options describe the models of a judge that asks several."""
    return judge.models[0] if len(judge.models) == 1 else None


def episode_rng(episode: Episode, *salt: object) -> np.random.Generator:
    """Return a random generator that depends only on the episode's id and ``salt``, not on the order of judging."""
    text = "\0".join([episode.id, *map(str, salt)])
    return np.random.default_rng(int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big"))
