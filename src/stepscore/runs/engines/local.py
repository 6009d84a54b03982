"""The local engine: many episodes at a time in one process.

One event loop holds the judges' coroutines, so that a judge waiting for a model leaves room for others; what
blocks (opening files, fingerprints) runs in threads. The order of finishing differs from run to run; nothing
that is written depends on it. Episodes whose requests a model answers in one pass are judged together
(``batch_group.py``).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from stepscore._threads import Threads
from stepscore.episodes import Episode
from stepscore.errors import BudgetError, OptionError
from stepscore.judges import Ask
from stepscore.models import Model, Request, Response, run_blocking
from stepscore.models.calls import Call
from stepscore.runs.engines.base import MAX_WORKERS, Work
from stepscore.runs.engines.batch_group import BatchGroup, episode_groups
from stepscore.runs.engines.episode_work import Described, EpisodeWriter, describe, judged
from stepscore.types import Judgement

T = TypeVar("T")


@dataclass(frozen=True)
class LocalEngine:
    """Judges in this process, ``workers`` episodes at a time, or groups of them whose requests share passes."""

    workers: int = 1
    name = "local"

    def run(self, work: Work) -> None:
        """Judge what the journal does not hold yet; see :class:`Engine`."""
        with Threads(max(self.workers, 1), "stepscore") as threads:
            groups = episode_groups(work.episodes, work.judge)
            run_episodes(groups, _LocalRun(work, threads).work, self.workers)


def run_episodes(episodes: Iterable[T], work: Callable[[T], Awaitable[None]], workers: int) -> None:
    """Work on episodes, or groups of them, ``workers`` at a time in one event loop.

    Args:
        episodes: Taken one by one in their order, so that a lazy listing stays lazy.
        work: Called with each; it asks models through a :class:`ModelClient` and turns what goes wrong
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


class _Judged(NamedTuple):
    """An episode that was judged, or found in the journal: then it has no judgement."""

    described: Described
    judgement: Judgement | None = None
    calls: Sequence[Call] = ()
    seconds: float = 0.0


@dataclass
class _LocalRun:
    run: Work
    threads: Threads

    def __post_init__(self) -> None:
        self.writer = EpisodeWriter(self.run.journal, self.run.entries, self.run.on_done)

    async def work(self, group: Sequence[tuple[str, Episode]]) -> None:
        """Judge the episodes of a group together, and write those to the journal that are not there already."""
        batch = BatchGroup([name for name, _ in group])
        outcomes = await asyncio.gather(
            *(self._judge(episode, batch) for _, episode in group), return_exceptions=True
        )
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                continue
            described, judgement, calls, seconds = outcome
            if judgement is None:
                self.writer.reuse(described)
            else:
                self.writer.finish(described, judgement, calls, seconds)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def _judge(self, episode: Episode, batch: BatchGroup) -> _Judged:
        started = time.perf_counter()
        loop = asyncio.get_running_loop()
        try:
            selected, described = await loop.run_in_executor(self.threads, describe, episode, self.run.views)
            if described.is_judged(self.run.entries.get(episode.id)):
                return _Judged(described)
            calls: list[Call] = []
            if described.error is not None:
                judgement = Judgement(error=described.error)
            else:
                judgement = await judged(self.run.judge, selected, self._ask_about(selected, calls, batch))
            return _Judged(described, judgement, calls, time.perf_counter() - started)
        finally:
            batch.leave(episode.id)

    def _ask_about(self, episode: Episode, calls: list[Call], batch: BatchGroup) -> Ask:
        client = self.run.client

        async def ask(request: Request, model: Model | None = None) -> Response:
            with batch.asking(episode.id) as in_group:
                here = client.here(episode)
                return await batch.ask(client, episode, calls, here, in_group)(request, model)

        return ask


def first_error(group: ExceptionGroup[Exception]) -> Exception:
    """Return the first error of a group, and of the groups in it."""
    first = group.exceptions[0]
    return first_error(first) if isinstance(first, ExceptionGroup) else first
