"""Ctrl-C at any time of ``judge``: 130, one line, the status kept, and the same command finishes the run."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import stepscore
from stepscore.cli.main import run
from stepscore.runs.tables import TABLES

BEFORE_AND_AFTER = (
    *("stepscore.judges.get_judge", "stepscore.episodes.open_episodes", "stepscore.runs.scoring.read_info"),
    *("stepscore.runs.scoring.protocol_of", "stepscore.runs.scoring.Journal.__enter__"),
    *(
        "stepscore.runs.scoring.RunAccount",
        "stepscore.runs.scoring.index",
        "stepscore.runs.engines.local.LocalEngine.run",
    ),
    *("stepscore.runs.engines.local.run_blocking", "stepscore.runs.journal.Journal.append"),
    *("stepscore.models.calls.account.RunAccount.spent", "stepscore.models.calls.account.RunAccount.close"),
    *(
        "stepscore.runs.scoring.write_info",
        "stepscore.runs.run_info.write_json",
        "stepscore._files.os.replace",
    ),
    *("stepscore.runs.scoring.write_tables", "stepscore.runs.stored_tables.build_tables"),
    *("stepscore.runs.scoring.open_run", "stepscore.cli.judging.judge.summarise"),
)
"""Functions of a run, in about the order in which they are called; an interrupt comes before and after each."""

EPISODES = 6


@pytest.fixture(autouse=True)
def kept_signals() -> Iterator[None]:
    """A reported interrupt leaves the signals to the system; give them back."""
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals come to the main thread alone")
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


@pytest.fixture(scope="module")
def undisturbed(toys: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("undisturbed") / "r"
    assert run(words(toys, folder)) == 0
    return tables(folder)


def words(toys: Path, folder: Path) -> list[str]:
    return ["judge", str(toys), "--judge", "linear-time", "--limit", str(EPISODES), "-o", str(folder)]


def tables(folder: Path) -> dict[str, bytes]:
    return {name: (folder / f"{name}.parquet").read_bytes() for name in TABLES if name != "usage"}


def interrupting(call: Callable[..., Any], when: str, which: int = 1) -> Callable[..., Any]:
    """Return a function that is interrupted, as by Ctrl-C, before or after its nth call."""
    calls = 0

    def interrupted(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == which and when == "before":
            os.kill(os.getpid(), signal.SIGINT)
        result = call(*arguments, **options)
        if calls == which and when == "after":
            os.kill(os.getpid(), signal.SIGINT)
        return result

    return interrupted


def check_interrupted(code: int, folder: Path, toys: Path, expected: dict[str, bytes], printed: str) -> None:
    assert code == 130
    lines = [
        line
        for line in printed.splitlines()
        if line.startswith(("Interrupted", "Error", "Traceback", "  File"))
    ]
    assert len(lines) == 1, printed
    assert lines[0].startswith("Interrupted: ")
    assert printed.splitlines()[-1] == lines[0]
    if (folder / "run.json").exists():
        assert json.loads((folder / "run.json").read_text())["status"] in ("interrupted", "finished")
    signal.signal(signal.SIGINT, signal.default_int_handler)
    assert run(words(toys, folder)) == 0
    assert json.loads((folder / "run.json").read_text())["status"] == "finished"
    assert tables(folder) == expected


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("name", BEFORE_AND_AFTER)
def test_an_interrupt_around_every_step(
    name: str,
    when: str,
    toys: Path,
    tmp_path: Path,
    undisturbed: dict[str, bytes],
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "r"
    with pytest.MonkeyPatch.context() as patch:
        owner, _, attribute = name.rpartition(".")
        patch.setattr(name, interrupting(_resolve(owner, attribute), when))
        code = run(words(toys, folder))
    check_interrupted(code, folder, toys, undisturbed, capsys.readouterr().err)


@pytest.mark.parametrize("line", range(2, EPISODES + 1))
def test_an_interrupt_after_any_line_of_the_journal_keeps_the_lines_before(
    line: int, toys: Path, tmp_path: Path, undisturbed: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, name = tmp_path / "r", "stepscore.runs.journal.Journal.append"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(name, interrupting(_resolve(*name.rsplit(".", 1)), "after", line))
        code = run(words(toys, folder))
    printed = capsys.readouterr().err
    assert (folder / "journal.jsonl").read_bytes().count(b"\n") >= line
    assert "finished episodes are kept in" in printed.splitlines()[-1]
    assert stepscore.open_run(folder).judgements().num_rows >= line
    check_interrupted(code, folder, toys, undisturbed, printed)


def _resolve(owner: str, attribute: str) -> Any:
    from pydoc import locate

    return getattr(locate(owner), attribute)
