"""Every command that the docs show is one, and works."""

from __future__ import annotations

import importlib.util
import inspect
import re

import pytest
import typer
from typer.main import get_command

from stepscore.cli.app import app
from stepscore.models import model_registry
from tests.docs.shown_commands import (
    ELSEWHERE,
    PAGES,
    Shown,
    plain,
    run_elsewhere,
    shown_commands,
    shown_lines,
)
from tests.paths import ROOT

COMMANDS = shown_commands()
OURS = ("stepscore", "benchmarks", "examples", "tests", "tools")


def parse(words: list[str]) -> None:
    """Let the command line read a command, without running it; one that prints help ends there."""
    command = get_command(app)
    while inner := getattr(command, "commands", None):
        command, words = inner[words[0]], words[1:]
    try:
        # The rest of what it needs is in the file.
        command.make_context(command.name, list(words), resilient_parsing="--config" in words)
    except typer.Exit as ended:
        if ended.exit_code:
            raise


def test_the_docs_show_many_commands() -> None:
    assert len(COMMANDS) > 120
    assert {command.words[0] for command in COMMANDS} >= {
        "judge",
        "metrics",
        "compare",
        "report",
        "plot",
        "export",
    }


@pytest.mark.parametrize("shown", COMMANDS, ids=str)
def test_a_command_of_the_docs_is_read_by_the_command_line(shown: Shown) -> None:
    words = [{"DEPTH": "1", "N": "1"}.get(word, word) for word in plain(shown.words)]
    parse(words)
    given = [words[i + 1] for i, word in enumerate(words) if word == "-M"]
    if given:
        backend = words[words.index("--model") + 1].partition("/")[0]
        options = inspect.signature(model_registry.get(backend)).parameters
        assert all(pair.partition("=")[0].replace("-", "_") in options for pair in given), (
            f"{backend}/ has no such option: {given}"
        )


def test_a_wrong_command_is_not_read() -> None:
    for line in ("metrics runs/a --by-policy x", "judge", "nothing at all"):
        with pytest.raises(BaseException):  # noqa: B017, PT011 - typer's own kinds
            parse(line.split())


def test_what_is_run_elsewhere_is_shown_and_has_its_tests() -> None:
    used = {run_elsewhere(plain(command.words)) for command in COMMANDS}
    assert used - {None} == set(ELSEWHERE.values())
    assert all((ROOT / tests).exists() for tests in ELSEWHERE.values())


def test_modules_and_targets_that_the_docs_call_are_there() -> None:
    targets = re.search(r"\.PHONY: (.*)", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert targets is not None
    called = 0
    for page in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        for number, line in shown_lines(page):
            words = line.split()
            if words[:2] == ["python", "-m"] and words[2].partition(".")[0] in OURS:
                assert importlib.util.find_spec(words[2]) is not None, f"{page}:{number}: {line}"
                called += 1
            elif words[:1] == ["make"]:
                assert words[1] in targets[1].split(), f"{page}:{number}: {line}"
                called += 1
    assert called > 15
