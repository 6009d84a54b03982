"""The reference of the command line: one page a command, from the commands themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import typer
from typer.main import get_command

from stepscore.cli.app import app
from stepscore.cli.commands import CONTEXT_SETTINGS


class Command(NamedTuple):
    """A command with the words that call it."""

    words: tuple[str, ...]
    command: Any
    panel: str
    """Its subject in ``stepscore --help``."""

    @property
    def name(self) -> str:
        """The words that call it, with spaces."""
        return " ".join(self.words)

    @property
    def page(self) -> str:
        """Its page below ``docs``."""
        return f"reference/commands/{'-'.join(self.words[1:])}.md"

    @property
    def summary(self) -> str:
        """The first line of its help."""
        return str(self.command.help).strip().splitlines()[0]


def all_commands() -> list[Command]:
    """Return every command that can be called, in the order of ``stepscore --help``."""
    root: Any = get_command(app)
    return [
        found
        for name, command in root.commands.items()
        for found in _walk(command, ("stepscore", name), command.rich_help_panel)
    ]


def _walk(command: Any, words: tuple[str, ...], panel: str) -> Iterator[Command]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield Command(words, command, panel)
        return
    for name, child in inner.items():
        yield from _walk(child, (*words, name), panel)


def parameters(command: Command) -> list[tuple[str, str]]:
    """Return every argument and option of a command as shown in its help: how it is written, and what it means."""
    context = typer.Context(command.command, info_name=command.name, **CONTEXT_SETTINGS)
    records = []
    for parameter in command.command.get_params(context):
        if getattr(parameter, "is_flag", False) and parameter.metavar is None:
            parameter.metavar = ""  # a flag takes no value
        record = parameter.get_help_record(context)
        if record is not None:
            written = record[0].split(" <")[0]  # without the Python type of an argument
            records.append((written.strip(), " ".join(record[1].split())))
    return records


def keys(command: Command) -> list[tuple[str, str]]:
    """Return every key of the command's ``-E KEY=VALUE`` groups: how it is written, and what it means."""
    groups = getattr(command.command.callback, "key_groups", {}).values()
    return [
        (f"{group.flag} {key.shown}", f"{key.help}{key.allowed}")
        for declared, group in groups
        for key in group.keys(declared).values()
    ]


def command_page(command: Command) -> str:
    """Return the page of a command: what it does, how it is called, every argument and option."""
    context = typer.Context(command.command, info_name=command.name, **CONTEXT_SETTINGS)
    pieces = (
        piece.replace("{", "").replace("}", "") for piece in command.command.collect_usage_pieces(context)
    )
    usage = " ".join([command.name, *pieces])
    shown = [*parameters(command), *keys(command)]
    rows = [f"| `{_cell(left)}` | {escape(right)} |" for left, right in shown]
    text = _words(str(command.command.help).strip())
    parts = [
        f"# {command.name}",
        text,
        f"```\n{usage}\n```",
        "| option | meaning |\n|---|---|\n" + "\n".join(rows),
        "How every command ends, and what its exit code means: [exit codes](../exit-codes.md).",
    ]
    return "\n\n".join(parts) + "\n"


def command_index(commands: list[Command]) -> str:
    """Return the tables of all commands by subject, each with a link to its page."""
    parts = []
    for panel in dict.fromkeys(command.panel for command in commands):
        rows = [
            f"| [`{command.name}`]({command.page.removeprefix('reference/')}) | {escape(command.summary)} |"
            for command in commands
            if command.panel == panel
        ]
        parts.append(f"## {panel}\n\n| command | what it does |\n|---|---|\n" + "\n".join(rows))
    return "\n\n".join(parts) + "\n"


def escape(text: str) -> str:
    """Return a sentence of a command's help for a cell of a table."""
    return _cell(_words(text))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _words(text: str) -> str:
    """Keep placeholders in angle brackets from being read as HTML, and asterisks as marks."""
    return re.sub(r"(?<!`)<(\w[^>]*)>", r"&lt;\1&gt;", text).replace("*", "\\*")
