"""Waiting for other machines: for so many seconds, and no longer than anyone wants the answer."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from stepscore._threads import is_shut_down
from stepscore.errors import VideoError

T = TypeVar("T")

_POLL_S = 0.1
"""Seconds between two looks at whether the answer is still wanted."""


class SlowAnswerError(ValueError):
    """The answer was not complete in time; another attempt would take as long."""


def wait_for_thread(work: Callable[[], T], seconds: float) -> T:
    """Return what ``work`` returns; run it in a thread that is left behind where it takes longer than ``seconds``.

    Raises:
        SlowAnswerError: It took longer.
        VideoError: The pool of this thread was shut down, so nobody wants the answer.
    """
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(work())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=run, name="stepscore-request", daemon=True).start()
    return _result(answer, seconds)


def wait_for_store(filesystem: Any, method: str, *arguments: Any, seconds: float, **options: Any) -> Any:
    """Return what a method of fsspec's file system returns; raise as :func:`wait_for_thread` does.

    Where the file system is asynchronous, a request that took too long is cancelled.
    """
    if not getattr(filesystem, "async_impl", False):
        return wait_for_thread(lambda: getattr(filesystem, method)(*arguments, **options), seconds)
    work = getattr(filesystem, f"_{method}")(*arguments, **options)
    answer = asyncio.run_coroutine_threadsafe(work, filesystem.loop)
    try:
        return _result(answer, seconds)
    finally:
        answer.cancel()  # does nothing to one that is done


def _result(answer: Future[T], seconds: float) -> T:
    end = time.monotonic() + seconds
    while not wait([answer], timeout=_POLL_S).done:
        if is_shut_down():
            raise VideoError("Fetching was interrupted.")
        if time.monotonic() > end:
            raise SlowAnswerError(f"the answer was not complete after {seconds:.0f} s")
    return answer.result()
