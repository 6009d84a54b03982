"""Requests to the Hub over HTTP, with limits on the time and the size of a response.

Requests use the client, the token and the proxies of ``huggingface_hub``, but not its functions, which read
responses of any length.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any, TypeVar
from urllib.parse import quote, urljoin, urlsplit

from stepscore._threads import Threads
from stepscore.episodes.remote import limits
from stepscore.episodes.remote.hub import (
    ATTEMPTS,
    TIMEOUT_S,
    HubFolder,
    hub_package,
    refusal,
    wait_before_retry,
)
from stepscore.episodes.remote.limits import SlowAnswerError, wait_for_thread
from stepscore.errors import SourceError

T = TypeVar("T")


class HubAnswerError(ValueError):
    """A response without the requested content, for which a retry would not help."""


class HubStatusError(Exception):
    """An error response: status and headers, without the URL, which may be signed."""

    def __init__(self, status_code: int, headers: Mapping[str, str]) -> None:
        denied = " (no access: hf auth login, or set HF_TOKEN)" if status_code in (401, 403) else ""
        super().__init__(f"HTTP status {status_code}{denied}")
        self.status_code, self.headers = status_code, headers


def hub_headers() -> dict[str, str]:
    """Return the headers of a request, including the user's token."""
    return {**_utils().build_hf_headers(), "Accept-Encoding": "identity"}


def attempted(work: Callable[[], T], size: int) -> T:
    """Call ``work`` with retries, and return the result of the first success."""
    import stamina

    def attempts() -> T:
        for attempt in stamina.retry_context(on=wait_before_retry, attempts=ATTEMPTS, timeout=None):
            with attempt:
                return wait_for_thread(work, limits.time_for(size))
        raise AssertionError("stamina ends with a result or an error")

    return wait_for_thread(attempts, limits.RETRYING_S)


def read_body(response: Any, most: int) -> bytes:
    """Return the body of a response; HubAnswerError above ``most`` bytes, SlowAnswerError if it is too slow."""
    end = time.monotonic() + limits.time_for(most)
    content = bytearray()
    # Read at most a buffer at a time, so that an oversized response is noticed early.
    chunks = response.iter_raw() if hasattr(response, "iter_raw") else response.iter_content(1 << 16)
    for chunk in chunks:
        content += chunk
        if len(content) > most:
            raise HubAnswerError(f"the server sent more than the requested {most} bytes")
        if time.monotonic() > end:  # the caller has given up waiting
            raise SlowAnswerError("the answer took too long")
    return bytes(content)


@contextmanager
def opened(address: str, headers: Mapping[str, str]) -> Iterator[Any]:
    """Send a request; yield the response before its body is read."""
    session = _utils().get_session()
    if callable(getattr(session, "stream", None)):
        with session.stream("GET", address, headers=headers, timeout=TIMEOUT_S) as response:
            yield response
    else:  # huggingface_hub below 1.0 uses requests
        with session.get(address, headers=headers, timeout=TIMEOUT_S, stream=True) as response:
            yield response


def _utils() -> Any:
    return import_module("huggingface_hub.utils")


Range = tuple[int, int]

_CONNECTIONS = 8
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")


def read_hub_ranges(folder: HubFolder, name: str, size: int, ranges: Sequence[Range]) -> list[bytes]:
    """Return the bytes of several ranges of a file.

    The Hub redirects to a storage server, from which the remaining ranges are read concurrently.

    Args:
        folder: The pinned dataset folder.
        name: POSIX path of the file in the folder.
        size: Size of the file in bytes.
        ranges: Start and end (exclusive) of each range; at least one range.
    """
    hub = hub_package(f"Reading {folder.repo_id} from the Hub")
    address = hub.hf_hub_url(
        folder.repo_id,
        folder.path(name),
        repo_type=folder.kind,
        revision=folder.revision,
    )
    headers = hub_headers()
    first, found = _read_range(address, headers, size, ranges[0])
    if urlsplit(found)[:2] != urlsplit(address)[:2]:  # the token is only for the Hub
        headers = {key: value for key, value in headers.items() if key.lower() != "authorization"}
    read = partial(_read_range, found, headers, size)
    with Threads(_CONNECTIONS, "stepscore-fetch") as threads:
        return [first, *(content for content, _ in threads.map(read, ranges[1:]))]


