"""Clients that wait, trickle, read nothing or come in hundreds cost the live server no one else."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest
import uvicorn
from uvicorn.server import ServerState

from stepscore.episodes import open_episodes
from stepscore.errors import OptionError
from stepscore.judges import get_judge
from stepscore.runs import score
from stepscore.server import LivePage, connections
from stepscore.server.connections import LimitedConnection, most_connections
from stepscore.server.serving import _one_line_logs, bind, serve_on
from tests.media import write_video
from tests.server.test_clients import TEMPLATE, times_open

MOST = 12
NEVER = 3600.0
WAIT_S = 120.0
"""A test that waits longer has failed; a busy machine makes a sound server take many times its usual time."""
GET = b"GET /media/0 HTTP/1.1\r\nHost: localhost\r\n"


class Served:
    """A server in a thread, and what it warned of."""

    def __init__(self, live: LivePage, video: Path) -> None:
        self.video, self.warnings, self._servers = video, list[str](), list[object]()
        self._listening = bind(0)
        self.port = self._listening.getsockname()[1]
        serving = serve_on(self._listening, live, MOST, self._servers.append)
        self._thread = threading.Thread(target=self._run, args=(serving,), daemon=True)

    def _run(self, serving: object) -> None:
        with _one_line_logs(self.warnings.append):
            asyncio.run(serving)  # type: ignore[arg-type]

    def __enter__(self) -> Served:
        self._thread.start()
        until(lambda: bool(self._servers) and self._servers[0].started)  # type: ignore[attr-defined]
        return self

    def __exit__(self, *error: object) -> None:
        self._servers[0].should_exit = True  # type: ignore[attr-defined]
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive(), "the server waits for a client"

    @property
    def open(self) -> list[LimitedConnection]:
        """Its connections."""
        limits = self._servers[0].config.http.keywords["limits"]  # type: ignore[attr-defined]
        return list(limits._open)

    def connect(self, sent: bytes = b"") -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S)
        connection.sendall(sent)
        return connection

    def ask(self, *lines: str) -> tuple[int, bytes]:
        end = "".join(f"{line}\r\n" for line in (*lines, "Connection: close", "")).encode()
        with self.connect(GET + end) as connection:
            head, _, body = read_all(connection).partition(b"\r\n\r\n")
        return int(head.split()[1]), body


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def read_all(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def is_closed(connection: socket.socket) -> bool:
    """Return whether the server has closed a connection, without waiting for it."""
    connection.setblocking(False)
    try:
        return connection.recv(1 << 20) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    finally:
        connection.setblocking(True)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> tuple[LivePage, Path]:
    folder = tmp_path_factory.mktemp("limits")
    video = folder / "in" / "a.mp4"
    write_video(video, 6)
    with video.open("ab") as file:  # more than the buffers of a connection hold
        file.write((20 << 20).to_bytes(4, "big") + b"free" + bytes((20 << 20) - 8))
    run = score(open_episodes(folder / "in"), get_judge("linear-time"), folder / "run").path
    live = LivePage([run], template=TEMPLATE)
    live.page()
    return live, video


def limit_waits(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let the server wait so long for clients: a short time only while none is to be waited for."""
    for name in ("REQUEST_S", "STALL_S", "STALL_AT_LIMIT_S", "KEEP_ALIVE_S"):
        monkeypatch.setattr(connections, name, seconds)


