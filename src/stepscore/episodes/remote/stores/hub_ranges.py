"""Byte ranges of a file on the Hub, over HTTP.

fsspec's file system of the Hub reads 5 MB ahead of every range, lists the folder of a file before it opens it, and
takes the beginning of a whole file for the range where a server ignores ranges. So ranges are asked for here, with
the client, the token and the proxies of ``huggingface_hub``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from stepscore._threads import Threads
from stepscore.episodes.remote.stores.hub import HubFolder, hub_package
from stepscore.episodes.remote.stores.hub_http import (
    HubAnswerError,
    HubStatusError,
    attempted,
    hub_headers,
    opened,
    read_body,
)

Range = tuple[int, int]

_CONNECTIONS = 8
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")


def read_hub_ranges(folder: HubFolder, name: str, size: int, ranges: Sequence[Range]) -> list[bytes]:
    """Return the bytes of some ranges of a file.

    The Hub answers with the address of a store, which is asked for the other ranges at once.

    Args:
        folder: The dataset, pinned.
        name: POSIX path of the file in it.
        size: Its bytes.
        ranges: First byte and the one after the last, at least one.
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
    if urlsplit(found)[:2] != urlsplit(address)[:2]:  # the token is for the Hub alone
        headers = {key: value for key, value in headers.items() if key.lower() != "authorization"}
    read = partial(_read_range, found, headers, size)
    with Threads(_CONNECTIONS, "stepscore-fetch") as threads:
        return [first, *(content for content, _ in threads.map(read, ranges[1:]))]


def _read_range(address: str, headers: Mapping[str, str], size: int, part: Range) -> tuple[bytes, str]:
    """Return the bytes of a range, and the address that gave them."""
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
            "the server gives whole files alone, no ranges; fetch the dataset (hf download) and name its folder"
        )
    if status not in (200, 206):
        raise HubStatusError(status, response.headers)
    stated = response.headers.get("Content-Range", "")
    match = _CONTENT_RANGE.fullmatch(stated)
    if status == 206 and (match is None or (int(match[1]), int(match[3])) != (part[0], size)):
        raise HubAnswerError(f"the server gave {stated[:60]!r} for bytes {part[0]}-{part[1] - 1}/{size}")
