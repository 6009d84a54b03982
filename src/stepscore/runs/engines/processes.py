"""The process engine: judges in several processes on this machine, each with a separate model.

A worker is a new Python process, not a fork, because threads and GPU contexts do not survive a fork. Pickled
messages go through the worker's standard input and output. The worker exits when its input closes, that is,
when this process exits. Its side of the protocol is in ``worker_process.py``.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

from stepscore.errors import exits_as_errors
from stepscore.runs.messages import FromWorker, ToWorker
from stepscore.runs.owner import Owner, pickled
from stepscore.runs.remote_worker import pack_work
from stepscore.runs.work import IN_FLIGHT, Work, check_workers

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Environment variables that set the number of threads for matrix products."""

_STOP_S = 5.0
_MAIN = "from stepscore.runs.engines.worker_process import main; main()"


@dataclass(frozen=True)
class ProcessEngine:
    """Judges in ``workers`` processes on this machine.

    With an in-process model, each worker handles two episodes (or groups of episodes) at a time: it decodes
    one while it scores the other.
    """

    workers: int = 2
    name = "processes"

    def run(self, work: Work) -> None:
        """Judge the episodes that are not in the journal; see :class:`stepscore.runs.work.Engine`."""
        check_workers(self.workers)
        at_a_time = IN_FLIGHT if work.judge.models else 1
        Owner(work, ProcessPool(pack_work(work, at_a_time), self.workers), self.workers, at_a_time).run()


class ProcessPool:
    """Starts worker processes that share the machine's cores; ``packed`` is from :func:`pack_work`."""

    def __init__(self, packed: Sequence[bytes], workers: int) -> None:
        threads = str(max(1, (os.cpu_count() or 1) // workers))
        self._first = pickle.dumps(list(packed))
        self._processes: list[ProcessHandle] = []
        # The user's setting takes precedence. Workers get this process's path, so they can import the same modules.
        self._environment = dict.fromkeys(THREAD_VARIABLES, threads) | os.environ
        self._environment["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)

    def start(self, number: int) -> ProcessHandle:
        """Start a worker process."""
        process = ProcessHandle(number, self._environment, self._first)
        self._processes.append(process)
        return process

    def close(self) -> None:
        """End all worker processes."""
        for process in self._processes:
            process.stop()
        for process in self._processes:
            process.wait()


class ProcessHandle:
    """The owner's end of a worker process; create it in a running event loop.

    Two threads read and write, so that a worker that stops reading does not block the others.
    """

    def __init__(self, number: int, environment: dict[str, str], first: bytes) -> None:
        self.number = number
        # A new session, so that Ctrl-C reaches only the owner, which then stops its workers.
        self._process = subprocess.Popen(
            [sys.executable, "-c", _MAIN],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        self._loop = asyncio.get_running_loop()
        self._received: asyncio.Queue[FromWorker | None] = asyncio.Queue()
        self._to_send: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._to_send.put(first)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        for target, stream in ((self._read, self._process.stdout), (self._write, self._process.stdin)):
            threading.Thread(target=target, args=(stream,), name="stepscore-link", daemon=True).start()

    @property
    def end(self) -> str:
        """A description of how the process ended."""
        code = self._process.poll()
        if code is None or code >= 0:
            return f"exit code {code}"
        with suppress(ValueError):
            return f"killed by {signal.Signals(-code).name}"
        return f"killed by signal {-code}"

    def send(self, message: ToWorker) -> None:
        """Send a message; the message is dropped if the process has ended."""
        self._to_send.put(pickled(message))

    async def receive(self) -> Sequence[FromWorker]:
        """Wait for at least one message and return all received; return none if the process has ended."""
        messages = [await self._received.get()]
        while not self._received.empty():
            messages.append(self._received.get_nowait())
        said = [message for message in messages if message is not None]
        if None in messages:
            if said:  # return the last messages first; the next call reports the end
                self._received.put_nowait(None)
            else:
                await asyncio.to_thread(self.wait)
        return said

    def stop(self) -> None:
        """Kill the process."""
        self._to_send.put(None)
        if self._process.poll() is None:
            self._process.kill()

    def wait(self) -> None:
        """Wait until the process has ended; kill it if it only closed its output."""
        self._to_send.put(None)
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _read(self, stream: IO[bytes]) -> None:
        message: FromWorker | None
        with stream, suppress(RuntimeError):  # the event loop is closed, so the messages have no receiver
            while True:
                try:
                    with exits_as_errors():
                        message = pickle.load(stream)
                except Exception:  # the process ended, possibly in the middle of a message
                    message = None
                self._loop.call_soon_threadsafe(self._received.put_nowait, message)
                if message is None:
                    return

    def _write(self, stream: IO[bytes]) -> None:
        with suppress(OSError, ValueError), stream:  # the process ended; the reading thread notices
            while (content := self._to_send.get()) is not None:
                stream.write(content)
                if self._to_send.empty():
                    stream.flush()
