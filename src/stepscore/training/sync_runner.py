"""Runs a judge to its end in this thread, thousands of times a minute.

``asyncio.run`` costs milliseconds of set-up: it prepares for Ctrl-C, and a judge that uses a thread starts one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from stepscore.models import run_blocking

T = TypeVar("T")


def run_sync(coroutine: Coroutine[object, object, T]) -> T:
    """Run a coroutine that waits for nothing outside this process, and return its result."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        loop = asyncio.new_event_loop()
        loop.set_default_executor(_InThisThread(1))
        try:
            return loop.run_until_complete(coroutine)
        finally:
            loop.close()
    return run_blocking(coroutine)


class _InThisThread(ThreadPoolExecutor):
    """An executor that calls what is submitted immediately, and never starts a thread."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        done: Future[T] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except BaseException as error:
            done.set_exception(error)
        return done