def _read_range(address: str, headers: Mapping[str, str], size: int, part: Range) -> tuple[bytes, str]:
    """Return the bytes of a range, and the URL they came from."""
    return attempted(lambda: _read_once(address, headers, size, part), part[1] - part[0])


def _read_once(address: str, headers: Mapping[str, str], size: int, part: Range) -> tuple[bytes, str]:
    start, end = part
    with opened(address, {**headers, "Range": f"bytes={start}-{end - 1}"}) as response:
        _check_answer(response, size, part)
        content = read_body(response, end - start)
        if len(content) < end - start:
            raise ConnectionError(f"the connection was lost after {len(content)} of {end - start} bytes")
        return content, str(response.url)


def _check_answer(response: Any, size: int, part: Range) -> None:
    status = response.status_code
    if status == 200 and part != (0, size):
        raise HubAnswerError(
            "the server returns only whole files, not ranges; download the dataset (hf download) and pass its folder"
        )
    if status not in (200, 206):
        raise HubStatusError(status, response.headers)
    stated = response.headers.get("Content-Range", "")
    match = _CONTENT_RANGE.fullmatch(stated)
    if status == 206 and (match is None or (int(match[1]), int(match[3])) != (part[0], size)):
        raise HubAnswerError(f"the server gave {stated[:60]!r} for bytes {part[0]}-{part[1] - 1}/{size}")


def pinned(folder: HubFolder) -> HubFolder:
    """Return the folder pinned to the current commit of its revision.

    Raises:
        MissingExtraError: huggingface_hub is not installed.
        SourceError: The repository or revision does not exist, the user may not read it, or the Hub cannot be
            reached.
    """
    if folder.is_pinned:
        return folder
    revision = "" if folder.revision is None else f"/revision/{quote(folder.revision, safe='')}"
    try:
        info, _ = _ask(_address(folder) + revision)
        commit = replace(folder, revision=str(info.get("sha") if isinstance(info, dict) else ""))
        if not commit.is_pinned:
            raise HubAnswerError("it does not state the commit of the revision")
    except Exception as error:  # its HTTP library's errors share no base
        raise refusal(folder, error) from error
    return commit


def list_repository(folder: HubFolder) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield path and entry of every file in a pinned folder; SourceError if listing fails or never ends."""
    inside = f"{folder.folder}/" if folder.folder else ""
    path = f"/{quote(folder.folder)}" if folder.folder else ""
    address = first = f"{_address(folder)}/tree/{folder.revision}{path}?recursive=true&expand=false"
    try:
        for _ in range(limits.LISTING_REQUESTS):
            entries, following = _ask(address)
            for entry in entries if isinstance(entries, list) else ():
                if isinstance(entry, dict) and entry.get("type") == "file":
                    found = {"size": entry.get("size"), "blob_id": entry.get("oid")}
                    yield str(entry.get("path", "")).removeprefix(inside), found
            if not following:
                return
            address = urljoin(address, following)
            if urlsplit(address)[:2] != urlsplit(first)[:2]:  # the token is only for the Hub
                raise HubAnswerError("its list of files continues on another server")
        raise HubAnswerError(f"its list of files does not end after {limits.LISTING_REQUESTS} requests")
    except HubStatusError as error:
        if error.headers.get("X-Error-Code") == "EntryNotFound":
            raise FileNotFoundError(folder.folder) from None
        raise refusal(folder, error) from error
    except SourceError:
        raise
    except Exception as error:  # its HTTP library's errors share no base
        raise refusal(folder, error) from error


def _address(folder: HubFolder) -> str:
    hub_package(f"Reading {folder.repo_id} from the Hub")
    from huggingface_hub import constants

    import_module("huggingface_hub.utils").validate_repo_id(folder.repo_id)
    return f"{constants.ENDPOINT}/api/{folder.kind}s/{folder.repo_id}"


def _ask(address: str) -> tuple[Any, str]:
    """Return the JSON at a URL and the URL of the next page, which is empty if there is none."""

    def once() -> tuple[Any, str]:
        with opened(address, hub_headers()) as response:
            if response.status_code >= 300:
                raise HubStatusError(response.status_code, response.headers)
            content = read_body(response, limits.ANSWER_BYTES)
            return json.loads(content), str(response.links.get("next", {}).get("url", ""))

    return attempted(once, 0)
