"""The key of a call: a hash of all that decides its answer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from stepscore.models.requests import Request
from stepscore.models.tagged import plain

KEY_VERSION = 2
"""Changes where stored names do (``tagged.py``): no answer that was cached before is found then."""


def call_key(fingerprint: str, request: Request, model: Mapping[str, object]) -> str:
    """Return the hash of all that decides the answer: the episode's frames, the request and the model."""
    parts = [KEY_VERSION, fingerprint, request.tag, plain(request), dict(model)]
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    # An answer may be quoted in the next question, and hold half of a surrogate pair.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
