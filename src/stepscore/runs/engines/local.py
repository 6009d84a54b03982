"""The local engine: a worker in the owner's own event loop, with many episodes at a time.

The loop holds the judges' coroutines, so that a judge waiting for a model leaves room for others; what blocks
(opening files, fingerprints) runs in threads. The order of finishing differs from run to run; nothing that is
written depends on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from stepscore._threads import Threads
from stepscore.episodes import Episode
from stepscore.errors import BudgetError, OptionError
from stepscore.models import run_blocking
from stepscore.runs.episode_record import RecordWriter
from stepscore.runs.schedule import episode_groups
from stepscore.runs.work import MAX_WORKERS, Work
from stepscore.runs.worker import Worker

T = TypeVar("T")


@dataclass(frozen=True)
class LocalEngine:
    """Judges in this process, ``workers`` episodes at a time, or groups of them whose requests share passes."""

    workers: int = 1
    name = "local"

    def run(self, work: Work) -> None:
        """Judge what the journal does not hold yet; see :class:`Engine`."""
        writer = RecordWriter(work.journal, work.entries, work.on_done)
        with Threads(max(self.workers, 1), "stepscore") as threads:
            worker = Worker(work.judge, work.views, work.chain, threads)

            async def judge(group: Sequence[tuple[str, Episode]]) -> None:
                outcomes = await worker.judge_group([writer.task(episode) for _, episode in group])
                for outcome in outcomes:
                    if outcome.stopped is None:
                        writer.write(outcome)
                for outcome in outcomes:
                    if outcome.stopped is not None:
                        raise outcome.stopped

            run_episodes(episode_groups(work.episodes, work.judge), judge, self.workers)


def run_episodes(episodes: Iterable[T], work: Callable[[T], Awaitable[None]], workers: int) -> None:
    """Work on episodes, or groups of them, ``workers`` at a time in one event loop.

    Args:
        episodes: Taken one by one in their order, so that a lazy listing stays lazy.
        work: Called with each; it asks models through a :class:`CallChain` and turns what goes wrong
            with one episode into a result (:func:`error_text`).
        workers: Episodes in flight.

    Raises:
        BudgetError: ``work`` raised one. Episodes in flight were finished, no more were begun.
    """
    if not 1 <= workers <= MAX_WORKERS:
        raise OptionError(f"workers is {workers}; it must be 1 to {MAX_WORKERS}.")
    try:
        run_blocking(_run_workers(iter(episodes), work, workers))
    except* Exception as group:
        # The workers run concurrently, so their errors come in a group; the first says enough.
        raise first_error(group) from None


async def _run_workers(episodes: Iterator[T], work: Callable[[T], Awaitable[None]], workers: int) -> None:
    spent: BudgetError | None = None

    async def take_turns() -> None:
        nonlocal spent
        for episode in episodes:
            try:
                await work(episode)
            except BudgetError as error:
                spent = error
            if spent is not None:
                return

    async with asyncio.TaskGroup() as group:
        turns = [group.create_task(take_turns()) for _ in range(workers)]
    for turn in turns:
        turn.result()  # a cancelled one would end the run with episodes that nobody has judged
    if spent is not None:
        raise spent


def first_error(group: ExceptionGroup[Exception]) -> Exception:
    """Return the first error of a group, and of the groups in it."""
    first = group.exceptions[0]
    return first_error(first) if isinstance(first, ExceptionGroup) else first
