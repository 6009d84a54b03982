"""A lock is held by one process at a time, is gone when the process dies, and its file is never something else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from stepscore._locks import locked, try_lock

HOLD = """
import sys, time
from pathlib import Path
from stepscore._locks import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def holder(path: Path) -> subprocess.Popen[str]:
    """Another process that holds the lock."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_lock_of_another_process_is_seen_and_gone_when_it_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    process = holder(path)
    try:
        with path.open("rb") as file:
            assert not try_lock(file)
            process.send_signal(signal.SIGKILL)
            process.wait()
            assert try_lock(file)
    finally:
        process.kill()
        process.wait()
    assert path.is_file()  # never removed: another process may wait for it


def test_who_waits_gets_it_when_it_is_given_back(tmp_path: Path) -> None:
    path, order = tmp_path / "lock", list[str]()

    def second() -> None:
        with locked(path):
            order.append("second")

    with locked(path):
        waiting = threading.Thread(target=second)
        waiting.start()
        time.sleep(0.1)
        order.append("first")
    waiting.join(30)
    assert order == ["first", "second"]


def test_an_error_inside_gives_it_back(tmp_path: Path) -> None:
    def fail() -> None:
        with locked(tmp_path / "lock"):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with (tmp_path / "lock").open("rb") as file:
        assert try_lock(file)


@pytest.mark.parametrize("kind", ["pipe", "link", "folder", "no folder"])
def test_what_is_no_file_of_its_own_is_an_os_error_and_nobody_waits(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "lock"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(tmp_path / "elsewhere")
    elif kind == "folder":
        path.mkdir()
    else:
        path = tmp_path / "none" / "lock"
    with pytest.raises(OSError), locked(path):  # noqa: PT011 - which one depends on the system
        pass
    assert not (tmp_path / "elsewhere").exists()
