"""One call to a model: its request and response, attempts, cost and latencies."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stepscore.errors import ModelError
from stepscore.models.base import (
    Answer,
    Preference,
    PrefixScores,
    ProgressPredictions,
    Response,
    Scores,
    Similarities,
    StagePrediction,
    StagePredictions,
    TokenChoice,
)
from stepscore.models.calls.keys import plain, tag_of
from stepscore.models.requests import (
    DecodedMedia,
    PredictStages,
    Prompt,
    Request,
    ScorePrefixes,
    ScoreSimilarity,
    TiledFrames,
    VideoPrefix,
    media_refs,
)
from stepscore.types import FloatArray

PREDICTED = ("progress", "success", "spread")
"""Arrays of :class:`ProgressPredictions`, in their order."""


@dataclass
class Call:
    """The record of one call. Stored in the run's ``calls`` table, which stays when the cache is pruned."""

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
        """Number of images and frames in the request."""
        return sum(_count(part) for part in media_refs(self.request))

    def row(self) -> dict[str, Any]:
        """Return it as a row of ``calls``; nothing in it depends on time or on the cache. Unknown counts are null."""
        response = self.response
        return {
            "key": self.key,
            "kind": tag_of(self.request),
            "prompt": prompt_text(self.request),
            "frames": json.dumps([plain(part) for part in media_refs(self.request)]),
            "answer": response.text if isinstance(response, Answer) else json.dumps(pack(response)),
            "tokens_in": (response.tokens_in or None) if response else None,
            "tokens_out": getattr(response, "tokens_out", None) or None,
        }


def prompt_text(request: Request) -> str:
    """Return the request as a person would read it, images as their names."""
    if isinstance(request, PredictStages):
        videos = "".join(f"[{_label(video)}]" for video in request.videos)
        return f"{videos}task: {request.task}\ninstruction: {request.instruction}"
    if isinstance(request, ScoreSimilarity):
        images = "".join(f"[{_label(image)}]" for image in request.images)
        return "\n".join([f"[{_label(request.video)}] similar to {images}", *request.texts])
    if isinstance(request, ScorePrefixes):
        prefixes = f"{_label(request.video)}, prefixes of {list(request.lengths)} frames"
        return "\n".join(_conversation(prompt, prefixes) for prompt in request.prompts)
    return _conversation(request.prompt)


def _conversation(prompt: Prompt, prefix: str = "") -> str:
    """Return the turns, one a line; ``prefix`` names the video that a :class:`VideoPrefix` stands for."""
    lines = []
    for turn in prompt.turns:
        texts = [
            part
            if isinstance(part, str)
            else f"[{prefix if isinstance(part, VideoPrefix) else _label(part)}]"
            for part in turn.parts
        ]
        lines.append(f"{turn.role}: {''.join(texts)}")
    if prompt.prefill and prompt.template == "chat":
        return "\n".join([*lines, f"assistant: {prompt.prefill}"])
    return "\n".join(lines) + prompt.prefill


def pack(response: Response | None) -> dict[str, Any]:
    """Return a response as JSON values."""
    if isinstance(response, Answer):
        fields = dataclasses.asdict(response)
        choices = [[choice.token, choice.top] for choice in response.choices]
        later = {"choices": choices or None, "schema_mass": response.schema_mass}
        # What an answer does not have is left out, as in all answers that were stored at first.
        return {
            "kind": "answer",
            **{
                name: item
                for name, item in {**fields, **later}.items()
                if name not in later or item is not None
            },
        }
    if isinstance(response, Scores):
        values = [_packed(value) for value in response.logprobs]
        return {"kind": "scores", **_without_zero(dataclasses.asdict(response)), "logprobs": values}
    if isinstance(response, PrefixScores):
        values = [_packed(float(v)) for v in response.logprobs.ravel()]
        shape = list(response.logprobs.shape)
        counts = {"tokens_in": response.tokens_in, "tokens_out": response.tokens_out}
        return {"kind": "prefixes", "shape": shape, "logprobs": values, **_without_zero(counts)}
    if isinstance(response, StagePredictions):
        heads = {name: _packed_head(head) for name, head in response.heads.items()}
        return {"kind": "stages", "heads": heads, "tokens_in": response.tokens_in}
    if isinstance(response, ProgressPredictions):
        arrays = {name: [_packed(float(v)) for v in getattr(response, name)] for name in PREDICTED}
        return {"kind": "progress", **arrays, "tokens_in": response.tokens_in}
    if isinstance(response, Preference):
        return {"kind": "preference", "first": _packed(response.first), "tokens_in": response.tokens_in}
    if isinstance(response, Similarities):
        rows = {name: _packed_rows(getattr(response, name)) for name in ("frames", "references")}
        return {"kind": "similarities", **rows, "tokens_in": response.tokens_in}
    return {"kind": "nothing"}


