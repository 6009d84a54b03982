"""A worker thread, so that the event loop stays free and a model never runs twice at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

Q = TypeVar("Q")
R = TypeVar("R")
T = TypeVar("T")


class WorkerThread(Generic[Q, R]):
    """A thread that answers requests one after another, some of them as a batch.

    Requests that wait while the thread is busy may be answered as one batch, up to ``batch`` of them.

    Args:
        answer: Returns the result, or the error, of each request of a batch.
        batchable: Whether a request may be answered in a batch with others.
        batch: Most requests in a batch.
    """

    def __init__(
        self,
        answer: Callable[[Sequence[Q]], Sequence[R | Exception]],
        batchable: Callable[[Q], bool],
        batch: int,
    ) -> None:
        self._answer, self._batchable, self._batch = answer, batchable, batch
        self._waiting: deque[tuple[Q, Future[R]]] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="stepscore-model")

    def submit(self, request: Q) -> Future[R]:
        """Queue a request, and return the future of its result."""
        future: Future[R] = Future()
        self._waiting.append((request, future))
        self._thread.submit(self._next)
        return future

    def run(self, work: Callable[[], T]) -> T:
        """Run other work on this thread, and return its result."""
        return self._thread.submit(work).result()

    def _next(self) -> None:
        taken = self._take_batch()
        if not taken:
            return  # answered in the batch of an earlier one
        try:
            answers = self._answer([request for request, _ in taken])
        except Exception as error:
            for _, future in taken:
                future.set_exception(error)
            return
        for (_, future), answer in zip(taken, answers, strict=True):
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)

    def _take_batch(self) -> list[tuple[Q, Future[R]]]:
        """Take the first request that was not cancelled, and others that may be answered with it."""
        taken: list[tuple[Q, Future[R]]] = []
        while self._waiting and len(taken) < self._batch:
            request, future = self._waiting[0]
            if taken and not self._batchable(request):
                break
            self._waiting.popleft()
            if future.set_running_or_notify_cancel():
                taken.append((request, future))
                if not self._batchable(request):
                    break
        return taken
