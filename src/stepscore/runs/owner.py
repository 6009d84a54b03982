"""The owner of a run with workers in other processes: it gives them work, keeps the account, and writes the journal.

One event loop does all of it, in the process that started the run. Where workers run, and how messages reach
them, is the business of a :class:`Crew`.
"""

from __future__ import annotations

import asyncio
import itertools
import pickle
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from stepscore.episodes import Episode
from stepscore.errors import BudgetError, RunError, exits_as_errors
from stepscore.models import Request, Response, run_blocking
from stepscore.models.calls import Call, Outcome
from stepscore.runs.episode_record import Described, RecordWriter, failed
from stepscore.runs.messages import (
    Alive,
    Finished,
    FromWorker,
    Give,
    Ready,
    Reply,
    Tell,
    ToWorker,
    Unable,
    Wait,
)
from stepscore.runs.records import episode_row, input_key
from stepscore.runs.schedule import MAX_DEATHS, Scheduler, episode_groups
from stepscore.runs.work import Work
from stepscore.runs.worker_link import Forwarded, sendable

MAX_FAILED_STARTS = 3
"""Workers that may end one after another before they have loaded the judge."""

LEASE_S = 60.0
"""Seconds after which a worker that was not heard is replaced."""

GROW_S = 5.0
"""How often the owner asks how many workers there should be, in seconds."""

TICK_S = 1.0
"""How often the owner looks for workers that were not heard, in seconds."""


class Link(Protocol):
    """The owner's end of one worker."""

    number: int

    def send(self, message: ToWorker) -> None:
        """Send a message; one to a worker that is gone is dropped."""

    async def receive(self) -> Sequence[FromWorker]:
        """Return the messages that have come, at least one; none where the worker is gone."""

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
class _WaitingThere:
    """Who asks, in a worker."""

    link: Link
    number: int

    def pause(self) -> None:
        """Say that it waits."""
        self.link.send(Wait(self.number))

    def resume(self) -> None:
        """Go on: the reply says so."""


class Owner:
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
        self._writer = RecordWriter(work.journal, work.entries, work.on_done)
        self._links: dict[int, Link] = {}
        self._asks: dict[asyncio.Task[None], Link | None] = {}
        self._numbers = itertools.count(1)
        self._spent: BudgetError | None = None

    def run(self) -> None:
        """Judge what the journal does not hold yet; see :class:`stepscore.runs.work.Engine`."""
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
                    f"({link.end}). The machine may have too little memory for so many: use fewer, -E workers"
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
        if isinstance(message, Tell):
            self._serve(link, message)
        elif isinstance(message, Finished):
            self._finish(link, message)
        elif isinstance(message, Alive):
            self._scheduler.heard(link.number, message.received, message.holding)
        elif isinstance(message, Unable):
            raise RunError(
                f"The judge {self._work.judge.name!r} cannot be used by another process: {message.why}. "
                "Judge in this one: -E engine=local"
            )

    def _feed(self, link: Link) -> None:
        while (group := self._scheduler.take(link.number)) is not None:
            link.send(Give(group.number, tuple(map(self._writer.task, group.items.values()))))

    def _finish(self, link: Link, message: Finished) -> None:
        names = [outcome.id for outcome in message.outcomes if outcome.stopped is None]
        first = self._scheduler.finish(link.number, message.number, names)
        for outcome in message.outcomes:
            if outcome.stopped is not None:
                self._stop(outcome.stopped)
            elif outcome.id in first:
                self._writer.write(outcome)

    def _stop(self, error: Exception) -> None:
        """Begin no more episodes where the budget is spent; raise any other error."""
        if not isinstance(error, BudgetError):
            raise error
        self._spent = error
        self._scheduler.stop()

    def _serve(self, link: Link, message: Tell) -> None:
        """Do what a worker asks of the account; what takes time is a task, whose result is sent when it is there."""
        account = self._work.account
        if not message.number:
            tell: dict[str, Callable[..., None]] = {
                "forget": account.forget,
                "release": lambda key, outcome: account.release(key, outcome, link),
                "end": account.end,
            }
            tell[message.method](*message.arguments)
            return
        waiter = _WaitingThere(link, message.number)
        ask: dict[str, Callable[..., Awaitable[Any]]] = {
            "claim": lambda key, kind, served: account.claim(key, kind, waiter, served=served, holder=link),
            "begin": lambda key, model, bound: account.begin(key, model, bound, waiter, link),
            "forward": self._forward,
        }
        task = asyncio.create_task(self._reply(link, message.number, ask[message.method](*message.arguments)))
        # A call that is forwarded outlives its worker: the answer is kept for whoever judges the episode next.
        self._asks[task] = None if message.method == "forward" else link
        task.add_done_callback(self._asks.pop)

    async def _reply(self, link: Link, number: int, asked: Awaitable[Any]) -> None:
        try:
            with exits_as_errors():
                result = await asked
        except Exception as error:  # third-party code may raise anything; the judge handles it
            result = sendable(error)
        link.send(Reply(number, result))

    async def _forward(
        self, model: int, episode_id: str, key: str, request: Request, decoded: Request
    ) -> Forwarded:
        """Make a call to a served model for a worker, whose claim on it is then this process's."""
        account, call = self._work.account, Call(episode_id, key, request, decoded=decoded)
        account.take_over(key)
        outcome: Outcome | None = None
        try:
            outcome = await self._work.chain.attempt(call, self._work.judge.models[model])
        except Exception as error:
            outcome = error
        finally:
            account.release(key, outcome)
        result: Response | Exception = sendable(outcome) if isinstance(outcome, Exception) else outcome
        return Forwarded(result, call.attempts, call.latencies, call.cost)

    def _lost(self, link: Link) -> None:
        """Give what a worker held to others; an episode that ended too many workers becomes a row with that error."""
        self._links.pop(link.number, None)
        for task in [task for task, asking in self._asks.items() if asking is link]:
            task.cancel()
        self._work.account.lose(link)
        given_up = self._scheduler.leave(link.number)
        for episode in given_up:
            error = (
                f"{MAX_DEATHS} workers ended one after another while they judged this episode ({link.end}). "
                "Its judge, model or video makes them crash or use too much memory."
            )
            self._writer.write(failed(described_from_afar(episode), error))
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
            "Judge in this one: -E engine=local"
        ) from error


def described_from_afar(episode: Episode) -> Described:
    """Return the description of an episode whose files are better not opened in this process."""
    row = episode_row(replace(episode, views={}, goals={}, recorded=())) | {"fingerprint": None}
    return Described(episode.id, row, input_key(row), None)
