"""Event loops for judges and models: started from blocking code, not ended by ``sys.exit()`` in a task."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Generic, TypeVar, cast

from stepscore._threads import Threads
from stepscore.errors import cancel_error, exit_error, exits_as_errors

T = TypeVar("T")


def run_blocking(coroutine: Coroutine[object, object, T]) -> T:
    """Return the result of a coroutine, also where the calling thread already runs a loop (a notebook)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _run(coroutine)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(_run, coroutine).result()


def _run(coroutine: Coroutine[object, object, T]) -> T:
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        loop.set_default_executor(
            Threads(min(32, (os.cpu_count() or 1) + 4), "asyncio")
        )  # asyncio's own number
        guard_tasks(loop)
        return runner.run(coroutine)


@contextmanager
def guarded() -> Iterator[None]:
    """Raise an ExitError in place of a SystemExit of third-party code, or of an unexpected CancelledError.

    A library may cancel its own task and let the error through. Like ``SystemExit``, it is not an ``Exception``: the
    episode would end without a row, and in a worker its judge would wait for the answer without end.
    """
    try:
        with exits_as_errors():
            yield
    except asyncio.CancelledError as error:
        if _is_cancelled():
            raise
        raise cancel_error(error) from error


def _is_cancelled() -> bool:
    """Return whether the task of the caller is being cancelled."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # a thread without a loop
        return False
    return task is not None and task.cancelling() > 0


def guard_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Turn ``sys.exit()`` in a task of a loop into the error of that task; asyncio itself ends the loop.

    A judge or model may start tasks, so guarding the call of its method is not enough.
    """

    def make(
        loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T], **options: Any
    ) -> asyncio.Task[T]:
        return asyncio.Task(_Guarded(coroutine), loop=loop, **options)

    loop.set_task_factory(cast(Any, make))


class _Guarded(Coroutine[Any, Any, T]):
    """A coroutine that raises ExitError instead of SystemExit.

    Not an ``async def``: one that is cancelled before its first step would never await the coroutine inside.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine

    def send(self, value: Any) -> Any:
        try:
            return self._coroutine.send(value)
        except SystemExit as error:
            raise exit_error(error) from error

    def throw(self, *error: Any) -> Any:
        try:
            return self._coroutine.throw(*error)
        except SystemExit as error:
            raise exit_error(error) from error

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Any:
        return self._coroutine.__await__()


Q = TypeVar("Q")
R = TypeVar("R")


class WorkerThread(Generic[Q, R]):
    """A thread that answers requests one after another, in the order in which they come."""

    def __init__(self, answer: Callable[[Sequence[Q]], Sequence[R | Exception]]) -> None:
        self._answer = answer
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="stepscore-model")

    def submit(self, request: Q) -> Future[R]:
        """Queue a request, and return the future of its result."""
        return self._thread.submit(self._answer_one, request)

    def submit_all(self, requests: Sequence[Q]) -> Future[Sequence[R | Exception]]:
        """Queue requests that are answered together, and return the future of their results."""
        return self._thread.submit(self._answer, requests)

    def run(self, work: Callable[[], T]) -> T:
        """Run other work on this thread, and return its result."""
        return self._thread.submit(work).result()

    def _answer_one(self, request: Q) -> R:
        (answer,) = self._answer([request])
        if isinstance(answer, Exception):
            raise answer
        return answer
