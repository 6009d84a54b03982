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
"""Errors that every further episode would raise too: they stop the run instead of becoming a row."""

MAX_WORKERS = 4096
"""Most episodes in flight; each has a task of its own in the event loop."""

EpisodeWork = Callable[[Episode], Awaitable[None]]
"""A function that works on one episode."""


@dataclass(frozen=True, slots=True)
class FinishedEpisode:
    """An episode that is finished.

    Attributes:
        episode_id: Its id.
        reused: Whether it was found in the journal rather than judged now.
        error: Why there is no judgement; ``None`` when there is one.
        usage: What judging it took; ``None`` where it was reused.
    """

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
    client: ModelClient,
    on_done: Callable[[FinishedEpisode], None],
) -> None:
    """Judge what the journal does not hold yet, ``workers`` episodes at a time.

    Args:
        episodes: The episodes; taken one by one, so that a lazy listing stays lazy.
        judge: The judge.
        journal: The open journal to which each finished episode is written.
        entries: What the journal held at the start.
        views: Give the judge only these views; ``None`` for all.
        workers: Episodes in flight.
        client: Answers the judge's requests.
        on_done: Called after each episode, in the calling thread.

    Raises:
        BudgetError: The budget was spent. Episodes that had their answers are written, no more are begun.
    """
    with ThreadPoolExecutor(max(workers, 1), thread_name_prefix="stepscore") as threads:
        run = _LocalRun(judge, journal, entries, views, client, threads, on_done)
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
    if not 1 <= workers <= MAX_WORKERS:
        raise OptionError(f"workers is {workers}; it must be 1 to {MAX_WORKERS}.")
    try:
        run_blocking(_run_workers(iter(episodes), work, workers))
    except* RUN_STOPPING_ERRORS as group:
        # The workers run concurrently, so their errors come in a group; the first says enough.
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
    client: ModelClient
    threads: ThreadPoolExecutor
    on_done: Callable[[FinishedEpisode], None]

    async def work(self, episode: Episode) -> None:
        """Judge one episode and write it to the journal, unless it is there already."""
        started = time.perf_counter()
        selected, view_error = _select_views(episode, self.views)
        row = await asyncio.get_running_loop().run_in_executor(self.threads, episode_row, selected)
        self.on_done(await self._finish(selected, row, view_error, started))

    async def _finish(
        self, episode: Episode, row: dict[str, Any], view_error: str | None, started: float
    ) -> FinishedEpisode:
        """Judge one episode, unless the journal has it already."""
        key, entry = input_key(row), self.entries.get(episode.id)
        if entry is not None and not entry.failed and entry.key == key:
            if entry.description != description_hash(row):
                # Labels or metadata changed; the judge's input did not.
                self.journal.append({"id": episode.id, "episode": row})
            return FinishedEpisode(episode.id, reused=True, error=None)
        calls: list[Call] = []
        judgement = Judgement(error=view_error) if view_error else await self._judge(episode, calls)
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
        """Return the judgement, or one that holds the error: a bad episode never stops a run."""
        try:
            return await self.judge.judge(episode, self.client.ask_about(episode, calls))
        except Exception as error:  # a judge is anyone's code
            return Judgement(error=error_text(error))


def _select_views(episode: Episode, views: Sequence[str] | None) -> tuple[Episode, str | None]:
    """Return the episode with only these views, and an error message if it lacks one."""
    try:
        return (episode if views is None else episode.with_views(views)), None
    except StepScoreError as error:
        return episode, str(error)


def _first(group: BaseExceptionGroup[StepScoreError]) -> StepScoreError:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
