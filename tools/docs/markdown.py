"""What is read from a Markdown page: blocks of code, headings with their anchors, links, the first sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

FENCE = re.compile(
    r"^(?P<indent> *)```(?P<kind>\w*)[^\n]*\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL
)
LINK = re.compile(r"(?P<image>!?)\[(?P<text>(?:[^\[\]]|\[[^\[\]]*\])*)\]\((?P<target>[^()\s]+)\)")
HEADING = re.compile(r"^(#{1,6}) +(.+?)(?: +#+)?$", re.MULTILINE)


class Block(NamedTuple):
    """A fenced block of code."""

    kind: str
    text: str
    line: int


class Link(NamedTuple):
    """A link or an image of a page."""

    target: str
    line: int


def blocks(text: str) -> Iterator[Block]:
    """Yield the fenced blocks of a page, without the indentation of a list around them."""
    for match in FENCE.finditer(text):
        lines = [line.removeprefix(match["indent"]) for line in match["text"].splitlines(keepends=True)]
        yield Block(match["kind"], "".join(lines), text.count("\n", 0, match.start()) + 1)


def prose(text: str) -> str:
    """Return a page with its code blanked out, fenced and inline, every line where it was."""
    without = FENCE.sub(lambda match: "\n" * match[0].count("\n"), text)
    return re.sub(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)", lambda match: "`" * len(match[0]), without)


def links(text: str) -> Iterator[Link]:
    """Yield the links and images of a page, those inside code left out; of an image in a link both."""
    kept = prose(text)
    for match in LINK.finditer(kept):
        line = kept.count("\n", 0, match.start()) + 1
        yield Link(match["target"], line)
        yield from (Link(inner["target"], line) for inner in LINK.finditer(match["text"]))


def slug(heading: str) -> str:
    """Return the anchor of a heading, as GitHub makes it: small letters, hyphens for spaces, no other marks."""
    plain = LINK.sub(lambda match: match["text"], heading).replace("`", "").replace("*", "")
    return re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings; a repeated one is numbered, as on GitHub."""
    found: dict[str, int] = {}
    names = set()
    for match in HEADING.finditer(FENCE.sub("", text)):
        name = slug(match[2])
        count = found.get(name, 0)
        found[name] = count + 1
        names.add(f"{name}-{count}" if count else name)
    return names


def title(text: str) -> str:
    """Return the first heading of a page, without marks."""
    match = HEADING.search(FENCE.sub("", text))
    if match is None:
        raise ValueError("A page begins with a heading.")
    return LINK.sub(lambda link: link["text"], match[2]).replace("`", "")


def first_sentence(text: str) -> str:
    """Return the first sentence of the first paragraph of a page, as plain text."""
    body = FENCE.sub("", text)
    for paragraph in re.split(r"\n\s*\n", body):
        plain = " ".join(paragraph.split())
        if plain and not re.match(r"[#|>!<:-]|\d+\. ", plain):
            plain = LINK.sub(lambda link: link["text"], plain).replace("**", "")
            return re.split(r"(?<=[a-z0-9)`%][.?]) (?=[A-Z`])|(?<=[a-z0-9)`]): (?=$)", plain)[0].rstrip(":")
    raise ValueError("A page has a paragraph.")
