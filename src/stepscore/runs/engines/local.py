"""The local engine: a worker in the owner's event loop, with several episodes at a time.

While one judge waits for a model, others continue; opening files and fingerprints runs in threads. Episodes finish in
a different order each time, but no table depends on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from stepscore._threads import Threads
from stepscore.episodes import Episode
from stepscore.errors import BudgetError
from stepscore.models import run_blocking
from stepscore.runs.episode_record import RecordWriter
from stepscore.runs.schedule import episode_groups
from stepscore.runs.work import Work, check_workers
from stepscore.runs.worker import Worker

T = TypeVar("T")


@dataclass(frozen=True)
class LocalEngine:
    """Judges in this process, ``workers`` episodes (or groups of them that share passes) at a time."""

    workers: int = 1
    name = "local"

    def run(self, work: Work) -> None:
        """Judge the episodes that are not in the journal; see :class:`Engine`."""
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
    """Call ``work`` with each episode, or group of them, ``workers`` at a time in one event loop.

    Args:
        episodes: Taken one by one in their order, so that a lazy listing stays lazy.
        work: Asks models through a :class:`CallChain`, and turns an episode's error into a result.
        workers: Episodes in flight.

    Raises:
        BudgetError: ``work`` raised one. Episodes in flight were finished, no more were begun.
    """
    check_workers(workers)
    try:
        run_blocking(_run_workers(iter(episodes), work, workers))
    except* Exception as group:
        raise first_error(group) from None  # concurrent errors come as a group; the first one is enough


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
        turn.result()  # raises if it was cancelled: its episodes were not judged
    if spent is not None:
        raise spent


def first_error(group: ExceptionGroup[Exception]) -> Exception:
    """Return the first error of a nested group."""
    first = group.exceptions[0]
    return first_error(first) if isinstance(first, ExceptionGroup) else first
