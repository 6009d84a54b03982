"""A server that lies, and a run against it: ``python -m tests.models.api.lying_server`` prints the table of all lies.

Each run is a process of its own, forked from one with everything imported, so that its peak memory is its own. Waits
between attempts take no time in it.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import re
import socketserver
import sqlite3
import sys
import tempfile
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.models.api.lies import CALLS, EPISODES, KEY, LIES, Exchange, Lie
from tests.models.api.servers import digest, prompt_of, written

PRICES = ("-E", "price-in=1", "-E", "price-out=10")
MAX_COST = 0.38
"""Four calls of four images and 2,048 tokens out are at most 0.09 each."""


class LyingServer(socketserver.ThreadingTCPServer):
    """Lies in response to every chat completion; ``requests`` counts them."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, lie: Lie) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.lie, self.requests, self._lock = lie, 0, threading.Lock()

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def next_number(self) -> int:
        """Count a request."""
        with self._lock:
            self.requests += 1
            return self.requests - 1

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that has read enough hangs up."""


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        first, fields = self.rfile.readline().decode(), {}
        while (line := self.rfile.readline().decode().strip()) != "":
            name, _, value = line.partition(":")
            fields[name.lower()] = value.strip()
        content = self.rfile.read(int(fields.get("content-length", 0)))
        key = fields.get("authorization", "").removeprefix("Bearer ")
        if not first:
            return  # a connection that was given up before anything was sent on it
        server = self.server
        assert isinstance(server, LyingServer)
        if first.startswith("GET"):
            # The list of models repeats the key too: it must not reach the protocol.
            card = {"id": "tiny", "revision": f"r1 {key}", "root": key}
            reply = json.dumps({"data": [card]}).encode()
            self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(reply) + reply)
            return
        exchange = Exchange(server.next_number(), _completion(json.loads(content)), key)
        with contextlib.suppress(OSError):
            for piece in server.lie.respond(exchange):
                self.wfile.write(piece)


def _completion(asked: dict[str, Any]) -> dict[str, Any]:
    prompt = prompt_of(asked)
    message = {"role": "assistant", "content": written(prompt, digest(prompt))}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"choices": [choice], "usage": {"prompt_tokens": 200, "completion_tokens": 30}}


@contextmanager
def lying(lie: Lie) -> Iterator[LyingServer]:
    """Serve a lie on a free port of this machine."""
    with LyingServer(lie) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@dataclass(frozen=True)
class Outcome:
    """What a run against a lying server came to.

    Attributes:
        codes: Exit codes of ``judge``, ``metrics`` and ``report``.
        printed: All that was printed.
        memory: Peak memory of the process, in bytes.
        requests: How many requests the server got.
        states: State and cost of each attempt, as the run recorded it.
        errors: Error of each episode that has one.
        folder: Where run, cache and page are.
    """

    codes: list[int]
    printed: str
    memory: int
    requests: int
    states: list[tuple[str, float]]
    errors: list[str]
    folder: Path

    @property
    def cost(self) -> float:
        """The money that the run recorded."""
        return sum(cost or 0.0 for _, cost in self.states)

    @property
    def run(self) -> Path:
        """The run folder."""
        return self.folder / "run"


def run_against(lie: Lie, videos: Path, folder: Path) -> Outcome:
    """Judge the videos with a lying server, read the run, and make a page of it."""
    folder.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.models.api.lying_imports"])
    with lying(lie) as server:
        child = context.Process(target=_commands, args=(server.url, lie.judge, lie.options, videos, folder))
        child.start()
        child.join(300)
        assert child.exitcode == 0, f"the run did not end, or ended with {child.exitcode}"
        requests = server.requests
    found = json.loads((folder / "found.json").read_text())
    printed = (folder / "stdout").read_text("utf-8") + (folder / "stderr").read_text("utf-8")
    return Outcome(
        found["codes"], printed, found["memory"], requests, _states(folder), found["errors"], folder
    )


def _states(folder: Path) -> list[tuple[str, float]]:
    with contextlib.closing(sqlite3.connect(folder / "run" / "attempts.sqlite")) as db:
        return db.execute("SELECT state, cost FROM attempts ORDER BY id").fetchall()


def _commands(url: str, judge: str, options: tuple[str, ...], videos: Path, folder: Path) -> None:
    """Run the commands; the work of the child."""
    import stamina

    from stepscore.cli.main import run
    from stepscore.runs import open_run

    os.environ |= {
        "OPENAI_API_KEY": KEY,
        "STEPSCORE_CACHE": str(folder / "cache"),
        "NO_COLOR": "1",
        "COLUMNS": "200",
    }
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), number)
    stamina.set_testing(True, attempts=1000, cap=True)
    shape = ("-J", "frames=3") if judge == "gvl" else ("-J", "prefixes=1")
    model = ("--model", "openai-api/tiny", "-M", f"base-url={url}")
    limits = ("--max-calls", str(CALLS), "--max-cost", str(MAX_COST), *PRICES)
    judging = [
        "judge",
        str(videos),
        "--judge",
        judge,
        *shape,
        *model,
        *options,
        *limits,
        "-o",
        str(folder / "run"),
    ]
    Path("/proc/self/clear_refs").write_text(
        "5"
    )  # the peak is that of what follows, not of the forking process
    code = run(judging)
    memory = peak_memory()
    codes = [
        code,
        run(["metrics", str(folder / "run"), "--json"]),
        run(["report", str(folder / "run"), "-o", str(folder / "page")]),
    ]
    errors = [text for text in open_run(folder / "run").judgements().column("error").to_pylist() if text]
    (folder / "found.json").write_text(json.dumps({"codes": codes, "memory": memory, "errors": errors}))


def peak_memory() -> int:
    """Return the most resident memory that this process had, in bytes."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def holding_key(folder: Path) -> list[str]:
    """Return the files below a folder that hold the key or most of it, Parquet and the cache unpacked."""
    import pyarrow.parquet as pq

    parts = [
        KEY.encode(),
        KEY[:12].encode(),
        KEY[-12:].encode(),
        KEY.replace("+", "%2B").replace("/", "%2F").encode(),
    ]
    found = []
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        content = path.read_bytes()
        if path.suffix == ".parquet":
            content += json.dumps(pq.read_table(path).to_pylist(), default=str).encode()
        if path.name == "calls.sqlite":
            with contextlib.closing(sqlite3.connect(path)) as db:
                content += b"".join(
                    zlib.decompress(value) for (value,) in db.execute("SELECT value FROM calls")
                )
        if any(part in content for part in parts):
            found.append(str(path.relative_to(folder)))
    return found


