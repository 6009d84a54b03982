"""A model with scripted answers, for tests and for trying out a judge without a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stepscore.models.base import Capabilities, Handlers, SyncMethods
from stepscore.models.requests import Generate, Request, Score, ScorePrefixes, ScoreSimilarity
from stepscore.models.responses import Answer, PrefixScores, Response, Scores, Similarities
from stepscore.registry import names


@dataclass
class MockModel(SyncMethods):
    """A model that answers by script: the text after ``mock/``, or what a function of the request returns.

    Attributes:
        text: The answer to every request.
        script: Function of the request that returns the answer instead: a text, numbers, or a Response.
        scores: As in :class:`Capabilities`, to try a judge on a model that scores less.
        served: Whether to behave like a server.
        prefix_sharing: As in :class:`Capabilities`.
        heads: Whether to have the heads of a reward model.
        structured: Whether to state that answers are held to a schema; the script is what holds them.
        requests: Every request answered so far.
    """

    text: str = field(default="", metadata=names("text"))
    script: Callable[[Request], object] | None = field(default=None, metadata=names("code"))
    scores: str = field(default="exact", metadata=names("text"))
    served: bool = False
    prefix_sharing: str = field(default="exact", metadata=names("text"))
    heads: bool = False
    structured: bool = False
    requests: list[Any] = field(default_factory=list, repr=False, metadata=names("code"))

    @property
    def name(self) -> str:
        """The model string."""
        return f"mock/{self.text}"

    @property
    def capabilities(self) -> Capabilities:
        """All of them, unless an option limits them."""
        return Capabilities(
            scores=self.scores,  # type: ignore[arg-type]
            videos=True,
            similarity="texts",
            prefix_sharing=self.prefix_sharing,  # type: ignore[arg-type]
            served=self.served,
            heads=self.heads,
            structured=self.structured,
        )

    def describe(self) -> Mapping[str, object]:
        """Return its name."""
        return {"name": self.name}

    async def answer(self, request: Request) -> Response:
        """Return the scripted answer and keep the request in ``requests``."""
        self.requests.append(request)
        answer = self.text if self.script is None else self.script(request)
        if isinstance(answer, Response):
            return answer
        scripted = HANDLERS.get(type(request))
        response: Response = request.unknown() if scripted is None else scripted(request, answer)
        return response


def _text(request: Generate, answer: object) -> Answer:
    return Answer(str(answer), tokens_in=100, tokens_out=max(1, len(str(answer)) // 4))


def _scores(request: Score, answer: Any) -> Scores:
    values = np.broadcast_to(np.asarray(answer, float), len(request.candidates)).tolist()
    return Scores(tuple(values), (False,) * len(values), tokens_in=100)


def _prefix_scores(request: ScorePrefixes, answer: Any) -> PrefixScores:
    values = np.broadcast_to(np.asarray(answer, dtype=np.float64), request.shape)
    return PrefixScores(values.copy(), tokens_in=100)


def _similarities(request: ScoreSimilarity, answer: Any) -> Similarities:
    alike = np.broadcast_to(np.asarray(answer, dtype=np.float64), request.shape)
    return Similarities(alike.copy(), np.eye(request.shape[1]), tokens_in=100)


HANDLERS: Handlers = {
    Generate: _text,
    Score: _scores,
    ScorePrefixes: _prefix_scores,
    ScoreSimilarity: _similarities,
}
