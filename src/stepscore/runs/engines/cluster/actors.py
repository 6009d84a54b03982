"""The actor of a run on Ray: a worker, with its judge's models in its process. Ray itself is not imported here."""

from __future__ import annotations

import asyncio
import os
import pickle
from collections.abc import Sequence
from typing import Any

from stepscore._local_modules import import_local_modules
from stepscore.errors import exits_as_errors
from stepscore.runs.messages import Unable
from stepscore.runs.worker_link import WorkerLink


class EpisodeActor:
    """Judges episodes: a worker whose messages are fetched by the owner.

    Args:
        packed: Modules of the user's own files, then what a worker's link is made of; see ``packed_work``.
    """

    def __init__(self, packed: Sequence[bytes]) -> None:
        limit_threads()
        self._packed = packed
        self._posted: asyncio.Queue[bytes] = asyncio.Queue()
        self._worker: WorkerLink | None = None

    async def begin(self) -> None:
        """Load the judge."""
        loop = asyncio.get_running_loop()

        def post(messages: Sequence[bytes]) -> None:
            for message in messages:
                loop.call_soon_threadsafe(self._posted.put_nowait, message)

        try:
            with exits_as_errors():
                import_local_modules(pickle.loads(self._packed[0]))
                judge, views, options, at_a_time = pickle.loads(self._packed[1])
                self._worker = WorkerLink(judge, views, options, at_a_time, post)
        except Exception as error:  # a judge is anyone's code
            post([pickle.dumps(Unable(f"{type(error).__name__}: {error}"))])
            return
        self._worker.start()

    async def deliver(self, messages: Sequence[bytes]) -> None:
        """Take messages of the owner."""
        assert self._worker is not None
        for message in messages:
            self._worker.deliver(pickle.loads(message))

    async def take(self) -> list[bytes]:
        """Return the messages for the owner, as soon as there is one."""
        messages = [await self._posted.get()]
        while not self._posted.empty():
            messages.append(self._posted.get_nowait())
        return messages


def limit_threads() -> None:
    """Limit matrix products of this process to the CPUs that Ray gave it, unless the user set a number."""
    # Ray sets it to them; libraries that were loaded before have not read it.
    threads = os.environ.setdefault("OMP_NUM_THREADS", "1")
    if threads.isdecimal() and int(threads) > 0:
        _limit_loaded(int(threads))


def _limit_loaded(threads: int) -> Any:
    from threadpoolctl import threadpool_limits

    return threadpool_limits(threads)
