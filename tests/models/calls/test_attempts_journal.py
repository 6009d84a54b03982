"""Attempts as lines: a torn line is dropped, a damaged one is named, and who lost the folder writes none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stepscore.errors import LeaseLostError, RunError
from stepscore.models.calls.attempts import Spent
from stepscore.models.calls.shared_folder import AttemptsJournal


def test_an_attempt_is_a_line_before_it_is_sent(tmp_path: Path) -> None:
    path = tmp_path / "attempts.jsonl"
    attempts = AttemptsJournal(path)
    number = attempts.begin("k", 0.5)
    assert path.read_text() == '{"attempt":1,"key":"k","cost":0.5}\n'
    attempts.end(number, "answered", 0.125)
    assert path.read_text().splitlines()[1] == '{"ended":1,"state":"answered","cost":0.125}'
    assert attempts.spent() == (1, 0.125)


def test_a_torn_line_is_dropped_and_its_attempt_still_counts(tmp_path: Path) -> None:
    path = tmp_path / "attempts.jsonl"
    attempts = AttemptsJournal(path)
    attempts.end(attempts.begin("k", 0.5), "answered", 0.25)
    attempts.close()
    path.write_bytes(path.read_bytes()[:-5])
    again = AttemptsJournal(path)
    assert again.total() == Spent(attempts=1, lost=1, cost=0.5, exact=False)
    assert again.this_start() == Spent()
    again.begin("l", 0.5)
    assert AttemptsJournal(path).spent() == (2, 1.0)


def test_what_is_added_and_taken_away_leaves_nothing(tmp_path: Path) -> None:
    attempts = AttemptsJournal(tmp_path / "attempts.jsonl")
    for bound in (0.1, 0.2, 0.3, 0.7):
        attempts.end(attempts.begin("k", bound), "answered", 0.0)
    assert attempts.spent() == (4, 0.0)


@pytest.mark.parametrize(
    "line",
    [
        "no JSON",
        "[]",
        "{}",
        '{"attempt":1}',
        '{"attempt":1,"key":"k","cost":-1}',
        '{"ended":7,"state":"answered","cost":0}',
        '{"attempt":"x","cost":1}',
    ],
)
def test_a_damaged_line_is_named(line: str, tmp_path: Path) -> None:
    path = tmp_path / "attempts.jsonl"
    path.write_text(f'{{"attempt":1,"key":"k","cost":null}}\n{line}\n')
    with pytest.raises(RunError, match=r"attempts\.jsonl, line 2 is"):
        AttemptsJournal(path)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(RunError, match="not a file"):
        AttemptsJournal(tmp_path / "pipe")


def test_who_lost_the_folder_sends_nothing(tmp_path: Path) -> None:
    def lost() -> None:
        raise LeaseLostError("another process has taken over")

    attempts = AttemptsJournal(tmp_path / "attempts.jsonl", lost)
    with pytest.raises(LeaseLostError):
        attempts.begin("k", None)
    assert (tmp_path / "attempts.jsonl").read_bytes() == b""
    assert (attempts.open, attempts.spent()) == (0, (0, 0.0))
