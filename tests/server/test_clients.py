"""Clients that hang up, and runs that are damaged while they are shown: the server goes on with no file left open."""

from __future__ import annotations

import gc
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import uvicorn

from stepscore.episodes import open_episodes
from stepscore.errors import RunError
from stepscore.judges import get_judge
from stepscore.runs import score
from stepscore.server import LivePage, make_app
from stepscore.server.serving import bind
from tests.media import write_video

TEMPLATE = '<script type="application/json" id="stepscore-data">__STEPSCORE_DATA__</script><script>1</script>'
CLIENTS = 60


class Site(NamedTuple):
    port: int
    run: Path
    video: Path

    def connect(self, target: str) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        connection.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        return connection

    def ask(self, target: str) -> tuple[int, bytes]:
        with self.connect(target) as connection:
            received = b"".join(iter(lambda: connection.recv(1 << 16), b""))
        head, _, body = received.partition(b"\r\n\r\n")
        return int(head.split()[1]), body


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    video = tmp_path / "in" / "a.mp4"
    write_video(video, 6)
    with video.open("ab") as file:  # more than the buffers of a connection hold
        file.write((20 << 20).to_bytes(4, "big") + b"free" + bytes((20 << 20) - 8))
    run = score(open_episodes(tmp_path / "in"), get_judge("linear-time"), tmp_path / "run").path
    live = LivePage([run], template=TEMPLATE)
    live.page()
    listening = bind(0)
    server = uvicorn.Server(uvicorn.Config(make_app(live), log_level="critical"))
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield Site(listening.getsockname()[1], run, video)
    server.should_exit = True
    thread.join()
    listening.close()


def times_open(path: Path) -> int:
    """Return how often this process has a file open."""
    found = 0
    for number in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{number}") == str(path)
        except OSError:
            continue
    return found


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="only Linux lists the open files of a process")
def is_closed_soon(video: Path) -> bool:
    deadline = time.monotonic() + 30
    while times_open(video) and time.monotonic() < deadline:
        time.sleep(0.05)
    return times_open(video) == 0


def test_clients_that_hang_up_leave_no_file_open(site: Site) -> None:
    gc.disable()  # files must be closed, not found by chance among the garbage
    try:
        for number in range(CLIENTS):
            connection = site.connect("/media/0")
            if number % 3:  # in the middle of the body; the others before it begins
                assert connection.recv(1 << 12)
            connection.close()
        assert is_closed_soon(site.video)
    finally:
        gc.enable()
    status, body = site.ask("/media/0")
    assert (status, body) == (200, site.video.read_bytes())
    assert is_closed_soon(site.video)  # the client has the last byte before the server closes the file


def test_a_pipe_put_in_the_place_of_a_video_holds_nobody_up(site: Site) -> None:
    site.video.rename(site.video.with_name("kept"))
    os.mkfifo(site.video)
    for _ in range(50):  # more than there are threads
        assert site.ask("/media/0")[0] == 404


def test_a_damaged_journal_is_one_line_and_mended_it_is_the_page_again(site: Site) -> None:
    journal = site.run / "journal.jsonl"
    whole = journal.read_bytes()
    good = site.ask("/")
    assert good[0] == 200
    journal.write_bytes(b"{oops <b>}\n" + whole)
    status, body = site.ask("/")
    assert status == 503
    assert body.decode().startswith(f"{journal}, line 1 is damaged (")
    assert body.count(b"\n") == 1
    assert site.ask("/media/0")[0] == 200
    journal.write_bytes(whole + whole)
    assert site.ask("/")[0] == 200


def test_a_folder_that_is_no_run_is_named_before_anything_is_served(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is not a run folder"):
        LivePage([tmp_path / "nope"], template=TEMPLATE).page()
