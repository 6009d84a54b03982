"""Buckets of S3: a client that reads no more than it asked for, and a listing of a bounded number of requests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from stepscore.episodes.remote import limits
from stepscore.episodes.remote.limits import wait_for_store

PROTOCOLS = ("s3", "s3a")

_RANGE = re.compile(r"bytes=(\d+)-(\d+)")


class LongAnswerError(ValueError):
    """An answer that is longer than what was asked for; another one would be, too."""


class ListingError(ValueError):
    """A listing that does not end, or states a part of the files."""


def client_options() -> dict[str, Any]:
    """Return the options of s3fs for a client that reads no more than it asked for."""
    from fsspec.config import conf

    of_user = conf.get("s3", {}).get("config_kwargs", {})
    return {"config_kwargs": {**of_user, "http_session_cls": _bounded_session()}}


@lru_cache(maxsize=1)
def _bounded_session() -> type:
    from aiobotocore.httpsession import AIOHTTPSession
    from botocore.exceptions import HTTPClientError

    class BoundedSession(AIOHTTPSession):  # type: ignore[misc]
        """Sends requests; the bodies of the answers are bounded."""

        async def send(self, request: Any) -> Any:
            """Return the answer. Its body is read here, as botocore wants it, except for the content of files."""
            streamed = request.stream_output
            request.stream_output = True  # else it is read before it is bounded
            try:
                response = await super().send(request)
            finally:
                request.stream_output = streamed
            most = _longest_answer(response.status_code, request.headers)
            if (response.raw.content_length or 0) > most:
                response.raw.close()
                raise LongAnswerError(_too_long(most, response.raw.content_length))
            response.raw.content = _BoundedBody(response.raw, most)
            if not streamed:
                try:
                    await response.content
                except (OSError, EOFError) as error:  # aiohttp's own, where a connection is lost
                    raise HTTPClientError(error=error) from error
            return response

    return BoundedSession


def _longest_answer(status: int, headers: Mapping[str, Any]) -> int:
    stated = headers.get("Range", "")
    match = _RANGE.fullmatch(stated.decode("ascii") if isinstance(stated, bytes) else stated)
    if status >= 300:
        return limits.ERROR_BYTES
    return int(match[2]) - int(match[1]) + 1 if match else limits.ANSWER_BYTES


def _too_long(most: int, stated: int | None = None) -> str:
    sent = "more" if stated is None else f"{stated} bytes"
    return f"the server sends {sent} where at most {most} bytes were asked for"


class _BoundedBody:
    """The body of an aiohttp response, read up to a maximum number of bytes."""

    def __init__(self, response: Any, most: int) -> None:
        self._response, self._body, self._left, self._most = response, response.content, most, most

    def __getattr__(self, name: str) -> Any:
        return getattr(self._body, name)

    async def read(self, n: int = -1) -> bytes:
        """Read at most ``n`` bytes, by default to the end."""
        if n >= 0:
            return self._counted(await self._body.read(n))
        parts = []
        while part := self._counted(await self._body.readany()):
            parts.append(part)
        return b"".join(parts)

    def _counted(self, part: bytes) -> bytes:
        self._left -= len(part)
        if self._left < 0:
            self._response.close()
            raise LongAnswerError(_too_long(self._most))
        return part


def list_bucket(filesystem: Any, root: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield path and entry of every file in a folder of a bucket, that of ``meta/info.json`` among them first.

    Raises:
        FileNotFoundError: There is no ``meta/info.json``: the folder may be a bucket of millions of other files.
        ListingError: The listing does not end, or is not complete.
    """
    bucket, key, _ = filesystem.split_path(root)
    prefix = f"{key}/" if key else ""
    first = _page(filesystem, bucket, f"{prefix}meta/info.json", MaxKeys=1)
    if not any(path == f"{prefix}meta/info.json" for path, _ in _entries(first)):
        raise FileNotFoundError(f"{root}/meta/info.json")
    options: dict[str, Any] = {}
    for _ in range(limits.LISTING_REQUESTS):
        page = _page(filesystem, bucket, prefix, **options)
        for path, entry in _entries(page):
            yield path.removeprefix(prefix), entry
        if not page.get("IsTruncated"):
            return
        options["ContinuationToken"] = str(page.get("NextContinuationToken") or "")
        if not options["ContinuationToken"]:
            raise ListingError("the server lists a part of the files, and does not say how to get the rest")
    raise ListingError(f"the listing does not end after {limits.LISTING_REQUESTS} requests")


def _page(filesystem: Any, bucket: str, prefix: str, **options: Any) -> Mapping[str, Any]:
    page: Mapping[str, Any] = wait_for_store(
        filesystem,
        "call_s3",
        "list_objects_v2",
        seconds=limits.REQUEST_S,
        Bucket=bucket,
        Prefix=prefix,
        **filesystem.req_kw,
        **options,
    )
    return page


def _entries(page: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for entry in page.get("Contents", ()):
        yield str(entry.get("Key", "")), {**entry, "size": entry.get("Size")}
