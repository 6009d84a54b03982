"""The published texts of a profile: fetched on first use and checked, or taken from a file of the user's.

Inside :func:`without_fetching` nothing is fetched, and a text that is not in the cache is stood for by one of its
length: a dry run counts with it. :func:`fetch_texts` is called where a run begins, so that an error of the network
stops it before anything is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache

from stepscore.errors import ModelError, OptionError
from stepscore.models.profiles.fetching import cached_file, digest, fetch_file, source_url
from stepscore.models.profiles.literals import string_literal
from stepscore.models.profiles.profile import Profile, PromptText, Question, SourceFile

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
