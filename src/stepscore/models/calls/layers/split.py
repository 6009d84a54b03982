"""Layer: divides a request that a server can only answer in many calls; each part is a call."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import cast

from stepscore.models.api import score_one_by_one, scores_one_by_one
from stepscore.models.base import Model
from stepscore.models.calls.call import Call, Layer, call_key
from stepscore.models.requests import R, ScorePrefixes, TypedRequest
from stepscore.models.responses import Response


class Split:
    """Gives each call its key, in which the model's description is hashed, and records it with the asker."""

    def __init__(self, inner: Layer, model: Model, described: Mapping[str, object]) -> None:
        self._inner, self._described = inner, described
        self._divides = scores_one_by_one(model.capabilities)

    async def answer(self, call: Call) -> Response:
        """Return the response, assembled if the request was divided."""
        if self._divides and isinstance(call.request, ScorePrefixes):
            return await score_one_by_one(call.request, lambda one: self._ask(call, one))
        return await self._ask(call, call.request)

    def _ask(self, call: Call, request: TypedRequest[R]) -> Awaitable[R]:
        assert call.asker is not None
        key = call_key(call.asker.fingerprint, request, self._described)
        one = Call(call.episode_id, key, request, asker=call.asker)
        call.asker.calls.append(one)
        return cast(Awaitable[R], self._inner.answer(one))