@pytest.fixture
def served(live: tuple[LivePage, Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    limit_waits(monkeypatch, NEVER)
    monkeypatch.setattr(connections, "TICK_S", 0.05)
    with Served(*live) as served:
        yield served


@pytest.mark.parametrize(
    ("begun", "more"),
    [
        (b"", b""),
        (b"", b"\r\n"),
        (GET, b""),
        (GET, b"x: y\r\n"),
        (b"GET /none HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999\r\n\r\n", b"x"),
    ],
    ids=["nothing", "empty lines", "half a head", "a head without end", "a body without end"],
)
def test_a_request_that_does_not_end_is_ended(
    served: Served, begun: bytes, more: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served.connect(begun) as connection:
        limit_waits(monkeypatch, 0.3)
        end = time.monotonic() + WAIT_S
        while not is_closed(connection):
            assert time.monotonic() < end
            try:
                connection.sendall(more)
            except ConnectionError:
                break
            time.sleep(0.03)
    limit_waits(monkeypatch, NEVER)
    assert served.ask()[0] == 200


def test_a_client_that_reads_nothing_is_cut_off_and_its_file_closed(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served.connect(GET + b"\r\n") as connection:
        until(lambda: times_open(served.video) == 1)
        limit_waits(monkeypatch, 0.3)
        until(lambda: times_open(served.video) == 0)
        assert len(read_all(connection)) < served.video.stat().st_size


def test_a_client_that_takes_something_of_a_response_is_waited_for(served: Served) -> None:
    asked = GET + b"Range: bytes=1000000-19999999\r\nConnection: close\r\n\r\n"
    with served.connect(asked) as connection:
        until(lambda: [one.transport.get_write_buffer_size() > 0 for one in served.open] == [True])
        (one,) = served.open
        first, received = one.since, b""
        while len(received) < 18_000_000:  # more than the buffers of both ends hold
            received += connection.recv(1 << 16)
        assert one.since > first
        received += read_all(connection)
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 206")
    assert body == served.video.read_bytes()[1_000_000:20_000_000]


def test_a_client_is_waited_for_though_as_much_of_the_response_waits_at_every_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, limits = 0.0, connections.Connections(1, lambda: None)
    config = uvicorn.Config(print, log_config=None)
    one = LimitedConnection(config, ServerState(), {}, SimpleNamespace(time=lambda: now), limits=limits)
    one.transport = SimpleNamespace(get_write_buffer_size=lambda: 1 << 17)  # type: ignore[assignment]
    one.flow = SimpleNamespace(resume_writing=lambda: None)  # type: ignore[assignment]
    for _ in range(100):
        now += connections.STALL_S / 2
        one.resume_writing()
        assert not one.is_overdue(now)
    assert not one.is_overdue(now + connections.STALL_S)
    assert one.is_overdue(now + connections.STALL_S + 1)


def test_a_request_begins_to_be_waited_for_when_the_last_one_is_answered(served: Served) -> None:
    with served.connect() as connection:
        since = 0.0
        for _ in range(3):
            connection.sendall(GET + b"Range: bytes=0-9\r\n\r\n")
            received = b""
            while not received.endswith(served.video.read_bytes()[:10]):
                received += connection.recv(1 << 16)
            assert received.startswith(b"HTTP/1.1 206")
            until(lambda last=since: [one.since > last for one in served.open] == [True])  # type: ignore[misc]
            since = served.open[0].since


def test_idle_connections_by_the_hundred_keep_nobody_out(served: Served) -> None:
    before = len(os.listdir("/dev/fd"))
    with ExitStack() as stack:
        idle = [stack.enter_context(served.connect()) for _ in range(300)]
        assert served.ask("Range: bytes=0-9") == (206, served.video.read_bytes()[:10])
        until(lambda: sum(map(is_closed, idle)) >= 300 - MOST)
        assert len(os.listdir("/dev/fd")) <= before + 300 + MOST + 8
    assert served.warnings == []


def test_where_all_are_busy_a_further_one_is_refused_in_words_and_one_line(served: Served) -> None:
    with ExitStack() as stack:
        for _ in range(MOST):
            stack.enter_context(served.connect(GET + b"\r\n"))
        until(lambda: times_open(served.video) == MOST)
        answers = [served.ask() for _ in range(20)]
    assert answers == [(503, b"Too many connections.\n")] * 20
    assert served.warnings == ["All 12 connections are in use. Further ones are refused with status 503."]
    until(lambda: times_open(served.video) == 0)
    assert served.ask("Range: bytes=0-9")[0] == 206


def test_clients_that_read_nothing_make_room_at_the_limit(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        for _ in range(MOST):
            stack.enter_context(served.connect(GET + b"\r\n"))
        until(lambda: times_open(served.video) == MOST)
        monkeypatch.setattr(connections, "STALL_AT_LIMIT_S", 0.3)
        until(lambda: served.ask("Range: bytes=0-9")[0] == 206)
        until(lambda: times_open(served.video) == MOST - 1)


def test_what_is_no_http_is_one_line_however_often_it_comes(served: Served) -> None:
    for _ in range(30):
        with served.connect(b"\x16\x03\x01\x02\x00 nonsense\r\n\r\n") as connection:
            assert b" 400 " in read_all(connection)
    assert served.warnings == ["Invalid HTTP request received."]


def test_a_server_ends_although_a_client_reads_nothing(live: tuple[LivePage, Path]) -> None:
    with Served(*live) as served:
        connection = served.connect(GET + b"\r\n")
        until(lambda: times_open(served.video) == 1)
    connection.close()


def test_connections_fit_into_the_files_that_may_be_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def limit(files: int) -> int:
        monkeypatch.setattr(resource, "getrlimit", lambda which: (files, files))
        return most_connections()

    used = len(os.listdir("/dev/fd"))
    assert limit(100_000) == limit(resource.RLIM_INFINITY) == 128
    assert 4 <= limit(used + 60) <= 8
    with pytest.raises(OptionError, match=r"may have 8 files open; the server needs .*ulimit -n"):
        limit(8)


SCRIPT = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (80, 80))
from stepscore.cli.main import main
main()
"""


def test_the_command_serves_within_few_open_files(live: tuple[LivePage, Path], tmp_path: Path) -> None:
    run, err = live[1].parent.parent / "run", tmp_path / "err"
    line = [sys.executable, "-c", SCRIPT, "view", str(run), "--port", "0"]
    with err.open("wb") as errors, ExitStack() as stack:
        process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert process.stdout is not None
        try:
            port = int(process.stdout.readline().rstrip("/\n").rpartition(":")[2])
            for number in range(300):
                sent = GET + b"\r\n" if number % 3 == 0 else b""
                client = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=WAIT_S))
                client.sendall(sent)
            with stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)) as client:
                client.sendall(GET + b"Connection: close\r\n\r\n")
                assert client.recv(100).startswith((b"HTTP/1.1 200", b"HTTP/1.1 503"))
        finally:
            process.send_signal(2)
            process.communicate(timeout=WAIT_S)
    assert process.returncode == 0
    assert "Traceback" not in err.read_text()
    assert len(err.read_text().splitlines()) <= 4
