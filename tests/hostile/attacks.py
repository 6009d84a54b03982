"""Clients of the live server that mean no good: a process beside `stepscore view` that meets it, then stops it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ADDRESS = re.compile(rb"http://127\.0\.0\.1:(\d+)/")
HOST = b"Host: localhost\r\n"
VIDEO = b"GET /media/0 HTTP/1.1\r\n" + HOST

SENT: dict[str, Callable[[str], bytes]] = {
    "idle": lambda text: b"",
    "begun": lambda text: b"GET / HTTP/1.1\r\nHost: local",
    "head": lambda text: VIDEO + b"".join(b"x-%d: y\r\n" % number for number in range(50)),
    "long head": lambda text: VIDEO + b"x: " + b"y" * 200_000,
    "body": lambda text: b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 99999999999\r\n\r\nxyz",
    "chunks": lambda text: b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\nfffffff\r\nxy",
    "unread": lambda text: VIDEO + b"\r\n",
    "page": lambda text: b"GET / HTTP/1.1\r\n" + HOST + b"\r\n",
    "pipelined": lambda text: (VIDEO + b"Range: bytes=0-9\r\n\r\n") * 200,
    "range": lambda text: VIDEO + b"Range: " + text.encode("utf-8", "replace")[:4000] + b"\r\n\r\n",
    "bytes": lambda text: bytes.fromhex(text),
    "upgrade": lambda text: (
        b"GET / HTTP/1.1\r\n" + HOST + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    ),
}
"""What a client sends, and then no more; ``text`` is of the try."""

PROBE_S = 30.0


def start_attack(steps: list[dict[str, Any]], files: int, out: Path) -> None:
    """Fork the process of the clients of this one, which is about to serve, then let this one open few files."""
    server = os.getpid()
    if os.fork() == 0:
        try:
            answer = _attack(steps, out)
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        finally:
            with contextlib.suppress(ProcessLookupError):
                out.with_name("attack.json").write_text(json.dumps(answer))
                os.kill(server, signal.SIGINT)
            os._exit(0)
    if files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))


def _attack(steps: list[dict[str, Any]], out: Path) -> str:
    """Be all clients at a time; return what is wrong with how a well-behaved one is answered among them."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    port, held = _port(out), []
    for step in steps:
        for _ in range(step["count"]):
            client = socket.create_connection(("127.0.0.1", port), timeout=PROBE_S)
            held.append(client)
            with contextlib.suppress(OSError):
                client.sendall(SENT[step["how"]](step["text"]))
                if step["hang up"]:
                    client.close()
    return _probe(
        port, may_refuse=any(step["how"] in ("unread", "pipelined", "page", "range") for step in steps)
    )


def _port(out: Path) -> int:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if found := ADDRESS.search(out.read_bytes()):
            return int(found[1])
        time.sleep(0.01)
    raise TimeoutError("the server printed no address")


def _probe(port: int, *, may_refuse: bool) -> str:
    allowed = (200, 206, 503) if may_refuse else (200, 206)
    for target in (b"/", b"/data?version=x", b"/media/0"):
        with socket.create_connection(("127.0.0.1", port), timeout=PROBE_S) as client:
            client.sendall(b"GET " + target + b" HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n")
            head = client.recv(1 << 12)
        status = int(head.split()[1]) if head.startswith(b"HTTP/1.1 ") else 0
        if status not in allowed:
            return f"{target.decode()} was answered with {head[:60]!r}"
    return ""
