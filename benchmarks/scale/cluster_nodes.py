"""A Ray cluster of several nodes on this machine, whose processes can be found, killed and frozen.

A node is what ``ray start`` starts: a raylet, its agents and workers, with an address of its own on loopback
(127.0.0.2 and on) and CPUs of its own. All its processes have a mark in their environment.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

_MARK = "STEPSCORE_NODE"
_OBJECT_STORE_BYTES = 100_000_000


class ClusterNodes:
    """Nodes of a cluster; the first is its head and is never lost.

    Args:
        folder: Where Ray keeps its logs and sockets; a short path.
        count: Number of nodes to begin with.
        cpus: CPUs of each.
    """

    def __init__(self, folder: Path, count: int, cpus: int = 1) -> None:
        self._folder, self._cpus, self._mark = folder, cpus, secrets.token_hex(8)
        self._last = 1
        with socket.socket() as free:
            free.bind(("127.0.0.2", 0))
            self.address = f"127.0.0.2:{free.getsockname()[1]}"
        self._count = count

    def __enter__(self) -> ClusterNodes:
        try:
            for _ in range(self._count):
                self.add()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all nodes."""
        for number in range(2, self._last + 1):
            self.kill(number)

    def add(self) -> int:
        """Start a node, and return its number, which is the last of its address."""
        self._last += 1
        if self._last == 2:
            port = self.address.rpartition(":")[2]
            where = [
                "--head",
                "--port",
                port,
                "--temp-dir",
                str(self._folder),
                "--include-dashboard",
                "false",
            ]
        else:
            where = ["--address", self.address]
        line = [sys.executable, "-m", "ray.scripts.scripts", "start", *where, "--disable-usage-stats"]
        line += ["--node-ip-address", f"127.0.0.{self._last}", "--num-cpus", str(self._cpus)]
        line += ["--object-store-memory", str(_OBJECT_STORE_BYTES)]
        marked = {**os.environ, _MARK: f"{self._mark}-{self._last}-"}
        done = subprocess.run(line, env=marked, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"ray start failed: {done.stdout}{done.stderr}")
        return self._last

    def processes(self, number: int | None = None, name: str = "") -> list[int]:
        """Return the processes of a node, or of all, whose command has this in it."""
        mark = f"{self._mark}-{'' if number is None else f'{number}-'}".encode()
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (
                    mark in (path / "environ").read_bytes()
                    and name.encode() in (path / "cmdline").read_bytes()
                ):
                    found.append(int(path.name))
        return sorted(found)

    def signal(self, processes: list[int], kind: signal.Signals) -> int:
        """Send a signal to processes, and return to how many."""
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, kind)
        return len(processes)

    def kill(self, number: int) -> None:
        """Kill all processes of a node, as where its machine is switched off."""
        while left := self.processes(number):
            self.signal(left, signal.SIGKILL)
            time.sleep(0.05)