def make_videos(folder: Path) -> Path:
    """Write six videos of a second, each of its own length."""
    from tests.media import write_video

    for number in range(EPISODES):
        write_video(folder / "open the drawer" / f"{number}.mp4", 10 + number, size=(48, 32), fps=10)
    return folder


def main() -> int:
    """Print the table; 1 where a lie did harm."""
    harmed = 0
    print(
        "| the server's lie | exit code | requests | cost | attempts | what the run says | peak memory | key found |"
    )
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        videos = make_videos(Path(name) / "videos")
        for number, (lie_name, lie) in enumerate(LIES.items()):
            if len(sys.argv) > 1 and sys.argv[1] not in lie_name:
                continue
            found = run_against(lie, videos, Path(name) / str(number))
            states = ", ".join(f"{n} {s}" for s, n in _counted(state for state, _ in found.states).items())
            keys = holding_key(found.folder)
            held = found.requests == len(found.states) <= CALLS and found.cost <= MAX_COST
            harmed += not held or bool(keys) or found.codes[0] != lie.code or any(found.codes[1:])
            cells = [
                *(
                    lie_name,
                    str(found.codes[0]),
                    f"{found.requests} of {CALLS}",
                    f"{found.cost:.4f} of {MAX_COST}",
                ),
                *(states, said(found, lie), f"{found.memory / 2**20:.0f} MB", ", ".join(keys) or "no"),
            ]
            print(f"| {' | '.join(cells)} |", flush=True)
    return int(harmed > 0)


def _counted(states: Iterator[str]) -> dict[str, int]:
    from collections import Counter

    return Counter(states)


def said(found: Outcome, lie: Lie) -> str:
    """Return the line that a user reads about a lie, without what differs from run to run."""
    lines = [line.strip() for line in (*found.printed.splitlines(), *found.errors)]
    line = next((line for line in lines if lie.says in line), "(nothing)")
    line = re.sub(r"http://127.0.0.1:\d+/v1/chat/completions", "URL", line.replace(str(found.folder), "."))
    return line.replace("|", "\\|")[:240]


if __name__ == "__main__":
    sys.exit(main())
