"""The published texts of a profile: fetched on first use and checked, or taken from a file of the user's.

Inside :func:`without_fetching` nothing is fetched, and a text that is not in the cache is stood for by one of its
length: a dry run counts with it. :func:`fetch_texts` is called where a run begins, so that an error of the network
stops it before anything is asked.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from stepscore._files import atomic_path, user_cache_folder
from stepscore._untrusted import read_bytes
from stepscore.errors import ModelError, OptionError, RunError
from stepscore.judges.published.profiles.literals import string_literal
from stepscore.judges.published.profiles.profile import Profile, PromptText, Question, SourceFile

if TYPE_CHECKING:
    import httpx2

_fetching: ContextVar[bool] = ContextVar("stepscore_fetching_prompts", default=True)


@contextmanager
def without_fetching() -> Iterator[None]:
    """Fetch nothing: inside, a text that is not in the cache is stood for by one of its length."""
    token = _fetching.set(False)
    try:
        yield
    finally:
        _fetching.reset(token)


def published_text(profile: Profile, text: PromptText) -> str:
    """Return a published text, from the cache or its source.

    Raises:
        ModelError: It cannot be fetched, or is not the text that was pinned.
    """
    source = profile.sources[text.source or ""]
    if not _fetching.get() and cached_file(source) is None:
        return "x" * text.chars
    return _fetched(source, text.constant, text.sha256 or "")


@lru_cache(maxsize=256)
def _fetched(source: SourceFile, constant: str | None, sha256: str) -> str:
    return text_of(fetch_file(source), constant, sha256)


def text_of(content: bytes, constant: str | None, sha256: str) -> str:
    """Return a text from the content of its source; ModelError where it is not the one that was pinned."""
    if constant is None:
        try:
            found = content.decode("utf-8").strip()
        except UnicodeDecodeError as error:
            raise ModelError("The file is not UTF-8.") from error
    else:
        found = string_literal(content, constant)
    if digest(found.encode()) != sha256:
        raise ModelError(f"{constant or 'The text'} is not the text that was pinned, by its sha256.")
    return found


def fetch_texts(profile: Profile, *questions: Question, offline: bool = False) -> None:
    """Fetch every text of some questions that is not in the cache.

    Raises:
        OptionError: One would have to be fetched, and ``offline`` forbids it; the message says how to get it.
        ModelError: As :func:`published_text`.
    """
    texts = [text for question in questions for text in question.texts.values() if text.source is not None]
    needed = {str(text.source): profile.sources[str(text.source)] for text in texts}
    missing = [source for source in needed.values() if cached_file(source) is None]
    if offline and missing:
        raise OptionError(
            f"The published prompt of {profile.name} is not in the cache, and -E offline=true forbids to fetch it. "
            f"{how_to_get(list(needed.values()))}"
        )
    try:
        for text in texts:
            published_text(profile, text)
    except ModelError as error:
        otherwise = f"{how_to_get(list(needed.values()))} Or ask in other words: -J prompt=own"
        raise ModelError(f"{error} {otherwise}") from error


def how_to_get(sources: Sequence[SourceFile]) -> str:
    """Return the commands that get files where there is a network, and the option that takes them."""
    names = [source.path.rpartition("/")[2] for source in sources]
    where = "" if len(sources) == 1 else "prompts/"
    commands = [
        f"curl --create-dirs -o {where}{name} {source_url(source)}"
        for name, source in zip(names, sources, strict=True)
    ]
    return f"Where there is a network: {' && '.join(commands)}   Then: -J prompt={where or names[0]}"


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
