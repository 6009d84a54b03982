"""The local engine: many episodes at a time in one process.

One event loop holds the judges' coroutines, so that a judge waiting for a model leaves room for others; what
blocks (opening files, fingerprints) runs in threads. The order of finishing differs from run to run; nothing
that is written depends on it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from stepscore.episodes import Episode
from stepscore.errors import (
    BudgetError,
    CapabilityError,
    MissingExtraError,
    OptionError,
    RunError,
    StepScoreError,
)
from stepscore.judges import Judge
from stepscore.models import run_blocking
from stepscore.models.calls import Call
from stepscore.runs.journal import Entry, Journal, description_hash
from stepscore.runs.model_client import ModelClient, usage_of
from stepscore.runs.records import episode_row, input_key, judgement_row, usage_row
from stepscore.types import Judgement, Usage

RUN_STOPPING_ERRORS = (RunError, CapabilityError, MissingExtraError)
"""What every further episode would meet too: it stops the run instead of becoming a row."""

EpisodeWork = Callable[[Episode], Awaitable[None]]
"""What is done with one episode."""


@dataclass(frozen=True, slots=True)
class FinishedEpisode:
    """An episode is finished: judged now, or found in the journal (``reused``)."""

    episode_id: str
    reused: bool
    error: str | None
    usage: Usage | None = None


def run_local(
    episodes: Iterable[Episode],
    judge: Judge,
    journal: Journal,
    entries: dict[str, Entry],
    *,
    views: Sequence[str] | None,
    workers: int,
    asking: ModelClient,
    on_done: Callable[[FinishedEpisode], None],
) -> None:
    """Judge what the journal does not hold yet, ``workers`` episodes at a time.

    Args:
        episodes: What to judge; taken one by one, so that a lazy listing stays lazy.
        judge: Who judges.
        journal: Where each finished episode is written, open.
        entries: What the journal held at the start.
        views: Let the judge see only these cameras; ``None`` for all.
        workers: Episodes in flight.
        asking: Answers what the judge asks.
        on_done: Called after each, in the calling thread.

    Raises:
        BudgetError: The budget was spent. Episodes that had their answers are written, no more are begun.
    """
    with ThreadPoolExecutor(max(workers, 1), thread_name_prefix="stepscore") as threads:
        run = _LocalRun(judge, journal, entries, views, asking, threads, on_done)
        run_episodes(episodes, run.work, workers)


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
    if workers < 1:
        raise OptionError(f"workers is {workers}; it must be at least 1.")
    try:
        run_blocking(_run_workers(iter(episodes), work, workers))
    except* RUN_STOPPING_ERRORS as group:
        # The workers run side by side, so their errors come in a group; the first says enough.
        raise _first(group) from None


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


def error_text(error: Exception) -> str:
    """Return what an episode's row keeps of an error; one of ``RUN_STOPPING_ERRORS`` is raised again."""
    if isinstance(error, RUN_STOPPING_ERRORS):
        raise error
    return str(error) if isinstance(error, StepScoreError) else f"{type(error).__name__}: {error}"


@dataclass
class _LocalRun:
    judge: Judge
    journal: Journal
    entries: dict[str, Entry]
    views: Sequence[str] | None
    asking: ModelClient
    threads: ThreadPoolExecutor
    on_done: Callable[[FinishedEpisode], None]

    async def work(self, episode: Episode) -> None:
        """Judge one episode and write it to the journal, unless it is there already."""
        started = time.perf_counter()
        shown, wrong = _show(episode, self.views)
        row = await asyncio.get_running_loop().run_in_executor(self.threads, episode_row, shown)
        self.on_done(await self._finish(shown, row, wrong, started))

    async def _finish(
        self, episode: Episode, row: dict[str, Any], wrong: str | None, started: float
    ) -> FinishedEpisode:
        """Judge one episode, or find that the journal has it already."""
        key, entry = input_key(row), self.entries.get(episode.id)
        if entry is not None and not entry.failed and entry.key == key:
            if entry.description != description_hash(row):
                # Labels or metadata changed; what the judge saw did not.
                self.journal.append({"id": episode.id, "episode": row})
            return FinishedEpisode(episode.id, reused=True, error=None)
        calls: list[Call] = []
        judgement = Judgement(error=wrong) if wrong else await self._judge(episode, calls)
        usage = usage_of(calls, judgement.usage)
        self.journal.append(
            {
                "id": episode.id,
                "key": key,
                "episode": row,
                "judgement": judgement_row(judgement),
                "calls": [call.row() for call in calls if call.response is not None],
                "usage": usage_row(usage, calls, time.perf_counter() - started),
            }
        )
        return FinishedEpisode(episode.id, reused=False, error=judgement.error, usage=usage)

    async def _judge(self, episode: Episode, calls: list[Call]) -> Judgement:
        """The judgement, or one that holds the error: a bad episode never stops a run."""
        try:
            return await self.judge.judge(episode, self.asking.of(episode, calls))
        except Exception as error:  # a judge is anyone's code
            return Judgement(error=error_text(error))


def _show(episode: Episode, views: Sequence[str] | None) -> tuple[Episode, str | None]:
    """The episode with only these views, and what is wrong if it lacks one."""
    try:
        return (episode if views is None else episode.with_views(views)), None
    except StepScoreError as error:
        return episode, str(error)


def _first(group: BaseExceptionGroup[StepScoreError]) -> StepScoreError:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
