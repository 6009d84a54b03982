"""A griffe extension: what docstrings write for Python's own tools becomes Markdown."""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":[a-z]+:`[~!]?([^`]*)`")
LITERAL_BLOCK = re.compile(r"::\n(?=\n +\S)")
DOCTEST = re.compile(r"^(?P<indent> *)>>> .*(?:\n(?P=indent)\S.*)*", re.MULTILINE)


class DocstringRoles(griffe.Extension):
    """Sphinx roles become code, the ``::`` before an indented block a colon, doctests fenced blocks."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrite the docstring of an object that was just read."""
        if obj.docstring is not None:
            text = LITERAL_BLOCK.sub(":\n", ROLE.sub(r"`\1`", obj.docstring.value))
            obj.docstring.value = DOCTEST.sub(_fenced, text)


def _fenced(match: re.Match[str]) -> str:
    return f"{match['indent']}```pycon\n{match[0]}\n{match['indent']}```"
