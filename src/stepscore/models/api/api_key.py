"""API keys: read from the environment when a request is sent, and cut out of all that a server says.

A server, a proxy or a library may repeat the key it was sent: in an answer, an error, a header, the name of a
model. What comes back is masked before anything else reads it, so that no journal, cache or message can hold it.
"""

from __future__ import annotations

import base64
import json
import os
import re
from functools import lru_cache
from typing import Any
from urllib.parse import quote, quote_plus

from stepscore.errors import OptionError

MASK = "[key]"
"""Replaces a key."""

MIN_MASKED_CHARS = 8
"""Shortest key that is masked in answers. Servers without keys are sent such as ``EMPTY``, a word like any other."""

_SENDABLE = re.compile(r"[\x21-\x7e]+")


def read_key(name: str) -> str:
    """Return the key in an environment variable; empty where it is not set.

    Raises:
        OptionError: It has characters that no HTTP header can hold. The message names the variable, not the key.
    """
    key = os.environ.get(name, "").strip()
    if key and not _SENDABLE.fullmatch(key):
        raise OptionError(
            f"The key in {name} holds a space, a control character or a letter outside ASCII, which no key has. "
            f"Nothing was sent. Set {name} again, without line breaks or quotation marks."
        )
    return key


def mask_text(text: str, key: str) -> str:
    """Mask the key in a text, in whatever form it appears: as it is, quoted, escaped or in base64."""
    if key:
        for form in _forms(key):
            text = text.replace(form, MASK)
    return text


def mask_cut_text(text: str, key: str) -> str:
    """Return a text without the key, and without the beginning of a key at its end: where it was cut off."""
    text = mask_text(text, key)
    for form in _forms(key) if key else ():
        for length in range(min(len(form) - 1, len(text)), MIN_MASKED_CHARS - 1, -1):
            if text.endswith(form[:length]):
                return text[:-length] + MASK
    return text


def mask_values(value: Any, key: str) -> Any:
    """Return a JSON value without the key in any of its texts; nested at most as deep as a parsed text."""
    if len(key) < MIN_MASKED_CHARS:
        return value
    if isinstance(value, str):
        return mask_text(value, key)
    if isinstance(value, list):
        return [mask_values(item, key) for item in value]
    if isinstance(value, dict):
        return {mask_text(name, key): mask_values(item, key) for name, item in value.items()}
    return value


@lru_cache(maxsize=8)
def _forms(key: str) -> tuple[str, ...]:
    """Return the forms in which a key may come back, the longest first."""
    plain = {key, quote(key, safe=""), quote(key), quote_plus(key), json.dumps(key)[1:-1], repr(key)[1:-1]}
    return tuple(sorted(plain | _in_base64(key), key=len, reverse=True))


def _in_base64(key: str) -> set[str]:
    """Return what the key becomes inside a longer text in base64, at each of its three alignments."""
    if len(key) < MIN_MASKED_CHARS:
        return set()
    forms = set()
    for before in range(3):
        packed = base64.b64encode(b"\0" * before + key.encode()).decode().rstrip("=")
        # The letters at both ends also hold bits of the characters next to the key.
        inner = packed[-(-before * 8 // 6) : (before + len(key)) * 8 // 6]
        forms |= {inner, inner.replace("+", "-").replace("/", "_")}
    return forms
