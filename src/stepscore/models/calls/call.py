"""One call to a model: its key, request and response, attempts, cost and latencies."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from stepscore.models.calls.batch_group import GroupAsk
from stepscore.models.media import Decode
from stepscore.models.requests import Request
from stepscore.models.responses import Response
from stepscore.models.tagged import plain
from stepscore.types import Usage

KEY_VERSION = 2
"""Raised when stored names change (``tagged.py``), so that answers cached before are no longer found."""


def call_key(fingerprint: str, request: Request, model: Mapping[str, object]) -> str:
    """Return the hash of all that decides an answer: the episode's frames, the request and the model."""
    parts = [KEY_VERSION, fingerprint, request.tag, plain(request), dict(model)]
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    # A prompt may quote an answer, which can hold half of a surrogate pair.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class Asker:
    """The episode that a call is about, the list that collects its calls, and its place in a batch group."""

    episode_id: str
    fingerprint: str
    decode: Decode
    calls: list[Call]
    group: GroupAsk | None = None


@dataclass
class Call:
    """The record of one call; ``decoded`` is the request with its frames while the call is under way."""

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
        """The call's place in a batch group; ``None`` for an episode judged separately."""
        return None if self.asker is None else self.asker.group

    @property
    def images(self) -> int:
        """Number of images and frames in the request."""
        return sum(part.images for part in self.request.refs())

    def row(self) -> dict[str, Any]:
        """Return the row of the ``calls`` table, independent of time and cache. Unknown counts are null."""
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
    """A layer of the call chain: answers a call, or passes it to the next layer."""

    async def answer(self, call: Call) -> Response:
        """Return the response."""


def usage_of(calls: Iterable[Call], reported: Usage) -> Usage:
    """Return the usage of an episode's calls; other fields are as the judge reported them."""
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
        # Tokens that a model reused from an earlier pass are not counted; a cached call counts as it was made.
        tokens_in=sum(
            r.tokens_in - (0 if call.cached else min(r.tokens_reused, r.tokens_in)) for call, r in answered
        ),
        tokens_out=sum(response.tokens_out for _, response in answered),
        cost=float(np.sum(known)) if len(known) == len(made) else None,
    )
