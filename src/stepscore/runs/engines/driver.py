"""The driver of a run over several workers: it gives them work, keeps the account of calls, and writes the journal.

One event loop does all of it, in the process that started the run. Where workers run, and how messages reach
them, is the business of a :class:`Crew`.
"""

from __future__ import annotations

import asyncio
import itertools
import pickle
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from stepscore.episodes import Episode
from stepscore.errors import BudgetError, RunError, exits_as_errors
from stepscore.models import Model, run_blocking
from stepscore.models.calls import Call
from stepscore.runs.engines.base import Work
from stepscore.runs.engines.batch_group import BatchElsewhere, BatchGroup, GroupAsk, episode_groups
from stepscore.runs.engines.episode_work import Described, EpisodeWriter
from stepscore.runs.engines.messages import (
    Alive,
    Answered,
    Ask,
    Asks,
    Ended,
    EpisodeTask,
    Finished,
    FromWorker,
    Give,
    Ready,
    ToWorker,
    Unable,
)
from stepscore.runs.engines.scheduler import MAX_DEATHS, Scheduler
from stepscore.runs.engines.worker import sendable
from stepscore.runs.records import episode_row, input_key
from stepscore.types import Judgement

MAX_FAILED_STARTS = 3
"""Workers that may end one after another before they have loaded the judge."""

LEASE_S = 60.0
"""Seconds after which a worker that was not heard is replaced."""

GROW_S = 5.0
"""How often the driver asks how many workers there should be, in seconds."""

TICK_S = 1.0
"""How often the driver looks for workers that were not heard, in seconds."""


class Link(Protocol):
    """The driver's end of one worker."""

    number: int

    def send(self, message: ToWorker) -> None:
        """Send a message; one to a worker that is gone is dropped."""

    async def receive(self) -> Sequence[FromWorker]:
        """Return the messages that have come, at least one; none where the worker is gone."""

    def elsewhere(self, ask: Ask, model: Model) -> BatchElsewhere | None:
        """Return where a request is answered; ``None`` for the driver's process.

        What the worker itself would have answered is cancelled when it is gone.
        """

    def stop(self) -> None:
        """End the worker at once."""

    @property
    def end(self) -> str:
        """How the worker ended, for a message."""


class Crew(Protocol):
    """Starts workers."""

    def start(self, number: int) -> Link:
        """Start a worker that has this number."""

    def close(self) -> None:
        """End all that was started."""


@dataclass(frozen=True)
class _Asked:
    """An episode of a worker, as the account of its calls needs it."""

    id: str
    fingerprint: str


@dataclass
class _Given:
    """An episode that a worker has, the group with which it is judged, and the calls made for it."""

    episode: Episode
    group: BatchGroup
    calls: list[Call] = field(default_factory=list)


