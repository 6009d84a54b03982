"""The body of a server's response, read within a limit, whatever it claims to be and however it is packed.

Requests ask for no compression. A server that packs its answer all the same is unpacked piece by piece, so that a
kilobyte cannot become a gigabyte; the limit is on what comes out. The caller's time-out ends a body that drips.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from stepscore.errors import TransientModelError

if TYPE_CHECKING:
    import httpx2

MAX_BODY_BYTES = 8 << 20
"""Largest response that is read, unpacked, in bytes. The largest real ones, lists of models and schemas, have one or
two million; one of empty lists takes about forty times its size as Python values."""

MAX_ERROR_BYTES = 64 << 10
"""How much of a response that is no success is read, for its message, in bytes."""

_PIECE = 1 << 16
_WINDOWS = {"gzip": zlib.MAX_WBITS | 16, "x-gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}


async def read_body(response: httpx2.Response, where: str) -> bytes:
    """Return the unpacked body of a response: all of a success, the beginning of anything else.

    Args:
        response: An open, streaming response.
        where: The address, for messages.

    Raises:
        TransientModelError: The body of a success is larger than the limit, or packed in a way that cannot be read.
    """
    limit = MAX_BODY_BYTES if response.is_success else MAX_ERROR_BYTES
    unpack = _unpacking(response.headers.get("content-encoding", ""), where)
    claimed = response.headers.get("content-length", "")
    if response.is_success and claimed.isdecimal() and int(claimed[:20]) > limit:
        raise _too_large(where)
    body = bytearray()
    async for packed in response.aiter_raw(_PIECE):
        for piece in _pieces(unpack, packed, where):
            body += piece
            if len(body) > limit:
                if response.is_success:
                    raise _too_large(where)
                return bytes(body[:limit])
    return bytes(body)


def _too_large(where: str) -> TransientModelError:
    return TransientModelError(
        f"{where} returned more than {MAX_BODY_BYTES >> 20} MiB, the most that is read of a response."
    )


def _unpacking(encoding: str, where: str) -> zlib._Decompress | None:
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return None
    if name not in _WINDOWS:
        shown = "".join(char if char.isprintable() else "?" for char in name[:40])
        raise TransientModelError(f"{where} returned a body packed as {shown!r}, which was not asked for.")
    return zlib.decompressobj(_WINDOWS[name])


def _pieces(unpack: zlib._Decompress | None, packed: bytes, where: str) -> Iterator[bytes]:
    """Yield what a packed piece holds, a little at a time, so that the caller can stop."""
    if unpack is None:
        yield packed
        return
    while packed:
        try:
            yield unpack.decompress(packed, _PIECE)
        except zlib.error:
            raise TransientModelError(f"{where} returned a body that cannot be unpacked.") from None
        packed = unpack.unconsumed_tail
