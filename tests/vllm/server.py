"""A real vLLM, started from an environment of its own on a free port of this machine, killed and started again."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

START_S = 900.0
"""Seconds within which a server must answer; on two busy cores it took one to five minutes."""
LIMITS = {
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GB
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
}
OPTIONS = (
    *("--dtype", "float32"),
    "--enforce-eager",
    "--enable-prompt-tokens-details",
    *("--generation-config", "vllm"),
    *("--max-model-len", "4096"),
    *("--max-num-seqs", "8"),
    # All prompts at once: in 0.32.0 a request with a seed whose prompt is computed in parts ends the engine on a CPU.
    *("--max-num-batched-tokens", "32768"),
)


@dataclass
class VllmServer:
    """A server process.

    Attributes:
        python: The Python of the environment that vLLM is installed in.
        checkpoint: The checkpoint folder it serves, under its folder's name.
        log: File of its output.
        options: Further options of the command line.
    """

    python: Path
    checkpoint: Path
    log: Path
    options: Sequence[str] = ()
    port: int = 0
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def model(self) -> str:
        """The model string."""
        return f"vllm/{self.checkpoint.name}"

    @property
    def url(self) -> str:
        """The address before ``/chat/completions``."""
        return f"http://127.0.0.1:{self.port}/v1"

    def start(self, *, wait: bool = True) -> None:
        """Start it, on the same port each time."""
        self.port = self.port or free_port()
        command = [str(self.python), "-m", "vllm.entrypoints.openai.api_server"]
        command += ["--model", str(self.checkpoint), "--served-model-name", self.checkpoint.name]
        command += ["--host", "127.0.0.1", "--port", str(self.port), *OPTIONS, *self.options]
        with self.log.open("ab") as output:
            # A session of its own: its engine is another process, and is killed with it.
            self._process = subprocess.Popen(
                command, stdout=output, stderr=output, env=os.environ | LIMITS, start_new_session=True
            )
        if wait:
            self.wait()

    def wait(self) -> None:
        """Wait until it answers."""
        assert self._process is not None
        end = time.monotonic() + START_S
        while time.monotonic() < end:
            if self._process.poll() is not None:
                break
            try:
                if httpx2.get(f"http://127.0.0.1:{self.port}/health", timeout=5).status_code == 200:
                    return
            except httpx2.HTTPError:
                time.sleep(0.5)
        tail = self.log.read_text(errors="replace")[-3000:]
        self.kill()
        raise AssertionError(f"vLLM did not start within {START_S:.0f} s; the end of {self.log}:\n{tail}")

    def kill(self) -> None:
        """Kill it at once, with its engine, as a machine that is switched off."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def answered(self) -> int:
        """Return the number of chat requests that it answered with 200 since the log began."""
        text = self.log.read_text(errors="replace")
        return len(re.findall(r'"POST /v1/chat/completions HTTP/1\.1" 200', text))

    def counters(self) -> dict[str, float]:
        """Return the counters of ``/metrics`` by name, labels left out."""
        text = httpx2.get(f"http://127.0.0.1:{self.port}/metrics", timeout=20).text
        found: dict[str, float] = {}
        for name, value in re.findall(r"(?m)^(vllm:[a-z_]+_total)\{[^}]*\} (\S+)$", text):
            found[name] = found.get(name, 0.0) + float(value)
        return found

    def computed(self) -> int:
        """Return the prompt tokens that it computed since it started: all less those in its prefix cache."""
        counts = self.counters()
        return int(counts["vllm:prefix_cache_queries_total"] - counts["vllm:prefix_cache_hits_total"])


def free_port() -> int:
    """Return a port of this machine that nobody listens on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@contextmanager
def served(python: Path, checkpoint: Path, folder: Path, *options: str) -> Iterator[VllmServer]:
    """Serve a checkpoint with the template of ``stepscore chat-template``; kill the server at the end."""
    from typer.testing import CliRunner

    from stepscore.cli.app import app

    template = folder / f"{checkpoint.name}.jinja"
    written = CliRunner().invoke(app, ["chat-template", str(checkpoint), "-o", str(template)])
    assert written.exit_code == 0, written.output
    log = folder / f"{checkpoint.name}.log"
    server = VllmServer(python, checkpoint, log, ("--chat-template", str(template), *options))
    try:
        server.start()
        yield server
    finally:
        server.kill()
