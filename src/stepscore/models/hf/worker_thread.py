"""A worker thread, so that the event loop stays free and a model never runs twice at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

Q = TypeVar("Q")
R = TypeVar("R")
T = TypeVar("T")


class WorkerThread(Generic[Q, R]):
    """A thread that answers requests one after another, in the order in which they come.

    Args:
        answer: Returns the result, or the error, of each of several requests.
    """

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
