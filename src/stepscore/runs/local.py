"""The local engine: many episodes at a time in one process.

One event loop holds the judges' coroutines, so that a judge waiting for a model leaves room for others; what
blocks (opening files, fingerprints) runs in threads. The order of finishing differs from run to run; nothing
that is written depends on it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from stepscore.episodes import Episode
from stepscore.errors import OptionError, RunError, StepScoreError
from stepscore.judges import Judge
from stepscore.runs.journal import Entry, Journal, description_hash
from stepscore.runs.records import episode_row, input_key, judgement_row, usage_row
from stepscore.types import Judgement


@dataclass(frozen=True, slots=True)
class Done:
    """An episode is finished: judged now, or found in the journal (``reused``)."""

    episode_id: str
    reused: bool
    error: str | None


def run_local(
    episodes: Iterable[Episode],
    judge: Judge,
    journal: Journal,
    entries: dict[str, Entry],
    *,
    views: Sequence[str] | None,
    workers: int,
    on_done: Callable[[Done], None],
) -> None:
    """Judge what the journal does not hold yet, ``workers`` episodes at a time.

    Args:
        episodes: What to judge; taken one by one, so that a lazy listing stays lazy.
        judge: Who judges.
        journal: Where each finished episode is written, open.
        entries: What the journal held at the start.
        views: Let the judge see only these cameras; ``None`` for all.
        workers: Episodes in flight.
        on_done: Called after each, in the calling thread.
    """
    if workers < 1:
        raise OptionError(f"workers is {workers}; it must be at least 1.")
    coroutine = _run(iter(episodes), judge, journal, entries, views, workers, on_done)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(coroutine)
    else:
        # A notebook already runs a loop in this thread; ours gets a thread of its own.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, coroutine).result()


async def _run(
    episodes: Iterator[Episode],
    judge: Judge,
    journal: Journal,
    entries: dict[str, Entry],
    views: Sequence[str] | None,
    workers: int,
    on_done: Callable[[Done], None],
) -> None:
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(workers, thread_name_prefix="stepscore") as threads:

        async def work() -> None:
            for episode in episodes:
                started = time.perf_counter()
                shown, wrong = _show(episode, views)
                row = await loop.run_in_executor(threads, episode_row, shown)
                entry = entries.get(episode.id)
                on_done(await _finish(shown, row, wrong, judge, journal, entry, started))

        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(work())


async def _finish(
    episode: Episode,
    row: dict[str, Any],
    wrong: str | None,
    judge: Judge,
    journal: Journal,
    entry: Entry | None,
    started: float,
) -> Done:
    """Judge one episode, or find that the journal has it already."""
    key = input_key(row)
    if entry is not None and not entry.failed and entry.key == key:
        if entry.description != description_hash(row):
            # Labels or metadata changed; what the judge saw did not.
            journal.append({"id": episode.id, "episode": row})
        return Done(episode.id, reused=True, error=None)
    judgement = Judgement(error=wrong) if wrong else await _judge(episode, judge)
    journal.append(
        {
            "id": episode.id,
            "key": key,
            "episode": row,
            "judgement": judgement_row(judgement),
            "usage": usage_row(judgement, time.perf_counter() - started),
        }
    )
    return Done(episode.id, reused=False, error=judgement.error)


def _show(episode: Episode, views: Sequence[str] | None) -> tuple[Episode, str | None]:
    """The episode with only these views, and what is wrong if it lacks one."""
    try:
        return (episode if views is None else episode.with_views(views)), None
    except StepScoreError as error:
        return episode, str(error)


async def _judge(episode: Episode, judge: Judge) -> Judgement:
    """The judgement, or one that holds the error: a bad episode never stops a run."""
    try:
        return await judge.judge(episode, _no_model)
    except RunError:
        raise
    except StepScoreError as error:
        return Judgement(error=str(error))
    except Exception as error:  # a judge is anyone's code
        return Judgement(error=f"{type(error).__name__}: {error}")


async def _no_model(request: object) -> object:
    raise OptionError("This judge asks a model, and the run has none.")
