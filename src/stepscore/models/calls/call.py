"""One call to a model: its request and response, attempts, cost and latencies."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from stepscore.models.calls.batch_group import GroupAsk
from stepscore.models.media import Decode
from stepscore.models.requests import Request
from stepscore.models.responses import Response
from stepscore.types import Usage


@dataclass(frozen=True)
class Asker:
    """Who asks.

    Attributes:
        episode_id: The episode.
        fingerprint: Its fingerprint, of which the keys of its calls are made.
        decode: Decodes what a request names from it.
        calls: Gets every call.
        group: The request among those of the episodes that are judged together; ``None`` for an episode alone.
    """

    episode_id: str
    fingerprint: str
    decode: Decode
    calls: list[Call]
    group: GroupAsk | None = None


@dataclass
class Call:
    """The record of one call. Stored in the run's ``calls`` table, which stays when the cache is pruned.

    Attributes:
        decoded: The request with its frames, while it is under way.
        asker: Who asks.
    """

    episode_id: str
    key: str
    request: Request
    response: Response | None = None
    cached: bool = False
    attempts: int = 0
    cost: float | None = None
    latencies: list[float] = field(default_factory=list)
    decoded: Request | None = field(default=None, repr=False)
    asker: Asker | None = field(default=None, repr=False)

    @property
    def group(self) -> GroupAsk | None:
        """The request among those of its group."""
        return None if self.asker is None else self.asker.group

    @property
    def images(self) -> int:
        """Number of images and frames in the request."""
        return sum(part.images for part in self.request.refs())

    def row(self) -> dict[str, Any]:
        """Return it as a row of ``calls``; nothing in it depends on time or on the cache. Unknown counts are null."""
        response = self.response
        return {
            "key": self.key,
            "kind": self.request.tag,
            "prompt": self.request.as_text(),
            "frames": json.dumps([part.plain() for part in self.request.refs()]),
            "answer": json.dumps({"kind": "nothing"}) if response is None else response.stored_text(),
            "tokens_in": (response.tokens_in or None) if response else None,
            "tokens_out": (response.tokens_out or None) if response else None,
        }


class Layer(Protocol):
    """A layer of the call chain: answers a call itself, or asks the layer inside."""

    async def answer(self, call: Call) -> Response:
        """Return the response."""


def usage_of(calls: Iterable[Call], reported: Usage) -> Usage:
    """Return the usage of an episode's calls, with the rest as the judge reported it. Unknown cost stays unknown."""
    made = list(calls)
    if not made:
        return reported
    known = [call.cost for call in made if call.cost is not None]
    answered = [(call, call.response) for call in made if call.response is not None]
    return replace(
        reported,
        calls=len(made),
        attempts=sum(call.attempts for call in made),
        images=sum(call.images for call in made),
        # What a model did not read again is not used; a call from the cache counts as it was made.
        tokens_in=sum(
            r.tokens_in - (0 if call.cached else min(r.tokens_reused, r.tokens_in)) for call, r in answered
        ),
        tokens_out=sum(response.tokens_out for _, response in answered),
        cost=float(np.sum(known)) if len(known) == len(made) else None,
    )
