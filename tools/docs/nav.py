"""The navigation of the site, from ``zensical.toml``: the one list of pages and their order."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any, NamedTuple

from tools.docs.paths import CONFIG


class Entry(NamedTuple):
    """A page of the navigation."""

    section: str
    """Its heading; empty for the home page."""
    page: str
    """Its path below ``docs``."""


def read_config() -> dict[str, Any]:
    """Return the site's configuration."""
    project: dict[str, Any] = tomllib.loads(CONFIG.read_text(encoding="utf-8"))["project"]
    return project


def entries(nav: list[Any] | None = None) -> list[Entry]:
    """Return every page in order, under its top section."""
    items = read_config()["nav"] if nav is None else nav
    return [Entry(section, page) for section, page in _walk(items, "", 0)]


def _walk(items: list[Any], section: str, depth: int) -> Iterator[tuple[str, str]]:
    for item in items:
        if isinstance(item, str):
            yield section, item
            continue
        for name, inner in item.items():
            if isinstance(inner, str):
                yield section, inner
            else:
                yield from _walk(inner, section if depth else name, depth + 1)
