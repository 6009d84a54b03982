"""The process engine: several processes of this machine judge, each with a model of its own.

A worker is a new Python process (no fork: threads and GPUs do not survive one). Messages are pickled on its standard
input and output. It ends when this process does: its input ends then. ``worker_process.py`` is its side.
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
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import IO

from stepscore._local_modules import local_modules
from stepscore.errors import OptionError, RunError, exits_as_errors
from stepscore.models.calls import log_wait
from stepscore.runs.messages import FromWorker, ToWorker
from stepscore.runs.owner import Owner, pickled
from stepscore.runs.work import IN_FLIGHT, MAX_WORKERS, Work

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Environment variables that set the number of threads of matrix products."""

_STOP_S = 5.0
_MAIN = "from stepscore.runs.engines.worker_process import main; main()"


@dataclass(frozen=True)
class ProcessEngine:
    """Judges in ``workers`` processes of this machine.

    With a model in process each has two episodes, or groups of them, at a time: one is decoded while one is scored.
    """

    workers: int = 2
    name = "processes"

    def run(self, work: Work) -> None:
        """Judge what the journal does not hold yet; see :class:`stepscore.runs.work.Engine`."""
        if not 1 <= self.workers <= MAX_WORKERS:
            raise OptionError(f"workers is {self.workers}; it must be 1 to {MAX_WORKERS}.")
        at_a_time = IN_FLIGHT if work.judge.models else 1
        Owner(work, ProcessCrew(packed_work(work, at_a_time), self.workers), self.workers, at_a_time).run()


def packed_work(work: Work, at_a_time: int, dumps: Callable[[object], bytes] = pickle.dumps) -> list[bytes]:
    """Return what a worker gets first, pickled: modules of the user's own files, then what its link is made of.

    Args:
        work: The work.
        at_a_time: Groups that each worker works on at a time.
        dumps: Pickles the judge.

    Raises:
        RunError: The judge cannot be pickled.
    """
    options = replace(work.options, on_wait=log_wait)  # a worker says on its own stderr what it waits for
    try:
        with exits_as_errors():
            return [pickle.dumps(local_modules()), dumps((work.judge, work.views, options, at_a_time))]
    except Exception as error:  # pickle raises anything
        raise RunError(
            f"The judge {work.judge.name!r} cannot be sent to another process ({type(error).__name__}: {error}). "
            "Judge in this one: -E engine=local"
        ) from error


class ProcessCrew:
    """Starts worker processes.

    Args:
        first: What each is sent first, from :func:`packed_work`.
        workers: How many there will be, which share the machine's cores.
    """

    def __init__(self, first: Sequence[bytes], workers: int) -> None:
        threads = str(max(1, (os.cpu_count() or 1) // workers))
        self._first = list(first)
        self._links: list[ProcessLink] = []
        # The user's own setting goes first. The path is this process's: what it can import, workers can.
        self._environment = dict.fromkeys(THREAD_VARIABLES, threads) | os.environ
        self._environment["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)

    def start(self, number: int) -> ProcessLink:
        """Start a worker process."""
        link = ProcessLink(number, self._environment, self._first)
        self._links.append(link)
        return link

    def close(self) -> None:
        """End all worker processes."""
        for link in self._links:
            link.stop()
        for link in self._links:
            link.wait()


class ProcessLink:
    """The owner's end of a worker process; to be made in a running event loop.

    Two threads of its own read and write, so that a worker that does not listen stops nobody else.
    """

    def __init__(self, number: int, environment: dict[str, str], first: Sequence[bytes]) -> None:
        self.number = number
        # A session of its own: Ctrl-C is for the owner, which ends its workers.
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
        for content in first:
            self._to_send.put(content)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        for target, stream in ((self._read, self._process.stdout), (self._write, self._process.stdin)):
            threading.Thread(target=target, args=(stream,), name="stepscore-link", daemon=True).start()

    @property
    def end(self) -> str:
        """How the process ended."""
        code = self._process.poll()
        if code is None or code >= 0:
            return f"exit code {code}"
        with suppress(ValueError):
            return f"killed by {signal.Signals(-code).name}"
        return f"killed by signal {-code}"

    def send(self, message: ToWorker) -> None:
        """Send a message; one to a process that has ended is dropped."""
        self._to_send.put(pickled(message))

    async def receive(self) -> Sequence[FromWorker]:
        """Return the messages that have come, at least one; none where the process has ended."""
        messages = [await self._received.get()]
        while not self._received.empty():
            messages.append(self._received.get_nowait())
        said = [message for message in messages if message is not None]
        if None in messages:
            if said:  # what it said before it ended counts; its end is noticed next
                self._received.put_nowait(None)
            else:
                await asyncio.to_thread(self.wait)
        return said

    def stop(self) -> None:
        """End the process at once."""
        self._to_send.put(None)
        if self._process.poll() is None:
            self._process.kill()

    def wait(self) -> None:
        """Wait until the process has ended, and end it where it only closed its output."""
        self._to_send.put(None)
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _read(self, stream: IO[bytes]) -> None:
        message: FromWorker | None
        with stream, suppress(RuntimeError):  # the loop has ended, and nobody waits for messages
            while True:
                try:
                    with exits_as_errors():
                        message = pickle.load(stream)
                except Exception:  # it ended, perhaps in the middle of a message
                    message = None
                self._loop.call_soon_threadsafe(self._received.put_nowait, message)
                if message is None:
                    return

    def _write(self, stream: IO[bytes]) -> None:
        with suppress(OSError, ValueError), stream:  # it has ended; the reading thread says so
            while (content := self._to_send.get()) is not None:
                stream.write(content)
                if self._to_send.empty():
                    stream.flush()
