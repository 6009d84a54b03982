"""Help texts are short: at most twelve words an option, ranges and defaults not counted, and no semicolons."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer.main

from stepscore.cli.app import app
from tests.cli.command_walk import functions

MOST_WORDS = 12


def counted(text: str) -> int:
    """The words of a help text without its range and default."""
    text = re.sub(r"\((?:from|above|at)\b[^)]*\)", "", text)
    return len(re.sub(r"(?i)[.;,]?\s*(?:by )?\bdefaults?:? .*$", "", text).split())


def texts(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    for param in command.params:
        yield " ".join((*path, param.opts[0])), getattr(param, "help", None) or ""
    for name, inner in getattr(command, "commands", {}).items():
        yield from texts(inner, (*path, name))


def test_no_option_has_a_long_help_text() -> None:
    options = [pair for pair in texts(typer.main.get_command(app)) if "-completion" not in pair[0]]
    assert len(options) > 300
    assert not [pair for pair in options if counted(pair[1]) > MOST_WORDS or ";" in pair[1]]


def test_no_key_of_a_group_has_a_long_help_text() -> None:
    keys = [
        (" ".join((*words, group.flag, key.name)), key.help)
        for words, function in functions()
        for declared, group in getattr(function, "key_groups", {}).values()
        for key in group.keys(declared).values()
    ]
    assert keys
    assert not [pair for pair in keys if counted(pair[1]) > MOST_WORDS or ";" in pair[1]]
