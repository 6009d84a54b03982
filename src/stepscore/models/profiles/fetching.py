"""Fetch a pinned file of a public repository: once, over https, by its commit, and never more than it has.

The file is kept in the user's cache folder and checked by its sha256 each time it is read. A redirect is refused, as
is a response that claims or sends more bytes than the file has.
"""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import TYPE_CHECKING

from stepscore._files import atomic_path, user_cache_folder
from stepscore._untrusted import read_bytes
from stepscore.errors import ModelError, RunError
from stepscore.models.profiles.profile import SourceFile

if TYPE_CHECKING:
    import httpx2

HOST = "raw.githubusercontent.com"
"""Where files of public repositories are read by commit."""

TIMEOUT_S = 30.0
"""Seconds for a download, and for each of its steps."""


def source_url(source: SourceFile) -> str:
    """Return the address of a file at its commit."""
    return f"https://{HOST}/{source.repository}/{source.commit}/{source.path}"


def cached_path(source: SourceFile) -> Path:
    """Return where a fetched file is kept."""
    folder = user_cache_folder() / "prompts" / source.repository.replace("/", "+") / source.commit
    return folder / source.path.replace("/", "+")


def cached_file(source: SourceFile) -> bytes | None:
    """Return a file that was fetched before; ``None`` where it was not, or is damaged."""
    path = cached_path(source)
    try:
        content = read_bytes(path, RunError, max_bytes=source.bytes) if path.exists() else b""
    except RunError:
        return None
    return content if digest(content) == source.sha256 else None


def fetch_file(source: SourceFile) -> bytes:
    """Return a file from the cache, else download it, check it and keep it.

    Raises:
        ModelError: It cannot be reached, is larger than it should be, or is not the pinned file.
    """
    if (content := cached_file(source)) is not None:
        return content
    content = _download(source_url(source), source.bytes)
    if digest(content) != source.sha256:
        raise ModelError(
            f"{source_url(source)} is not the file that was pinned: sha256 {digest(content)[:16]}…, "
            f"not {source.sha256[:16]}…. It was not kept."
        )
    with atomic_path(cached_path(source), make_folder=True) as temporary:
        temporary.write_bytes(content)
    return content


def digest(content: bytes) -> str:
    """Return the sha256 in hex."""
    return hashlib.sha256(content).hexdigest()


def open_client() -> httpx2.Client:
    """Return a client that follows no redirect and keeps no connection."""
    import httpx2

    return httpx2.Client(timeout=TIMEOUT_S, follow_redirects=False)


def _download(url: str, max_bytes: int) -> bytes:
    import httpx2

    too_large = ModelError(f"{url} has more than {max_bytes} bytes, the size of the pinned file.")
    content, until = bytearray(), time.monotonic() + TIMEOUT_S
    try:
        with (
            open_client() as client,
            client.stream("GET", url, headers={"accept-encoding": "identity"}) as response,
        ):
            if response.is_redirect:
                raise ModelError(f"{url} redirects elsewhere, which is not followed.")
            if not response.is_success:
                raise ModelError(f"{url} answered {response.status_code}.")
            claimed = response.headers.get("content-length", "")
            if claimed.isdecimal() and int(claimed[:20]) > max_bytes:
                raise too_large
            if response.headers.get("content-encoding", "identity") != "identity":
                raise ModelError(f"{url} returned a packed file, which was not asked for.")
            for piece in response.iter_raw(1 << 14):
                content += piece
                if len(content) > max_bytes:
                    raise too_large
                if time.monotonic() > until:
                    raise ModelError(f"{url} was not read in {TIMEOUT_S:g} s.")
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, OSError, ValueError) as error:
        reason = "".join(char if char.isprintable() else " " for char in str(error)[:200])
        raise ModelError(f"{url} cannot be fetched ({reason or type(error).__name__}).") from error
    return bytes(content)
