from __future__ import annotations

import asyncio
import itertools
import zlib
from collections.abc import AsyncIterator, Iterable

import httpx2
import pytest

from stepscore._untrusted.response_body import (
    MAX_BODY_BYTES,
    MAX_ERROR_BYTES,
    MAX_VALUES,
    check_values,
    read_body,
)
from stepscore.errors import TransientModelError

GZIP, DEFLATE = 31, 15


class Sent(httpx2.AsyncByteStream):
    """A body that counts what was taken of it."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self.pieces, self.taken = pieces, 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            self.taken += len(piece)
            yield piece


def read(sent: Sent, status: int = 200, **headers: str) -> bytes:
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    async def reading() -> bytes:
        return await read_body(httpx2.Response(status, headers=named, stream=sent), "URL")

    return asyncio.run(reading())


def packed(kind: int, content: bytes) -> bytes:
    packing = zlib.compressobj(9, wbits=kind)
    return packing.compress(content) + packing.flush()


@pytest.mark.parametrize(("kind", "encoding"), [(GZIP, "gzip"), (GZIP, "X-GZIP"), (DEFLATE, "deflate")])
@pytest.mark.parametrize("size", [0, 1, 100_000, MAX_BODY_BYTES])
def test_what_is_packed_within_the_limit_is_read_whole(kind: int, encoding: str, size: int) -> None:
    content = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    whole = packed(kind, content)
    pieces = [whole[start : start + 1000] for start in range(0, len(whole), 1000)]
    assert read(Sent(pieces), content_encoding=encoding) == content
    assert read(Sent([content])) == content


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize(
    ("start", "piece", "encoding"),
    [
        (b"", b"0" * 65536, ""),
        (packed(GZIP, b"{}"), b"0" * 65536, "gzip"),
        # Blocks of deflate that are empty: bytes that stand for nothing.
        (b"\x78\x9c", b"\x00\x00\x00\xff\xff" * 10_000, "deflate"),
    ],
    ids=["plain", "after the end of gzip", "empty blocks"],
)
def test_no_more_is_taken_of_a_body_without_end_than_the_limit(
    status: int, start: bytes, piece: bytes, encoding: str
) -> None:
    sent = Sent(itertools.chain([start], itertools.repeat(piece)))
    if status == 200:
        with pytest.raises(TransientModelError, match="URL returned more than 4 MiB"):
            read(sent, status, content_encoding=encoding)
    else:
        assert len(read(sent, status, content_encoding=encoding)) <= MAX_ERROR_BYTES
    limit = MAX_BODY_BYTES if status == 200 else MAX_ERROR_BYTES
    assert sent.taken <= limit + 3 * 65536


@pytest.mark.parametrize(("kind", "encoding"), [(GZIP, "gzip"), (DEFLATE, "deflate")])
def test_a_bomb_is_left_before_it_is_unpacked(
    kind: int, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb, unpacked = packed(kind, bytes(256 << 20)), []
    real = zlib.decompressobj

    class Counting:
        def __init__(self, window: int) -> None:
            self._reading = real(window)

        def decompress(self, content: bytes, most: int) -> bytes:
            unpacked.append(len(piece := self._reading.decompress(content, most)))
            return piece

        @property
        def eof(self) -> bool:
            return self._reading.eof

        @property
        def unconsumed_tail(self) -> bytes:
            return self._reading.unconsumed_tail

    monkeypatch.setattr("stepscore._untrusted.response_body.zlib.decompressobj", Counting)
    with pytest.raises(TransientModelError, match="more than 4 MiB"):
        read(Sent([bomb]), content_encoding=encoding)
    assert sum(unpacked) <= MAX_BODY_BYTES + 65536


def test_a_claim_of_more_than_the_limit_is_refused_before_anything_is_read() -> None:
    sent = Sent([b"{}"])
    with pytest.raises(TransientModelError, match="more than 4 MiB"):
        read(sent, content_length=str(10**10))
    assert sent.taken == 0


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "compress", "\x1b[2J"])
def test_a_packing_that_was_not_asked_for_is_named_and_hides_no_status(encoding: str) -> None:
    with pytest.raises(TransientModelError, match="which was not asked for") as caught:
        read(Sent([b"{}"]), content_encoding=encoding)
    assert "\x1b" not in str(caught.value)
    assert read(Sent([b"{}"]), 401, content_encoding=encoding) == b""


def test_what_is_not_packed_though_it_says_so_cannot_be_read() -> None:
    with pytest.raises(TransientModelError, match="cannot be unpacked"):
        read(Sent([b"{}"]), content_encoding="gzip")
    assert read(Sent([b"{}"]), 500, content_encoding="gzip") == b""


def test_a_json_text_of_too_many_values_is_not_parsed() -> None:
    check_values(b"[" + b"1," * (MAX_VALUES - 1), "URL")
    with pytest.raises(TransientModelError, match="URL returned more than 200,000 values"):
        check_values(b"[" + b"[]," * (MAX_VALUES // 2), "URL")
