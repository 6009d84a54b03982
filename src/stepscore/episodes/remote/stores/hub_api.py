"""What the Hub says of a repository: the commit of a revision, and the files of a commit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

from stepscore.episodes.remote.stores import limits
from stepscore.episodes.remote.stores.hub import HubFolder, hub_package, refusal
from stepscore.episodes.remote.stores.hub_http import (
    HubAnswerError,
    HubStatusError,
    attempted,
    hub_headers,
    opened,
    read_body,
)
from stepscore.errors import SourceError


def pinned(folder: HubFolder) -> HubFolder:
    """Return the folder at the commit that its revision is at now.

    Raises:
        MissingExtraError: huggingface_hub is not installed.
        SourceError: There is no such repository or revision, this user may not read it, or the Hub is not reached.
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
    """Yield path and entry of every file in a folder of a repository.

    Args:
        folder: The folder, pinned.

    Raises:
        SourceError: The Hub does not give the list, or it does not end.
    """
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
            if urlsplit(address)[:2] != urlsplit(first)[:2]:  # the token is for the Hub alone
                raise HubAnswerError("its list of files goes on at another server")
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
    """Return the JSON at an address, and the address of its next page; empty where there is none."""

    def once() -> tuple[Any, str]:
        with opened(address, hub_headers()) as response:
            if response.status_code >= 300:
                raise HubStatusError(response.status_code, response.headers)
            content = read_body(response, limits.ANSWER_BYTES)
            return json.loads(content), str(response.links.get("next", {}).get("url", ""))

    return attempted(once, 0)
