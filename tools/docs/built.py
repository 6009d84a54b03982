"""Checks the built site: every link leads somewhere, and nothing is loaded from another host."""

from __future__ import annotations

import os
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

LOADS = {
    "audio": "src",
    "embed": "src",
    "iframe": "src",
    "img": "src",
    "link": "href",
    "object": "data",
    "script": "src",
    "source": "src",
    "video": "src",
}
"""Elements whose attribute a browser loads automatically."""
REMOTE = re.compile(r"^(?:[a-z]+:)?//", re.IGNORECASE)
STYLE_LOADS = re.compile(r"(?:url\(\s*['\"]?|@import\s+['\"])([^'\")]+)")


class Page(HTMLParser):
    """The anchors of an HTML page, what it links to and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors = {"", "__top"}
        self.links: list[str] = []
        self.loads: list[str] = []
        self._style = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what an element offers, links to and loads."""
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        self._style = tag == "style"
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag in LOADS and values.get(LOADS[tag]):
            self.loads.append(values[LOADS[tag]])
        self.loads += STYLE_LOADS.findall(values.get("style", ""))

    def handle_data(self, data: str) -> None:
        """Note what a style sheet inside the page loads."""
        if self._style:
            self.loads += STYLE_LOADS.findall(data)


class CheckedSite(NamedTuple):
    """What a built site holds, and a line for every fault."""

    pages: int
    links: int
    size: int
    faults: list[str]


def check_site(site: Path) -> CheckedSite:
    """Check every page and style sheet of a site."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    faults, n = list[str](), 0
    for path, page in pages.items():
        name = path.relative_to(site).as_posix()
        faults += [f"{name} loads {load}" for load in page.loads if REMOTE.match(load)]
        local = [target for target in (*page.links, *page.loads) if not _elsewhere(target)]
        n += len(local)
        if name != "404.html":  # its links are from the root of a server
            faults += [f"{name} links {target}" for target in local if not _leads(path, target, pages, site)]
    for path in sorted(site.rglob("*.css")):
        loads = STYLE_LOADS.findall(path.read_text(encoding="utf-8"))
        faults += [
            f"{path.relative_to(site).as_posix()} loads {load}" for load in loads if REMOTE.match(load)
        ]
    return CheckedSite(
        len(pages), n, sum(path.stat().st_size for path in site.rglob("*") if path.is_file()), faults
    )


def missing_anchors(site: Path, page: str, anchors: list[str]) -> list[str]:
    """Return the anchors that a page of the site, named by its Markdown, lacks."""
    found = Page((site / page).with_suffix(".html").read_text(encoding="utf-8")).anchors
    return [anchor for anchor in anchors if anchor not in found]


def _elsewhere(target: str) -> bool:
    return bool(REMOTE.match(target)) or target.startswith(("data:", "mailto:", "javascript:"))


def _leads(path: Path, target: str, pages: dict[Path, Page], site: Path) -> bool:
    name, _, anchor = unquote(target).partition("#")
    name = name.partition("?")[0]
    there = Path(os.path.normpath(path.parent / name)) if name else path
    there = there / "index.html" if there.is_dir() else there
    if not there.is_relative_to(site) or not there.is_file():
        return False
    return not anchor or (there in pages and anchor in pages[there].anchors)
