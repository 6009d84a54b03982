"""The key of a call: a hash of all that decides its answer.

Every request and media type has a stable tag here, and every field a stable name, so that renaming a class or
moving a module never changes a key: a cached answer is paid for once. Tags change only with ``KEY_VERSION``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from stepscore.models.requests import (
    DecodedMedia,
    FrameRef,
    Generate,
    GoalImage,
    PredictProgress,
    PredictStages,
    PreferVideo,
    Prompt,
    Request,
    Score,
    ScorePrefixes,
    ScoreSimilarity,
    TiledFrames,
    Turn,
    VideoFrames,
    VideoPrefix,
)
from stepscore.models.schemas import (
    Constant,
    Either,
    FreeText,
    JsonItems,
    JsonList,
    JsonObject,
    Number,
    Seconds,
    Steps,
    Word,
    Written,
)

KEY_VERSION = 2


class Tag(NamedTuple):
    """The form of a type in a key: its tag, the name of each field by attribute, and fields that came later.

    A later field is in the key only where it has another value than that by which it changes nothing.
    """

    tag: str
    fields: Mapping[str, str]
    later: Mapping[str, object] = {}


def _same(tag: str, *names: str) -> Tag:
    return Tag(tag, {name: name for name in names})


TAGS: Mapping[type, Tag] = {
    FrameRef: _same("frame", "view", "index", "size"),
    GoalImage: _same("goal-image", "view", "size"),
    TiledFrames: _same("tiled-frames", "frames", "columns")._replace(
        later={"cell": None, "stretch": False, "gap": 0}
    ),
    VideoFrames: _same("video", "view", "indices", "size"),
    VideoPrefix: _same("video-prefix"),
    Turn: _same("turn", "role", "parts"),
    Prompt: _same("prompt", "turns", "prefill", "template"),
    Generate: _same(
        "generate", "prompt", "max_tokens", "temperature", "top_p", "seed", "json", "repeat"
    )._replace(later={"top_k": None, "top_logprobs": 0, "schema": None}),
    Score: _same("score", "prompt", "candidates", "repeat"),
    ScorePrefixes: _same("score-prefixes", "video", "lengths", "prompts", "candidates", "repeat"),
    PredictStages: _same("predict-stages", "videos", "instruction", "task", "frames", "decode", "state"),
    PredictProgress: _same("predict-progress", "prompt"),
    PreferVideo: _same("prefer-video", "prompt"),
    ScoreSimilarity: _same("score-similarity", "video", "images", "texts"),
    Word: _same("word", "words"),
    Number: _same("number", "low", "high", "decimals", "plus", "unit"),
    Seconds: _same("seconds"),
    Constant: _same("constant", "value"),
    FreeText: _same("free-text", "but"),
    Steps: _same("steps", "steps"),
    Written: _same("written", "parts"),
    Either: _same("either", "forms"),
    JsonObject: _same("json-object", "fields"),
    JsonList: _same("json-list", "items"),
    JsonItems: _same("json-items", "item", "most"),
}


def tag_of(value: object) -> str:
    """Return the stable tag of a request or a media reference."""
    return TAGS[type(value)].tag


def call_key(fingerprint: str, request: Request, model: Mapping[str, object]) -> str:
    """Return the hash of all that decides the answer: the episode's frames, the request and the model."""
    parts = [KEY_VERSION, fingerprint, tag_of(request), plain(request), dict(model)]
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    # An answer may be quoted in the next question, and hold half of a surrogate pair.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def plain(value: object) -> Any:
    """Return a request or a part of one as JSON values, each tagged type as ``{"is": TAG, ...}``."""
    if isinstance(value, DecodedMedia):
        clip = value.clip
        return {
            "frames": hashlib.sha256(clip.frames.tobytes()).hexdigest(),
            "times": clip.timestamps.tolist(),
        }
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if (known := TAGS.get(type(value))) is not None:
        fields = {stored: plain(getattr(value, name)) for name, stored in known.fields.items()}
        later = {
            name: plain(getattr(value, name))
            for name, usual in known.later.items()
            if getattr(value, name) != usual
        }
        return {"is": known.tag, **fields, **later}
    return value
