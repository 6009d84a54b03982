"""Output of any kind (full, closed, a broken pipe, ASCII alone, absurdly wide) and a user without a home."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepscore.cli.main import run
from stepscore.cli.streams import MAX_MESSAGE, one_line, safe_text

MAIN = "from stepscore.cli.main import main; main()"


@pytest.fixture
def kept_streams(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Streams may be replaced, and are pytest's own again at the end."""
    with monkeypatch.context() as patch:
        yield patch


def test_text_of_others_cannot_disturb_a_terminal() -> None:
    assert safe_text("a\x1b[2J\x07\r\u202eb\ud800\ttab\nline") == "a?[2J???b?\ttab\nline"
    assert one_line("two\n  lines\t\x00") == "two lines ?"
    assert len(one_line("x" * 10**7)) <= MAX_MESSAGE


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("words", [["ls", "readers"], ["ls", "readers", "--json"], ["--help"], ["--version"]])
def test_a_full_stdout_is_one_line_and_2(
    words: list[str], kept_streams: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with open("/dev/full", "w") as full:
        kept_streams.setattr(sys, "stdout", full)
        assert run(words) == 2
    printed = capsys.readouterr().err
    assert printed == "Error: Cannot use standard output: No space left on device.\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_stderr_stops_nothing(
    toy_run: Path, kept_streams: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with open("/dev/full", "w") as full:
        kept_streams.setattr(sys, "stderr", full)
        assert run(["metrics", str(toy_run), "--json"]) == 0
        assert run(["metrics", "nope"]) == 2
    assert capsys.readouterr().out.startswith("[")


@pytest.mark.parametrize("words", [["ls", "readers"], ["ls", "readers", "--json"]])
def test_a_reader_that_closed_the_pipe_is_no_error(
    words: list[str], kept_streams: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stream:
        kept_streams.setattr(sys, "stdout", stream)
        assert run(words) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-16"])
def test_any_encoding_prints_everything(
    encoding: str, toy_run: Path, kept_streams: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["metrics", str(toy_run)], ["metrics", str(toy_run), "--json"], ["ls", "judges"]):
        stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        kept_streams.setattr(sys, "stdout", stream)
        assert run(words) == 0, words
        stream.seek(0)
        assert len(stream.read()) > 100
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("width", ["0", "-5", "999999999999", "abc", "", "١٢"])
def test_any_width_is_a_usable_one(
    width: str, toy_run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    assert run(["metrics", str(toy_run)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines
    assert max(map(len, lines)) <= 1000


@pytest.mark.skipif(os.name != "posix", reason="descriptors are closed as POSIX shells do it")
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_count_as_dev_null_and_no_file_gets_their_numbers(
    closed: str, toys: Path, tmp_path: Path
) -> None:
    words = ["judge", str(toys), "--judge", "constant", "--limit", "2", "-o", str(tmp_path / "r")]
    shell = f'"$@" {closed}'
    command = ["sh", "-c", shell, "sh", sys.executable, "-c", MAIN, *words]
    assert subprocess.run(command, capture_output=True, timeout=120).returncode == 0
    # A file that got the number of stderr would have the summary in it.
    assert (tmp_path / "r" / "journal.jsonl").read_bytes().count(b"\n") == 2
    assert b"judged" not in (tmp_path / "r" / "journal.jsonl").read_bytes().replace(b'"judged_at"', b"")


def test_a_user_without_home_and_name_can_work(
    toys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unknown(number: int) -> object:
        raise KeyError(f"getpwuid(): uid not found: {number}")

    for name in ("HOME", "USERPROFILE", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "STEPSCORE_CACHE", "TERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    run_folder = str(tmp_path / "r")
    for words in (
        ["judge", str(toys), "--judge", "constant", "--limit", "3", "-o", run_folder],
        ["metrics", run_folder, "--json"],
        ["report", run_folder, "-o", str(tmp_path / "page")],
    ):
        assert run(words) == 0, words
    capsys.readouterr()
    for words in (
        ["cache", "stats"],
        [
            "judge",
            str(toys),
            "--judge",
            "gvl",
            "--model",
            "mock/x",
            "--limit",
            "1",
            "-o",
            str(tmp_path / "m"),
        ],
    ):
        code = run(words)
        printed = capsys.readouterr().err
        assert code in (0, 1, 2), printed
        assert "Unexpected" not in printed
