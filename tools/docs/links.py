"""Check the links of pages in the repository, where GitHub shows them."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from tools.docs import markdown
from tools.docs.paths import ROOT


class Checked(NamedTuple):
    """How many links of pages lead somewhere, and a line for each that does not."""

    links: int
    broken: list[str]


@cache
def _anchors(page: Path) -> set[str]:
    return markdown.anchors(page.read_text(encoding="utf-8"))


def check_links(pages: list[Path], root: Path = ROOT) -> Checked:
    """Check every link and image of some pages: the file exists, inside the repository, and has the anchor."""
    broken, n = list[str](), 0
    for page in pages:
        for link in markdown.links(page.read_text(encoding="utf-8")):
            n += 1
            fault = _fault(page, link.target, root)
            if fault:
                broken.append(f"{page.relative_to(root).as_posix()}:{link.line}: {link.target}: {fault}")
    return Checked(n, broken)


def _fault(page: Path, target: str, root: Path) -> str:
    if target.startswith(("https://", "http://")):
        return ""
    path, _, anchor = unquote(target).partition("#")
    there = Path(os.path.normpath(page.parent / path)) if path else page
    if not there.is_relative_to(root):
        return "outside the repository"
    if not there.exists():
        return "no such file"
    if anchor and (there.suffix != ".md" or anchor not in _anchors(there)):
        return "no such heading"
    return ""
