"""Models that answer several requests in one pass."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

from stepscore.models.base import Model
from stepscore.models.requests import Request
from stepscore.models.responses import Response


@runtime_checkable
class BatchModel(Protocol):
    """A model in process that can answer several requests in one pass.

    Which requests are answered together changes the last digits of the answers, so whoever asks decides it: what
    comes through ``answer`` is answered separately, however many wait.
    """

    @property
    def batch(self) -> int:
        """Most requests of one pass."""

    def is_batchable(self, request: Request) -> bool:
        """Return whether a request can be answered in one pass with others; its frames need not be decoded."""

    async def answer_batch(self, requests: Sequence[Request]) -> Sequence[Response | Exception]:
        """Return the response to each of several resolved requests, or the reason why there is no answer.

        Passes hold ``batch`` requests in the order in which they are given; other requests are answered separately.
        """


def batch_size(models: Iterable[Model]) -> int:
    """Return how many episodes are judged together so that the models' passes are full; 1 without such a model."""
    return max((model.batch for model in models if isinstance(model, BatchModel)), default=1)
