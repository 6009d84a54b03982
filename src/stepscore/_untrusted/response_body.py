"""The body of a server's response, read within a limit, whatever it claims to be and however it is packed.

Requests ask for no compression. A server that packs its answer all the same (gzip, deflate) is unpacked piece by
piece, so that a kilobyte cannot become a gigabyte. The limit is on what arrives and on what comes out of it: packed
bytes may also stand for nothing, or follow the end. Other packings (br, zstd) are refused. The caller's time-out ends
a body that drips.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from stepscore.errors import TransientModelError

if TYPE_CHECKING:
    import httpx2

MAX_BODY_BYTES = 4 << 20
"""Largest response that is read, packed and unpacked, in bytes. The largest real ones, lists of models and schemas,
have one or two million."""

MAX_VALUES = 200_000
"""Most JSON values of a response that is parsed, about; a list of all models of a gateway has some 30,000. An empty
list takes two bytes, and fifty times that as a Python value."""

MAX_ERROR_BYTES = 64 << 10
"""How much of a response that is no success is read, for its message, in bytes."""

_PIECE = 1 << 16
_WINDOWS = {"gzip": zlib.MAX_WBITS | 16, "x-gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}

Unpack = Callable[[bytes], Iterator[bytes]]
"""A function that yields what packed bytes hold, a little at a time, so that its caller can stop."""


async def read_body(response: httpx2.Response, where: str) -> bytes:
    """Return the unpacked body of a response: all of a success, what can be read of the beginning of anything else.

    Args:
        response: An open, streaming response.
        where: The address, for messages.

    Raises:
        TransientModelError: The body of a success is larger than the limit, or packed in a way that cannot be read.
    """
    encoding = response.headers.get("content-encoding", "")
    if not response.is_success:
        return await _beginning(response, encoding)
    claimed = response.headers.get("content-length", "")
    if claimed.isdecimal() and int(claimed[:20]) > MAX_BODY_BYTES:
        raise _too_large(where)
    if (unpack := _unpacking(encoding)) is None:
        shown = "".join(char if char.isprintable() else "?" for char in encoding[:40])
        raise TransientModelError(f"{where} returned a body packed as {shown!r}, which was not asked for.")
    body, arrived = bytearray(), 0
    try:
        async for packed in response.aiter_raw(_PIECE):
            arrived += len(packed)
            for piece in unpack(packed):
                body += piece
                if max(len(body), arrived) > MAX_BODY_BYTES:
                    raise _too_large(where)
    except zlib.error:
        raise TransientModelError(f"{where} returned a body that cannot be unpacked.") from None
    return bytes(body)


async def _beginning(response: httpx2.Response, encoding: str) -> bytes:
    """Return the beginning of an error's body; what it is packed in does not hide the status."""
    unpack = _unpacking(encoding)
    body, arrived = bytearray(), 0
    if unpack is not None:
        try:
            async for packed in response.aiter_raw(_PIECE):
                arrived += len(packed)
                for piece in unpack(packed):
                    body += piece
                    if len(body) >= MAX_ERROR_BYTES:
                        return bytes(body[:MAX_ERROR_BYTES])
                if arrived >= MAX_ERROR_BYTES:
                    break
        except zlib.error:
            pass
    return bytes(body)


def check_values(body: bytes, where: str) -> None:
    """Raise TransientModelError for a JSON text of more values than are parsed."""
    if sum(map(body.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise TransientModelError(
            f"{where} returned more than {MAX_VALUES:,} values, the most that is parsed of a response."
        )


def _too_large(where: str) -> TransientModelError:
    return TransientModelError(
        f"{where} returned more than {MAX_BODY_BYTES >> 20} MiB, the most that is read of a response."
    )


def _unpacking(encoding: str) -> Unpack | None:
    """Return what unpacks a content encoding; ``None`` for one that is not read."""
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return lambda packed: iter((packed,))
    if name not in _WINDOWS:
        return None
    reading = zlib.decompressobj(_WINDOWS[name])

    def unpack(packed: bytes) -> Iterator[bytes]:
        # What follows the end is left alone: zlib would collect it, without a limit.
        while packed and not reading.eof:
            yield reading.decompress(packed, _PIECE)
            packed = reading.unconsumed_tail
        yield b""

    return unpack