class Driver:
    """Carries out the work of a run with the workers of a crew.

    Args:
        work: The work.
        crew: Starts workers.
        workers: How many; a function is called now and then, and may return more than before.
        at_a_time: Groups that each works on at a time.
    """

    def __init__(
        self, work: Work, crew: Crew, workers: int | Callable[[], Awaitable[int]], at_a_time: int = 1
    ) -> None:
        self._work, self._crew, self._workers = work, crew, workers
        self._scheduler: Scheduler[Episode] = Scheduler(
            episode_groups(work.episodes, work.judge), at_a_time=at_a_time, lease_s=LEASE_S
        )
        self._writer = EpisodeWriter(work.journal, work.entries, work.on_done)
        self._links: dict[int, Link] = {}
        self._given: dict[tuple[int, str], _Given] = {}
        self._asks: set[asyncio.Task[None]] = set()
        self._numbers = itertools.count(1)
        self._spent: BudgetError | None = None

    def run(self) -> None:
        """Judge what the journal does not hold yet; see :class:`stepscore.runs.engines.base.Engine`."""
        try:
            run_blocking(self._run())
        finally:
            self._crew.close()
        if self._spent is not None:
            raise self._spent

    async def _run(self) -> None:
        self._ended = asyncio.Event()
        self._check_end()
        tasks: list[asyncio.Task[Any]] = [asyncio.create_task(self._ended.wait())]
        tasks += [asyncio.create_task(self._watch())]
        wanted = asyncio.create_task(self._wanted(0.0))
        kept = 0
        try:
            while True:
                finished, _ = await asyncio.wait([wanted, *tasks], return_when=asyncio.FIRST_COMPLETED)
                for task in finished:
                    task.result()
                if finished != {wanted}:
                    break
                more = max(0, min(wanted.result(), self._work.count) - kept)
                tasks += [asyncio.create_task(self._keep()) for _ in range(more)]
                kept += more
                wanted = asyncio.create_task(self._wanted(GROW_S))
        finally:
            all_tasks = [wanted, *tasks, *self._asks]
            for task in all_tasks:
                task.cancel()
            await asyncio.gather(*all_tasks, return_exceptions=True)

    async def _wanted(self, after_s: float) -> int:
        """Return, after a while, how many workers there should be."""
        await asyncio.sleep(after_s)
        return self._workers if isinstance(self._workers, int) else await self._workers()

    async def _keep(self) -> None:
        """Keep one worker at work: where it ends before the run does, another takes its place."""
        failed = 0
        while True:
            link = self._crew.start(next(self._numbers))
            try:
                ready = await self._attend(link)
            except BaseException:
                link.stop()
                raise
            self._lost(link)
            failed = 0 if ready else failed + 1
            if failed >= MAX_FAILED_STARTS:
                raise RunError(
                    f"{failed} workers ended one after another while they loaded the judge {self._work.judge.name!r} "
                    f"({link.end}). The machine may have too little memory for so many: use fewer, --workers"
                )

    async def _attend(self, link: Link) -> bool:
        """Handle the messages of a worker until it is gone; return whether it was ever ready."""
        ready = False
        while messages := await link.receive():
            for message in messages:
                if isinstance(message, Ready):
                    ready = True
                    self._links[link.number] = link
                    self._scheduler.join(link.number)
                else:
                    self._handle(link, message)
            self._feed(link)
            self._check_end()
        return ready

    def _handle(self, link: Link, message: FromWorker) -> None:
        if isinstance(message, Asks):
            self._ask(link, message)
        elif isinstance(message, Ended):
            if (given := self._given.get((link.number, message.episode_id))) is not None:
                given.group.leave(message.episode_id)
        elif isinstance(message, Finished):
            self._finish(link, message)
        elif isinstance(message, Alive):
            self._scheduler.heard(link.number, message.received, message.holding)
        elif isinstance(message, Unable):
            raise RunError(
                f"The judge {self._work.judge.name!r} cannot be used by another process: {message.why}. "
                "Judge in this one: --engine local"
            )

    def _feed(self, link: Link) -> None:
        while (group := self._scheduler.take(link.number)) is not None:
            together = BatchGroup(list(group.items))
            for name, episode in group.items.items():
                self._given[link.number, name] = _Given(episode, together)
            link.send(Give(group.number, tuple(map(self._task, group.items.values()))))

    def _task(self, episode: Episode) -> EpisodeTask:
        entry = self._work.entries.get(episode.id)
        return EpisodeTask(episode, None if entry is None or entry.failed else entry.key)

    def _finish(self, link: Link, message: Finished) -> None:
        names = [one.described.id for one in message.outcomes if one.stopped is None]
        first = self._scheduler.finish(link.number, message.number, names)
        for outcome in message.outcomes:
            name = outcome.described.id
            given = self._given.pop((link.number, name), None)
            if outcome.stopped is not None:
                self._stop(outcome.stopped)
            elif name not in first:
                continue
            elif outcome.judgement is None:
                self._writer.reuse(outcome.described)
            else:
                calls = given.calls if given is not None else []
                self._writer.finish(outcome.described, outcome.judgement, calls, outcome.seconds)

    def _stop(self, error: Exception) -> None:
        """Begin no more episodes where the budget is spent; raise any other error."""
        if not isinstance(error, BudgetError):
            raise error
        self._spent = error
        self._scheduler.stop()

    def _ask(self, link: Link, message: Asks) -> None:
        """Begin to answer the requests of a worker, all of them before the first is answered."""
        for ask in message.asks:
            given = self._given.get((link.number, ask.episode_id))
            if given is None:
                continue  # the worker counted as gone, and its episode is another's
            task = asyncio.create_task(self._answer(link, ask, given, given.group.begin(ask.episode_id)))
            self._asks.add(task)
            task.add_done_callback(self._asks.discard)

    async def _answer(self, link: Link, ask: Ask, given: _Given, in_group: GroupAsk) -> None:
        """Answer a request of a worker: from the cache, or by the model, which may be elsewhere."""
        client = self._work.client
        try:
            with exits_as_errors():
                models = self._work.judge.models
                model = models[ask.model or 0] if models else None
                elsewhere = None if model is None else link.elsewhere(ask, model)
                if elsewhere is None:
                    elsewhere = client.here(await self._selected(given.episode))
                asked = _Asked(ask.episode_id, ask.fingerprint)
                answer = given.group.ask(client, asked, given.calls, elsewhere, in_group)
                link.send(Answered(ask.ask, await answer(ask.request, model)))
        except Exception as error:  # a model is anyone's code; the judge handles it
            link.send(Answered(ask.ask, sendable(error)))
        finally:
            given.group.end(in_group)

    async def _selected(self, episode: Episode) -> Episode:
        """Return the episode as the judge has it, its fingerprint read."""
        views = self._work.views
        selected = episode if views is None else episode.with_views(views)
        await asyncio.to_thread(lambda: selected.fingerprint)
        return selected

    def _lost(self, link: Link) -> None:
        """Give what a worker held to others; an episode that ended too many workers becomes a row with that error."""
        self._links.pop(link.number, None)
        # What it asked of a server is awaited all the same: the answer is kept for whoever judges the episode next.
        given_up = self._scheduler.leave(link.number)
        for key in [key for key in self._given if key[0] == link.number]:
            self._given.pop(key).group.close()
        for episode in given_up:
            error = (
                f"{MAX_DEATHS} workers ended one after another while they judged this episode ({link.end}). "
                "Its judge, model or video makes them crash or use too much memory."
            )
            self._writer.finish(described_from_afar(episode), Judgement(error=error), [], 0.0)
        for other in list(self._links.values()):
            self._feed(other)
        self._check_end()

    async def _watch(self) -> None:
        """Replace workers that are not heard any more."""
        before = time.monotonic()
        while True:
            await asyncio.sleep(TICK_S)
            now = time.monotonic()
            if now - before > LEASE_S / 2:
                self._scheduler.renew()  # this process slept, and heard nobody
            before = now
            for number in self._scheduler.overdue():
                self._links[number].stop()

    def _check_end(self) -> None:
        if self._scheduler.done:
            self._ended.set()


def pickled(message: ToWorker) -> bytes:
    """Return a message as it is sent.

    Raises:
        RunError: An episode cannot be pickled.
    """
    try:
        with exits_as_errors():
            return pickle.dumps(message)
    except Exception as error:  # a view is anyone's code
        if not isinstance(message, Give):
            raise
        names = ", ".join(task.episode.id for task in message.tasks)
        raise RunError(
            f"Episode {names} cannot be sent to another process ({type(error).__name__}: {error}). "
            "Judge in this one: --engine local"
        ) from error


def described_from_afar(episode: Episode) -> Described:
    """Return the description of an episode whose files are better not opened in this process."""
    row = episode_row(replace(episode, views={}, goals={}, recorded=())) | {"fingerprint": None}
    return Described(episode.id, row, input_key(row), None)
