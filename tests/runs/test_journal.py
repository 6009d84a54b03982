from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest

import stepscore
from stepscore._locks import try_lock
from stepscore.errors import RunError
from stepscore.runs.journal import Journal, index, is_being_written, journal_state
from stepscore.runs.protocol import protocol_of
from stepscore.runs.stored_tables import _current
from stepscore.runs.tables import TABLES
from tests.fakes import episode
from tests.paths import ROOT


def made(folder: Path, n: int = 6) -> Path:
    judge = stepscore.get_judge("linear-time")
    return stepscore.score([episode(f"e{i}") for i in range(n)], judge, out=folder / "run").path


@pytest.mark.parametrize("cut", [1, 10, 200])
def test_a_torn_last_line_is_dropped_and_judged_again(tmp_path: Path, cut: int) -> None:
    run = made(tmp_path)
    tables = {name: (run / f"{name}.parquet").read_bytes() for name in TABLES if name != "usage"}
    journal = run / "journal.jsonl"
    journal.write_bytes(journal.read_bytes()[:-cut])
    assert len(index(journal)) == 5
    protocol = protocol_of(stepscore.get_judge("linear-time")).hash
    assert _current(run, protocol, journal_state(journal)) is None
    assert stepscore.open_run(run).judgements().num_rows == 5
    made(tmp_path)
    assert len(index(journal)) == 6
    assert tables == {name: (run / f"{name}.parquet").read_bytes() for name in tables}


def cut_to(journal: Path, lines: int, more: int = 0) -> None:
    """Cut a journal to some lines, and bytes of the next, in place."""
    length = sum(map(len, journal.read_bytes().splitlines(keepends=True)[:lines]))
    os.truncate(journal, length + more)


def test_a_journal_that_was_cut_is_warned_of_when_the_run_is_opened_and_when_it_is_resumed(
    tmp_path: Path,
) -> None:
    run = made(tmp_path)
    cut_to(run / "journal.jsonl", 4)
    with pytest.warns(
        UserWarning, match=r"journal\.jsonl is shorter .* for 6 episodes\): something else cut it"
    ):
        assert stepscore.open_run(run).count == 4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stepscore.open_run(run)
        made(tmp_path)
    cut_to(run / "journal.jsonl", 3, more=20)
    with pytest.warns(UserWarning, match="Run the same judge command again"):
        assert stepscore.open_run(made(tmp_path)).count == 6


@pytest.mark.parametrize("more", [0, 20])
def test_a_journal_that_is_cut_while_it_is_written_is_warned_of_and_keeps_whole_lines(
    tmp_path: Path, more: int
) -> None:
    path = made(tmp_path) / "journal.jsonl"
    last = json.loads(path.read_bytes().splitlines()[-1])
    with Journal(path) as journal:
        journal.append(last | {"id": "new"})
        cut_to(path, 2, more)
        with pytest.warns(UserWarning, match=r"lost its last \d+ bytes while this process was writing"):
            journal.append(last | {"id": "newer"})
        assert list(index(path)) == ["e0", "e1", "newer"]
        cut_to(path, 1)
        with pytest.warns(UserWarning, match=r"lost its last \d+ bytes"):
            journal.check()


def test_a_journal_of_one_torn_line_starts_anew(tmp_path: Path) -> None:
    run = made(tmp_path, n=1)
    (run / "journal.jsonl").write_bytes(b'{"id": "e0", "epi')
    made(tmp_path, n=1)
    assert len(index(run / "journal.jsonl")) == 1


def test_a_damaged_line_inside_is_an_error_that_names_it(tmp_path: Path) -> None:
    run = made(tmp_path)
    lines = (run / "journal.jsonl").read_bytes().splitlines(keepends=True)
    lines[2] = b"{oops}\n"
    (run / "journal.jsonl").write_bytes(b"".join(lines))
    with pytest.raises(RunError, match="line 3 is damaged"):
        stepscore.open_run(run)


def test_a_journal_that_ends_in_an_endless_line_is_refused_before_it_is_read(tmp_path: Path) -> None:
    run = made(tmp_path, n=2)
    os.truncate(run / "journal.jsonl", 1 << 40)  # a terabyte, none of which is on the disk
    for path in run.glob("*.parquet"):
        path.unlink()
    with pytest.raises(RunError, match="it ends in a line of more than"):
        stepscore.open_run(run)
    with pytest.raises(RunError, match="it ends in a line of more than"):
        made(tmp_path, n=2)


def test_tables_lost_or_old_are_made_anew_when_the_run_is_opened(tmp_path: Path) -> None:
    run = made(tmp_path)
    before = (run / "curves.parquet").read_bytes()
    (run / "curves.parquet").unlink()
    assert stepscore.open_run(run).curves().num_rows == 6 * 32
    assert (run / "curves.parquet").read_bytes() == before


def test_a_full_disk_is_a_clear_error_and_loses_nothing(tmp_path: Path) -> None:
    script = """
import resource, sys, stepscore
from pathlib import Path
from tests.fakes import episode
out = Path(sys.argv[1])
judge = stepscore.get_judge("linear-time")
stepscore.score([episode(f"e{i}") for i in range(2)], judge, out=out)
size = (out / "journal.jsonl").stat().st_size + 3000
resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
stepscore.score([episode(f"e{i}") for i in range(50)], judge, out=out)
"""
    root = ROOT
    shown = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "run")], capture_output=True, text=True, cwd=root
    )
    assert "RunError: Cannot write" in shown.stderr
    assert "Finished episodes are safe" in shown.stderr
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    safe = stepscore.open_run(tmp_path / "run").judgements().num_rows
    assert safe >= 2
    judge = stepscore.get_judge("linear-time")
    run = stepscore.score([episode(f"e{i}") for i in range(50)], judge, out=tmp_path / "run")
    assert run.judgements().num_rows == 50
    assert run.info["last"]["reused"] == safe


def test_a_folder_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(RunError, match="Cannot make"):
        stepscore.score([episode()], stepscore.get_judge("linear-time"), out=tmp_path / "file" / "run")


def test_opening_what_is_no_run_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="stepscore judge SOURCE"):
        stepscore.open_run(tmp_path)
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(RunError, match="not JSON"):
        stepscore.open_run(tmp_path)


def test_the_journal_is_locked_while_open(tmp_path: Path) -> None:
    with Journal(tmp_path / "j"), pytest.raises(RunError, match="Another process"), Journal(tmp_path / "j"):
        pass


def test_whoever_asks_whether_a_journal_is_written_keeps_no_writer_out(tmp_path: Path) -> None:
    journal = tmp_path / "j"
    assert not is_being_written(journal)
    os.mkfifo(tmp_path / "pipe")
    assert not is_being_written(tmp_path / "pipe")
    with Journal(journal):
        assert is_being_written(journal)
    assert not is_being_written(journal)
    # Held for a part of a second, as by many who ask at once, the lock is waited for.
    with journal.open("rb") as asking:
        assert try_lock(asking)
        timer = threading.Timer(0.08, asking.close)
        timer.start()
        with Journal(journal):
            pass
        timer.join()
