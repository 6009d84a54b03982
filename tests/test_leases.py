"""A lease is one process's; of many that take over one wins, and who lost it writes nothing more."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from stepscore import _locks
from stepscore._journals import Lease, LeaseObserver, find_lease, found_leases, is_leased, take_lease
from stepscore._journals import leases as _leases
from stepscore.errors import LeaseLostError, RunError
from stepscore.runs.journal import Journal, is_being_written

WRITE = """
import sys, time
from pathlib import Path
from stepscore.errors import LeaseLostError
from stepscore.runs.journal import Journal
try:
    with Journal(Path(sys.argv[1]), 1.0) as journal:
        print("held", flush=True)
        for number in range(10**6):
            journal.append({"id": f"old {number}"})
            time.sleep(0.002)
except LeaseLostError as error:
    print(error)
"""


def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process take itself for one on another machine."""
    for module in (_leases, found_leases):
        monkeypatch.setattr(module, "place", lambda: {"host": "another", "space": ""})


def stalled(lease: Lease) -> None:
    """Let a lease be renewed no more."""
    lease._stop.set()
    lease._renewing.join()


def wait_until_over(folder: Path) -> None:
    while is_leased(folder):
        time.sleep(0.05)


def writer(journal: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", WRITE, str(journal)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_lease_is_renewed_while_it_is_held_and_free_when_it_is_given_back(tmp_path: Path) -> None:
    first = take_lease(tmp_path, 3.0)  # renewed every half second; a busy machine may be late by that
    while (held := find_lease(tmp_path)) is not None and held.content["renewed"] < "000000000002":
        time.sleep(0.05)
    first.check()
    assert held is not None
    assert held.age_s < 3.0
    with pytest.raises(RunError, match=f"Another process is writing to .*: process {os.getpid()} on "):
        take_lease(tmp_path, 0.6)
    first.release()
    assert not is_leased(tmp_path)
    second = take_lease(tmp_path, 0.6)
    assert (second.number, second.taken_over) == (2, False)
    assert [path.name for path in tmp_path.iterdir()] == ["lease.000000002.json"]
    with pytest.raises(LeaseLostError):
        first.check()
    second.release()


def test_another_machine_waits_for_a_lease_that_is_not_renewed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = take_lease(tmp_path, 0.6)
    stalled(first)
    elsewhere(monkeypatch)
    said: list[str] = []
    second = take_lease(tmp_path, 0.6, on_wait=said.append)
    assert second.taken_over
    assert len(said) == 1
    assert "If it has died, the lease expires in " in said[0]
    assert not first.holds()
    second.release()


def test_another_machine_is_kept_out_by_one_that_is_renewed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = take_lease(tmp_path, 6.0)  # renewed every second; a busy machine may be late by several
    elsewhere(monkeypatch)
    with pytest.raises(RunError, match="Another process is writing"):
        take_lease(tmp_path, 6.0)
    first.check()
    first.release()


def test_the_lease_of_a_process_that_was_killed_here_is_taken_at_once(tmp_path: Path) -> None:
    process = writer(tmp_path / "journal.jsonl")
    assert is_being_written(tmp_path / "journal.jsonl")
    process.kill()
    process.wait()
    assert not is_being_written(tmp_path / "journal.jsonl")
    started = time.monotonic()
    with Journal(tmp_path / "journal.jsonl", 3600.0) as journal:
        assert journal.lease is not None
        assert journal.lease.taken_over
    assert time.monotonic() - started < 30


def test_no_clock_of_a_machine_matters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lease = take_lease(tmp_path, 60.0)
    for off in (-1e6, 1e6):
        monkeypatch.setattr(time, "time", lambda off=off: off)
        assert is_leased(tmp_path)
    old = time.clock_gettime(time.CLOCK_REALTIME) - 61
    stalled(lease)
    os.utime(tmp_path / "lease.000000001.json", (old, old))
    assert not is_leased(tmp_path)
    lease.release()


def test_of_many_that_take_over_one_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(5):
        stalled(take_lease(tmp_path, 0.5))
        wait_until_over(tmp_path)
        before = find_lease(tmp_path)
        won: list[Lease | None] = []
        together = threading.Barrier(8)

        def race(before: found_leases.Held | None = before, won: list[Lease | None] = won) -> None:
            together.wait()  # noqa: B023 - the threads of this round alone
            won.append(_leases._try_to_take(tmp_path, before, 0.5))

        threads = [threading.Thread(target=race) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        winners = [lease for lease in won if lease is not None]
        assert len(winners) == 1
        winners[0].check()
        winners[0].release()


def test_who_looked_long_ago_does_not_win_later(tmp_path: Path) -> None:
    take_lease(tmp_path).release()
    long_ago = find_lease(tmp_path)
    take_lease(tmp_path).release()
    third = take_lease(tmp_path)
    assert _leases._try_to_take(tmp_path, long_ago, 60.0) is None
    third.check()
    assert [path.name for path in tmp_path.iterdir()] == ["lease.000000003.json"]
    third.release()


def test_a_stalled_owner_writes_nothing_after_another_has_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    process = writer(path)
    try:
        while path.stat().st_size < 1000:
            time.sleep(0.01)
        process.send_signal(signal.SIGSTOP)
        with pytest.raises(RunError, match="Another process is writing"), Journal(path, 1.0):
            pass
        wait_until_over(tmp_path)
        kept = path.read_bytes()
        with Journal(path, 1.0) as journal:
            journal.append({"id": "new 1"})
            process.send_signal(signal.SIGCONT)
            said, _ = process.communicate(timeout=60)
            journal.append({"id": "new 2"})
        assert process.returncode == 0
        assert said.startswith("Another process has taken over")
    finally:
        process.kill()
        process.wait()
    whole = kept[: kept.rfind(b"\n") + 1]
    assert path.read_bytes() == whole + b'{"id":"new 1"}\n{"id":"new 2"}\n'
    assert [json.loads(line)["id"] for line in whole.splitlines()] == [
        f"old {n}" for n in range(whole.count(b"\n"))
    ]


def test_a_line_that_was_checked_before_and_written_after_the_takeover_is_not_seen(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path, 0.5) as old:
        old.append({"id": "old"})
        assert old.lease is not None
        assert old._file is not None
        stalled(old.lease)
        wait_until_over(tmp_path)
        with Journal(path, 0.5) as new:
            old._file.file.write(b'{"id":"late"}\n')
            new.append({"id": "new"})
            assert path.read_bytes() == b'{"id":"old"}\n{"id":"new"}\n'
            with pytest.raises(LeaseLostError):
                old.append({"id": "later"})
    assert path.read_bytes() == b'{"id":"old"}\n{"id":"new"}\n'


def test_without_locks_a_journal_is_leased(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(descriptor: int, *, wait: bool) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(_locks, "_lock", no_locks)
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        assert journal.lease is not None
        journal.append({"id": "e"})
        assert is_being_written(path)
        with pytest.raises(RunError, match="Another process is writing"), Journal(path):
            pass
    assert not is_being_written(path)


@pytest.mark.parametrize(
    ("mount", "local"),
    [
        ("nfs server:/x rw,vers=3,nolock,local_lock=all,addr=192.0.2.1", True),
        ("nfs4 server:/x rw,vers=4.2,local_lock=none,addr=192.0.2.1", False),
        ("nfs server:/x rw,vers=3,local_lock=flock", True),
        ("nfs server:/local_lock=all rw,vers=3", False),
        ("lustre server:/x rw,localflock", True),
        ("fuse.sshfs user@server:/x rw,user_id=0", True),
        ("ext4 /dev/root rw", False),
    ],
)
def test_where_locks_stay_on_one_machine_a_journal_is_leased(
    mount: str, local: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = os.stat(tmp_path).st_dev
    line = f"43 27 {os.major(device)}:{os.minor(device)} / /mnt rw,relatime shared:1 - {mount}\n"
    read_text = Path.read_text

    def read(path: Path, **options: str) -> str:
        return line if str(path) == "/proc/self/mountinfo" else read_text(path, **options)

    monkeypatch.setattr(Path, "read_text", read)
    with Journal(tmp_path / "journal.jsonl") as journal:
        assert (journal.lease is not None) == local


def test_a_plain_start_respects_a_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lease = take_lease(tmp_path, 60.0)
    with pytest.raises(RunError, match="Another process is writing"), Journal(tmp_path / "journal.jsonl"):
        pass
    lease.release()
    with Journal(tmp_path / "journal.jsonl") as journal:
        assert journal.lease is None


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"term_s": 1e300, "pid": "x"}', '{"term_s": null}', "\x00" * 9000]
)
def test_a_lease_that_cannot_be_read_ends_as_any_other(text: str, tmp_path: Path) -> None:
    path = tmp_path / "lease.000000007.json"
    path.write_text(text)
    assert is_leased(tmp_path)
    os.utime(path, (1.0, 1.0))
    lease = take_lease(tmp_path)
    assert (lease.number, lease.taken_over) == (8, True)
    lease.release()


def dated_ahead(folder: Path, content: str = "") -> Path:
    """Make a lease of another machine, in a folder, with a time a day ahead."""
    path = folder / "lease.000000003.json"
    path.write_text(content or '{"host": "another", "pid": 1, "space": "", "term_s": 0.5, "renewed": NaN}')
    os.utime(path, (time.time() + 86_400,) * 2)
    return path


def test_a_lease_with_a_time_in_the_future_is_over_after_its_term(tmp_path: Path) -> None:
    dated_ahead(tmp_path)
    said: list[str] = []
    lease = take_lease(tmp_path, on_wait=said.append)
    assert (lease.number, lease.taken_over) == (4, True)
    assert [re.findall(r"the lease expires in (\d+) s", line) for line in said] in ([["0"]], [["1"]])
    lease.release()


def test_the_term_of_a_lease_from_the_future_is_of_the_monotonic_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = dated_ahead(tmp_path, "{}")
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    observer = LeaseObserver(tmp_path)
    for now, leased in ((1000.0, True), (1059.0, True), (1061.0, False)):  # noqa: B007 - read by the clock
        assert is_leased(tmp_path, observer) == leased
    path.write_text('{"renewed": 1}')
    os.utime(path, (time.time() + 86_400,) * 2)
    assert is_leased(tmp_path, observer)


def test_a_lease_from_the_future_that_is_renewed_keeps_others_out(tmp_path: Path) -> None:
    lease = take_lease(tmp_path, 6.0)  # renewed every second; a busy machine may be late by several
    stop = threading.Event()

    def date_ahead() -> None:
        while not stop.wait(0.01):
            os.utime(tmp_path / "lease.000000001.json", (time.time() + 86_400,) * 2)

    dating = threading.Thread(target=date_ahead)
    dating.start()
    with pytest.raises(RunError, match="Another process is writing"):
        take_lease(tmp_path, 0.6)
    stop.set()
    dating.join()
    lease.check()
    lease.release()


@pytest.mark.parametrize("kind", ["pipe", "folder", "link to a device", "broken link"])
def test_what_is_no_regular_file_is_no_lease(kind: str, tmp_path: Path) -> None:
    first = take_lease(tmp_path)
    path = tmp_path / "lease.000000007.json"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero" if kind == "link to a device" else "nowhere")
    with pytest.raises(RunError, match="Another process is writing"):
        take_lease(tmp_path)
    first.release()
    assert not is_leased(tmp_path)
    second = take_lease(tmp_path)
    assert second.number == 8
    assert not first.holds()
    second.release()


def test_a_pipe_in_the_place_of_a_held_lease_has_lost_it(tmp_path: Path) -> None:
    lease = take_lease(tmp_path)
    path = tmp_path / "lease.000000001.json"
    path.unlink()
    os.mkfifo(path)
    assert not lease.holds()
    lease.release()


def test_after_the_highest_number_no_lease_is_taken(tmp_path: Path) -> None:
    (tmp_path / "lease.999999999.json").write_text('{"released": 1}')
    with pytest.raises(RunError, match="highest possible number"):
        take_lease(tmp_path)
