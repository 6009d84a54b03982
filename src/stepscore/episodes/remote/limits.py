"""Limits on what another machine may take: seconds, bytes, requests and files.

A store is untrusted: it may send for ever, or nothing, and list files of any size. The limits have no option.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from stepscore._threads import is_shut_down
from stepscore.errors import VideoError

REQUEST_S = 60.0
"""Seconds for a whole answer, repeated attempts of a store's client included; larger answers have longer."""

SLOWEST_BYTES_PER_S = 1 << 16
"""Bytes a second for which an answer has longer."""

RETRYING_S = 900.0
"""Seconds for all attempts of one request to the Hub, which may ask clients to wait for minutes."""

LISTING_S = 600.0
"""Seconds for listing a dataset in a store whose requests cannot be counted."""

LISTING_REQUESTS = 10_000
"""Most requests for listing a dataset in a bucket or on the Hub."""

LISTED_FILES = 2_000_000
"""Most files of a dataset."""

ANSWER_BYTES = 1 << 25
"""Longest answer that is no file: a page of a listing has a megabyte at most."""

ERROR_BYTES = 1 << 16
"""Longest answer that refuses a request."""

META_FILE_BYTES = 1 << 30
"""Largest file of ``meta/``; readers refuse text files over 256 MiB."""

META_BYTES = 1 << 33
"""Most bytes of ``meta/`` and recorded progress, together."""

META_FILES = 20_000
"""Most files of ``meta/`` and recorded progress."""

KEPT_FREE_BYTES = 1 << 30
"""Bytes that fetching leaves free on the disk."""

NAME_BYTES = 200
"""Longest name of a file or folder, in bytes: file systems have 255, and endings are added."""

PATH_BYTES = 1024
"""Longest path of a file in a dataset, in bytes, as in S3."""


def time_for(size: int) -> float:
    """Return the seconds that an answer of ``size`` bytes may take."""
    return REQUEST_S + size / SLOWEST_BYTES_PER_S


T = TypeVar("T")

_POLL_S = 0.1
"""Seconds between two looks at whether the answer is still wanted."""


class SlowAnswerError(ValueError):
    """The answer was not complete in time; another attempt would take as long."""


def wait_for_thread(work: Callable[[], T], seconds: float) -> T:
    """Return what ``work`` returns; run it in a thread that is left behind where it takes longer than ``seconds``.

    Raises:
        SlowAnswerError: It took longer.
        VideoError: The pool of this thread was shut down, so the answer is no longer needed.
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