def unpack(value: Mapping[str, Any]) -> Response:
    """Return the response from the values of :func:`pack`.

    Raises:
        ModelError: They are not such values; a cache may be damaged, or written by anyone.
    """
    try:
        return _unpacked_response(value)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise ModelError(f"The call cache holds a malformed answer ({type(error).__name__}).") from error


def _unpacked_response(value: Mapping[str, Any]) -> Response:
    fields = {name: item for name, item in value.items() if name != "kind"}
    if value["kind"] == "answer":
        choices = tuple(
            TokenChoice(str(token), tuple((str(word), float(value)) for word, value in top))
            for token, top in fields.pop("choices", ())
        )
        return Answer(**fields, choices=choices)
    if value["kind"] == "scores":
        values = tuple(map(_unpacked, fields["logprobs"]))
        return Scores(values, tuple(fields["censored"]), fields["tokens_in"], fields.get("tokens_out", 0))
    if value["kind"] == "prefixes":
        flat = np.array([_unpacked(value) for value in fields["logprobs"]], dtype=np.float64)
        counts = fields["tokens_in"], fields.get("tokens_out", 0)
        return PrefixScores(flat.reshape(fields["shape"]), *counts)
    if value["kind"] == "stages":
        heads = {name: _unpacked_head(head) for name, head in fields["heads"].items()}
        return StagePredictions(heads, fields["tokens_in"])
    if value["kind"] == "progress":
        progress, success, spread = (np.array(list(map(_unpacked, fields[name]))) for name in PREDICTED)
        return ProgressPredictions(progress, success, spread, fields["tokens_in"])
    if value["kind"] == "preference":
        return Preference(_unpacked(fields["first"]), fields["tokens_in"])
    if value["kind"] == "similarities":
        frames, references = (_unpacked_rows(fields[name]) for name in ("frames", "references"))
        return Similarities(frames, references, fields["tokens_in"])
    raise ModelError(f"The call cache holds an answer of an unknown kind {str(value['kind'])[:40]!r}.")


def _without_zero(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields without a count of output tokens that is not known: as all answers were stored at first."""
    return {name: item for name, item in fields.items() if name != "tokens_out" or item}


def _packed(value: float) -> float | str | None:
    """Return a number as JSON can hold it: NaN as null, an infinity as its name."""
    return value if math.isfinite(value) else None if math.isnan(value) else str(value)


def _unpacked(value: float | str | None) -> float:
    return math.nan if value is None else float(value)


def _packed_rows(values: FloatArray) -> list[list[float | str | None]]:
    return [[_packed(float(value)) for value in row] for row in values]


def _unpacked_rows(rows: Sequence[Sequence[float | str | None]]) -> FloatArray:
    return np.array([[_unpacked(value) for value in row] for row in rows], dtype=np.float64)


def _packed_head(head: StagePrediction) -> dict[str, Any]:
    arrays = {name: getattr(head, name).tolist() for name in ("probabilities", "shares", "progress")}
    return {"stages": list(head.stages), **arrays}


def _unpacked_head(value: Mapping[str, Any]) -> StagePrediction:
    arrays = (np.asarray(value[name], dtype=np.float64) for name in ("probabilities", "shares", "progress"))
    return StagePrediction(tuple(value["stages"]), *arrays)


def _count(part: object) -> int:
    if isinstance(part, TiledFrames):
        return 1
    indices = getattr(part, "indices", None)
    return 1 if indices is None else len(indices)


def _label(part: object) -> str:
    if isinstance(part, DecodedMedia):
        return "video" if part.video else "image"
    return f"{tag_of(part)} {json.dumps(plain(part))}"
