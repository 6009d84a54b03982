"""The local engine: many episodes at a time in one process.

One event loop holds the judges' coroutines, so that a judge waiting for a model leaves room for others; what
blocks (opening files, fingerprints) runs in threads. The order of finishing differs from run to run; nothing
that is written depends on it.
"""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

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
from stepscore.runs.records import Row, episode_row, input_key, judgement_row, usage_row
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
    except* Exception as group:
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
        loop = asyncio.get_running_loop()
        described = await loop.run_in_executor(self.threads, _describe, episode, self.views)
        self.on_done(await self._finish(described, started))

    async def _finish(self, described: _Described, started: float) -> FinishedEpisode:
        """Judge one episode, unless the journal has it already."""
        episode, row = described.episode, described.row
        key, entry = described.key, self.entries.get(episode.id)
        if entry is not None and not entry.failed and entry.key == key:
            if entry.description != description_hash(row):
                # Labels or metadata changed; the judge's input did not.
                self.journal.append({"id": episode.id, "episode": row})
            return FinishedEpisode(episode.id, reused=True, error=None)
        calls: list[Call] = []
        if described.error is not None:
            judgement = Judgement(error=described.error)
        else:
            judgement = await self._judge(episode, calls)
        usage = usage_of(calls, judgement.usage)
        seconds = time.perf_counter() - started
        try:
            self._write(described, judgement, calls, usage_row(usage, calls, seconds))
        except Exception as error:  # a judge's channels and an episode's texts are anyone's
            judgement = Judgement(error=error_text(error))
            self._write(_bare(episode), judgement, [], usage_row(usage, calls, seconds))
        return FinishedEpisode(episode.id, reused=False, error=judgement.error, usage=usage)

    def _write(self, described: _Described, judgement: Judgement, calls: Sequence[Call], usage: Row) -> None:
        self.journal.append(
            {
                "id": described.episode.id,
                "key": described.key,
                "episode": described.row,
                "judgement": judgement_row(judgement),
                "calls": [call.row() for call in calls if call.response is not None],
                "usage": usage,
            }
        )

    async def _judge(self, episode: Episode, calls: list[Call]) -> Judgement:
        """Return the judgement, or one that holds the error: a bad episode never stops a run."""
        try:
            judgement = await self.judge.judge(episode, self.client.ask_about(episode, calls))
            if not isinstance(judgement, Judgement):
                raise TypeError(f"{self.judge.name} returned {type(judgement).__name__}, not a Judgement")
            return judgement
        except Exception as error:  # a judge is anyone's code
            return Judgement(error=error_text(error) + _place_in_local_code(self.judge, error))


def _place_in_local_code(judge: Judge, error: Exception) -> str:
    """Return where a judge in a user's own file failed, `` (mine.py, line 7)``; empty for other judges."""
    code = getattr(judge, "local_code", None)
    if code is None or isinstance(error, StepScoreError):
        return ""
    steps = [
        line
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_globals.get("__name__") == type(judge).__module__
    ]
    return f" ({code['file']}, line {steps[-1]})" if steps else ""


class _Described(NamedTuple):
    """An episode with the views to judge.

    Attributes:
        episode: The episode.
        row: Its row.
        key: Hash of the judge's input.
        error: Why it cannot be judged; ``None`` where it can.
    """

    episode: Episode
    row: Row
    key: str
    error: str | None


def _describe(episode: Episode, views: Sequence[str] | None) -> _Described:
    """Return the episode with only these views and its row; what goes wrong with it is kept as text."""
    why = episode.error
    try:
        selected = episode if why or views is None else episode.with_views(views)
    except Exception as error:  # as below
        selected, why = episode, error_text(error)
    try:
        row = episode_row(selected)
        return _Described(selected, row, input_key(row), why)
    except Exception as error:  # a reader and its views are anyone's code
        return _bare(episode, why or error_text(error))


def _bare(episode: Episode, error: str | None = None) -> _Described:
    """Return an episode of which nothing but id and source is described."""
    bare = Episode(id=episode.id, instruction="", source=episode.source, source_index=episode.source_index)
    row = episode_row(bare)
    return _Described(bare, row, input_key(row), error)


def _first(group: ExceptionGroup[Exception]) -> Exception:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, ExceptionGroup) else first
