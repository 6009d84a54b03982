"""The local engine: many episodes at a time in one process.

One event loop holds the judges' coroutines, so that a judge waiting for a model leaves room for others; what
blocks (opening files, fingerprints) runs in threads. The order of finishing differs from run to run; nothing
that is written depends on it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from stepscore.episodes import Episode
from stepscore.errors import BudgetError, OptionError
from stepscore.models import run_blocking
from stepscore.models.calls import Call
from stepscore.runs.engines.base import MAX_WORKERS, Work
from stepscore.runs.engines.episode_work import EpisodeWriter, describe, judged
from stepscore.types import Judgement

EpisodeWork = Callable[[Episode], Awaitable[None]]
"""A function that works on one episode."""


@dataclass(frozen=True)
class LocalEngine:
    """Judges in this process, ``workers`` episodes at a time."""

    workers: int = 1
    name = "local"

    def run(self, work: Work) -> None:
        """Judge what the journal does not hold yet; see :class:`Engine`."""
        with ThreadPoolExecutor(max(self.workers, 1), thread_name_prefix="stepscore") as threads:
            run_episodes(work.episodes, _LocalRun(work, threads).work, self.workers)


def run_episodes(episodes: Iterable[Episode], work: EpisodeWork, workers: int) -> None:
    """Work on episodes, ``workers`` at a time in one event loop.

    Args:
        episodes: Taken one by one in their order, so that a lazy listing stays lazy.
        work: Called with each episode; it asks models through a :class:`ModelClient` and turns what goes wrong
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


async def _run_workers(episodes: Iterator[Episode], work: EpisodeWork, workers: int) -> None:
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
        for _ in range(workers):
            group.create_task(take_turns())
    if spent is not None:
        raise spent


@dataclass
class _LocalRun:
    run: Work
    threads: ThreadPoolExecutor

    def __post_init__(self) -> None:
        self.writer = EpisodeWriter(self.run.journal, self.run.entries, self.run.on_done)

    async def work(self, episode: Episode) -> None:
        """Judge one episode and write it to the journal, unless it is there already."""
        started = time.perf_counter()
        loop = asyncio.get_running_loop()
        selected, described = await loop.run_in_executor(self.threads, describe, episode, self.run.views)
        if described.is_judged(self.run.entries.get(episode.id)):
            self.writer.reuse(described)
            return
        calls: list[Call] = []
        if described.error is not None:
            judgement = Judgement(error=described.error)
        else:
            judgement = await judged(self.run.judge, selected, self.run.client.ask_about(selected, calls))
        self.writer.finish(described, judgement, calls, time.perf_counter() - started)


def first_error(group: ExceptionGroup[Exception]) -> Exception:
    """Return the first error of a group, and of the groups in it."""
    first = group.exceptions[0]
    return first_error(first) if isinstance(first, ExceptionGroup) else first
