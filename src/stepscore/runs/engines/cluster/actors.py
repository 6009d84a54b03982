"""The actors of a run on Ray: one judges episodes, one holds a model. Ray itself is not imported here.

Results are returned, never raised: Ray would wrap an error in one of its own.
"""

from __future__ import annotations

import asyncio
import os
import pickle
from collections.abc import Sequence
from typing import Any

from stepscore._local_modules import import_local_modules
from stepscore.errors import exits_as_errors
from stepscore.models import Model, Request, Response, guarded
from stepscore.runs.engines.messages import Unable
from stepscore.runs.engines.worker import EpisodeWorker, answers, sendable


class EpisodeActor:
    """Judges episodes: a worker whose messages are fetched by the driver.

    Args:
        packed: Modules of the user's own files, then the judge and its views; see ``packed_judge``.
        at_a_time: Groups in work at a time.
    """

    def __init__(self, packed: Sequence[bytes], at_a_time: int) -> None:
        limit_threads()
        self._packed, self._at_a_time = packed, at_a_time
        self._posted: asyncio.Queue[bytes] = asyncio.Queue()
        self._worker: EpisodeWorker | None = None

    async def begin(self) -> None:
        """Load the judge."""
        loop = asyncio.get_running_loop()

        def post(content: bytes) -> None:
            loop.call_soon_threadsafe(self._posted.put_nowait, content)

        try:
            with exits_as_errors():
                import_local_modules(pickle.loads(self._packed[0]))
                judge, views = pickle.loads(self._packed[1])
                self._worker = EpisodeWorker(judge, views, self._at_a_time, post)
        except Exception as error:  # a judge is anyone's code
            post(pickle.dumps(Unable(f"{type(error).__name__}: {error}")))
            return
        self._worker.start()

    async def deliver(self, messages: Sequence[bytes]) -> None:
        """Take messages of the driver."""
        assert self._worker is not None
        for message in messages:
            self._worker.deliver(pickle.loads(message))

    async def take(self) -> list[bytes]:
        """Return the messages for the driver, as soon as there is one."""
        messages = [await self._posted.get()]
        while not self._posted.empty():
            messages.append(self._posted.get_nowait())
        return messages

    async def decode(self, ask: int, request: Request) -> tuple[Exception | None, Request | None]:
        """Return why a request cannot be decoded, else ``None``, and the request with its frames."""
        assert self._worker is not None
        try:
            with guarded():
                return None, await self._worker.decode_asked(ask, request)
        except Exception as error:  # a view is anyone's code
            return sendable(error), None


class ModelActor:
    """Holds the weights of a model, or the connections to a server, and answers decoded requests."""

    def __init__(self, packed: Sequence[bytes]) -> None:
        limit_threads()
        with exits_as_errors():
            import_local_modules(pickle.loads(packed[0]))
            self._model: Model = pickle.loads(packed[1])

    async def ready(self) -> None:
        """Return when the actor is there."""

    async def answer(self, *decoded: Request) -> list[Response | Exception]:
        """Return the response to each request, or why there is none; several are answered in one pass."""
        return await answers(self._model, decoded)


def limit_threads() -> None:
    """Limit matrix products of this process to the CPUs that Ray gave it, unless the user set a number."""
    # Ray sets it to them; libraries that were loaded before have not read it.
    threads = os.environ.setdefault("OMP_NUM_THREADS", "1")
    if threads.isdecimal() and int(threads) > 0:
        _limit_loaded(int(threads))


def _limit_loaded(threads: int) -> Any:
    from threadpoolctl import threadpool_limits

    return threadpool_limits(threads)
