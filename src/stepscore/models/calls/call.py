"""One call to a model: what was asked and answered, and what it took."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stepscore.errors import ModelError
from stepscore.models.base import Answer, PrefixScores, Response, Scores
from stepscore.models.calls.keys import plain, tag_of
from stepscore.models.requests import DecodedMedia, Request, ScorePrefixes, TiledFrames, media_refs


@dataclass
class Call:
    """The account of one call. Kept in the run's ``calls`` table, readable after the cache is pruned."""

    episode_id: str
    key: str
    request: Request
    response: Response | None = None
    cached: bool = False
    attempts: int = 0
    cost: float | None = None
    latencies: list[float] = field(default_factory=list)

    @property
    def images(self) -> int:
        """Pictures it shows."""
        return sum(_count(part) for part in media_refs(self.request))

    def row(self) -> dict[str, Any]:
        """As a row of ``calls``: nothing in it depends on time or on the cache."""
        response = self.response
        return {
            "key": self.key,
            "kind": tag_of(self.request),
            "prompt": prompt_text(self.request),
            "frames": json.dumps([plain(part) for part in media_refs(self.request)]),
            "answer": response.text if isinstance(response, Answer) else json.dumps(pack(response)),
            "tokens_in": response.tokens_in if response else 0,
            "tokens_out": response.tokens_out if isinstance(response, Answer) else 0,
        }


def prompt_text(request: Request) -> str:
    """The request as a person would read it, pictures as their names."""
    if isinstance(request, ScorePrefixes):
        tails = "\n".join(request.tails)
        return f"{request.head}[{_label(request.film)}, prefixes of {list(request.lengths)} frames]{tails}"
    lines = []
    for turn in request.prompt.turns:
        said = "".join(part if isinstance(part, str) else f"[{_label(part)}]" for part in turn.parts)
        lines.append(f"{turn.role}: {said}")
    return "\n".join(lines)


def pack(response: Response | None) -> dict[str, Any]:
    """A response as JSON values."""
    if isinstance(response, Answer):
        return {"kind": "answer", **dataclasses.asdict(response)}
    if isinstance(response, Scores):
        values = [_packed(value) for value in response.logprobs]
        return {"kind": "scores", **dataclasses.asdict(response), "logprobs": values}
    if isinstance(response, PrefixScores):
        values = [_packed(float(v)) for v in response.logprobs.ravel()]
        shape = list(response.logprobs.shape)
        return {"kind": "prefixes", "shape": shape, "logprobs": values, "tokens_in": response.tokens_in}
    return {"kind": "nothing"}


def unpack(value: Mapping[str, Any]) -> Response:
    """A response from what :func:`pack` made."""
    fields = {name: item for name, item in value.items() if name != "kind"}
    if value["kind"] == "answer":
        return Answer(**fields)
    if value["kind"] == "scores":
        values = tuple(map(_unpacked, fields["logprobs"]))
        return Scores(values, tuple(fields["censored"]), fields["tokens_in"])
    if value["kind"] == "prefixes":
        flat = np.array([_unpacked(value) for value in fields["logprobs"]], dtype=np.float64)
        return PrefixScores(flat.reshape(fields["shape"]), fields["tokens_in"])
    raise ModelError(f"The call cache holds an answer of an unknown kind {value['kind']!r}.")


def _packed(value: float) -> float | str | None:
    """A number as JSON can hold it: NaN as null, an infinity as its name."""
    return value if math.isfinite(value) else None if math.isnan(value) else str(value)


def _unpacked(value: float | str | None) -> float:
    return math.nan if value is None else float(value)


def _count(part: object) -> int:
    if isinstance(part, TiledFrames):
        return 1
    indices = getattr(part, "indices", None)
    return 1 if indices is None else len(indices)


def _label(part: object) -> str:
    if isinstance(part, DecodedMedia):
        return "video" if part.video else "image"
    return f"{tag_of(part).lower()} {json.dumps(plain(part))}"
