"""``multipart/form-data`` in memory (RFC 7578), as HTTP clients send it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from stepscore.server.reward_api.limits import RefusedError

MAX_PARTS = 2048
_BOUNDARY = re.compile(r'boundary="?([^";,\r\n]{1,70})"?', re.IGNORECASE)
_NAME = re.compile(rb'[;\s]name="((?:[^"\\\r\n]|\\.)*)"', re.IGNORECASE)
_FILE = re.compile(rb"[;\s]filename\*?=", re.IGNORECASE)


@dataclass(frozen=True)
class Form:
    """The parts of a form by name.

    Attributes:
        fields: Texts.
        files: Contents of files.
    """

    fields: Mapping[str, str]
    files: Mapping[str, memoryview]


def read_form(content_type: str, body: bytes) -> Form:
    """Return the parts of a body. A name that is given twice, or a body that is cut, is refused."""
    found = _BOUNDARY.search(content_type)
    if not content_type.lower().startswith("multipart/form-data") or found is None:
        raise RefusedError(415, "Send multipart/form-data with a boundary.")
    mark = b"--" + found[1].strip().encode("latin-1", "replace")
    fields: dict[str, str] = {}
    files: dict[str, memoryview] = {}
    view = memoryview(body)
    # A part begins after "\r\n--boundary\r\n"; the first has no line before it.
    at = 0 if body.startswith(mark) else body.find(b"\r\n" + mark) + 2
    if at == 1:
        raise RefusedError(400, "The body does not begin with its boundary.")
    while True:
        at += len(mark)
        if body.startswith(b"--", at):
            return Form(fields, files)
        if not body.startswith(b"\r\n", at):
            raise RefusedError(400, "A boundary of the body is not followed by a new line.")
        head_end, stop = body.find(b"\r\n\r\n", at), body.find(b"\r\n" + mark, at)
        if stop < 0 or not at <= head_end < stop:
            raise RefusedError(400, "The body is cut: a part has no end.")
        _keep(body[at:head_end], view[head_end + 4 : stop], fields, files)
        at = stop + 2


def _keep(head: bytes, content: memoryview, fields: dict[str, str], files: dict[str, memoryview]) -> None:
    named = _NAME.search(head)
    if named is None:
        raise RefusedError(400, "A part of the form has no name.")
    name = named[1].decode("utf-8", "replace")
    if name in fields or name in files:
        raise RefusedError(400, f"The form has two parts called {name[:80]!r}.")
    if len(fields) + len(files) >= MAX_PARTS:
        raise RefusedError(413, f"The form has more than {MAX_PARTS} parts.")
    if _FILE.search(head):
        files[name] = content
        return
    try:
        fields[name] = bytes(content).decode("utf-8")
    except UnicodeDecodeError:
        raise RefusedError(400, f"The field {name[:80]!r} is not UTF-8.") from None
