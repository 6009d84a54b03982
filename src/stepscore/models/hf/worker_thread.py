"""One thread that computes, so that the event loop stays free and one model never runs twice at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

Q = TypeVar("Q")
R = TypeVar("R")
T = TypeVar("T")


class WorkerThread(Generic[Q, R]):
    """Answers questions one after another, some of them together.

    Questions that wait while the thread is busy may be answered as one batch, up to ``batch`` of them.

    Args:
        answer: Answers, or the error of each, to questions that may be answered together.
        together: Whether a question may be answered together with others like it.
        batch: Most questions in one go.
    """

    def __init__(
        self,
        answer: Callable[[Sequence[Q]], Sequence[R | Exception]],
        together: Callable[[Q], bool],
        batch: int,
    ) -> None:
        self._answer, self._together, self._batch = answer, together, batch
        self._waiting: deque[tuple[Q, Future[R]]] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="stepscore-model")

    def ask(self, question: Q) -> Future[R]:
        """The answer to come."""
        future: Future[R] = Future()
        self._waiting.append((question, future))
        self._thread.submit(self._next)
        return future

    def run(self, work: Callable[[], T]) -> T:
        """The result of some other work on this thread."""
        return self._thread.submit(work).result()

    def _next(self) -> None:
        taken = self._taken()
        if not taken:
            return  # answered together with an earlier one
        try:
            answers = self._answer([question for question, _ in taken])
        except Exception as error:
            for _, future in taken:
                future.set_exception(error)
            return
        for (_, future), answer in zip(taken, answers, strict=True):
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)

    def _taken(self) -> list[tuple[Q, Future[R]]]:
        """The first question that is still wanted, and others that may be answered with it."""
        taken: list[tuple[Q, Future[R]]] = []
        while self._waiting and len(taken) < self._batch:
            question, future = self._waiting[0]
            if taken and not self._together(question):
                break
            self._waiting.popleft()
            if future.set_running_or_notify_cancel():
                taken.append((question, future))
                if not self._together(question):
                    break
        return taken
