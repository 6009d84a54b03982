"""The owner of a run whose workers are in other processes: hands out the work, keeps the account, writes the journal.

All of it runs in one event loop of the process that started the run. Where workers run and how messages reach them
is up to a :class:`WorkerPool`.
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
from stepscore.models.calls import Call, CallOutcome
from stepscore.runs import messages
from stepscore.runs.episode_record import Described, RecordWriter, failed
from stepscore.runs.records import episode_row, input_key
from stepscore.runs.remote_worker import Forwarded, sendable
from stepscore.runs.schedule import MAX_DEATHS, Scheduler, episode_groups
from stepscore.runs.work import Work

MAX_FAILED_STARTS = 3
"""Workers that may end one after another before they have loaded the judge."""

SILENCE_S = 60.0
"""Seconds of silence after which a worker is replaced."""

GROW_S = 5.0
"""Seconds between two looks at how many workers there should be."""

TICK_S = 1.0
"""Seconds between two looks for silent workers."""


class WorkerHandle(Protocol):
    """The owner's end of one worker."""

    number: int

    def send(self, message: messages.ToWorker) -> None:
        """Send a message; it is dropped if the worker is gone."""

    async def receive(self) -> Sequence[messages.FromWorker]:
        """Return the messages that have come, at least one; none if the worker is gone."""

    def stop(self) -> None:
        """Kill the worker."""

    @property
    def end(self) -> str:
        """How the worker ended, for a message."""


class WorkerPool(Protocol):
    """Starts workers."""

    def start(self, number: int) -> WorkerHandle:
        """Start the worker with this number."""

    def close(self) -> None:
        """End all workers."""


@dataclass(frozen=True)
class _RemoteWaiter:
    """A question of a worker that may have to wait; the reply tells the worker to continue."""

    worker: WorkerHandle
    number: int

    def pause(self) -> None:
        self.worker.send(messages.Wait(self.number))

    def resume(self) -> None: ...


class Owner:
    """Does the work of a run with a pool of workers, each of which judges ``at_a_time`` groups at a time.

    ``workers`` is their number; if it is a function, it is called regularly and may return more than before.
    """

    def __init__(
        self, work: Work, pool: WorkerPool, workers: int | Callable[[], Awaitable[int]], at_a_time: int = 1
    ) -> None:
        self._work, self._pool, self._wanted = work, pool, workers
        self._scheduler: Scheduler[Episode] = Scheduler(
            episode_groups(work.episodes, work.judge), at_a_time=at_a_time, silence_s=SILENCE_S
        )
        self._writer = RecordWriter(work.journal, work.entries, work.on_done)
        self._workers: dict[int, WorkerHandle] = {}
        self._asks: dict[asyncio.Task[None], WorkerHandle | None] = {}
        self._numbers = itertools.count(1)
        self._spent: BudgetError | None = None

    def run(self) -> None:
        """Judge the episodes that are not in the journal; see :class:`stepscore.runs.work.Engine`."""
        try:
            run_blocking(self._run())
        finally:
            self._pool.close()
        if self._spent is not None:
            raise self._spent

    async def _run(self) -> None:
        self._ended = asyncio.Event()
        self._check_end()
        ended = asyncio.create_task(self._ended.wait())
        tasks: list[asyncio.Task[Any]] = [ended, asyncio.create_task(self._watch())]
        # A task as well: asking a cluster may take long, and must not hold up the end of the run.
        wanted, kept = asyncio.create_task(self._wanted_after(0.0)), 0
        try:
            while not ended.done():
                done, _ = await asyncio.wait([wanted, *tasks], return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
                if wanted in done:
                    more = max(0, min(wanted.result(), self._work.count) - kept)
                    tasks += [asyncio.create_task(self._keep()) for _ in range(more)]
                    kept += more
                    wanted = asyncio.create_task(self._wanted_after(GROW_S))
        finally:
            tasks += [wanted, *self._asks]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _wanted_after(self, seconds: float) -> int:
        """Return, after a while, how many workers there should be."""
        await asyncio.sleep(seconds)
        return self._wanted if isinstance(self._wanted, int) else await self._wanted()

    async def _keep(self) -> None:
        """Keep one worker at work: if it ends before the run does, start another."""
        failed = 0
        while True:
            worker = self._pool.start(next(self._numbers))
            try:
                ready = await self._attend(worker)
            except BaseException:
                worker.stop()
                raise
            self._lost(worker)
            failed = 0 if ready else failed + 1
            if failed >= MAX_FAILED_STARTS:
                raise RunError(
                    f"{failed} workers ended one after another while loading the judge {self._work.judge.name!r} "
                    f"({worker.end}). If the machine has too little memory for them, use fewer: -E workers"
                )

    async def _attend(self, worker: WorkerHandle) -> bool:
        """Handle the messages of a worker until it is gone; return whether it was ever ready."""
        ready = False
        while received := await worker.receive():
            for message in received:
                if isinstance(message, messages.Ready):
                    ready = True
                    self._workers[worker.number] = worker
                    self._scheduler.join(worker.number)
                elif isinstance(message, messages.Tell):
                    self._serve(worker, message)
                elif isinstance(message, messages.Finished):
                    self._finish(worker, message)
                elif isinstance(message, messages.Alive):
                    self._scheduler.heard(worker.number, message.received, message.holding)
                elif isinstance(message, messages.Unable):
                    raise RunError(
                        f"The judge {self._work.judge.name!r} cannot be used in another process: {message.why}. "
                        "Judge in this process: -E engine=local"
                    )
            self._feed(worker)
            self._check_end()
        return ready

    def _feed(self, worker: WorkerHandle) -> None:
        while (group := self._scheduler.take(worker.number)) is not None:
            worker.send(messages.Give(group.number, tuple(map(self._writer.task, group.items.values()))))

    def _finish(self, worker: WorkerHandle, message: messages.Finished) -> None:
        names = [outcome.id for outcome in message.outcomes if outcome.stopped is None]
        first = self._scheduler.finish(worker.number, message.number, names)
        for outcome in message.outcomes:
            if isinstance(outcome.stopped, BudgetError):
                self._spent = outcome.stopped
                self._scheduler.stop()
            elif outcome.stopped is not None:
                raise outcome.stopped
            elif outcome.id in first:
                self._writer.write(outcome)

    def _serve(self, worker: WorkerHandle, message: messages.Tell) -> None:
        """Call a method of the account for a worker; what takes time is a task that sends its result."""
        account, method, arguments = self._work.account, message.method, message.arguments
        asked: Awaitable[Any]
        if method == "forget":
            return account.forget(*arguments)
        if method == "release":
            key, outcome = arguments
            return account.release(key, outcome, worker)
        if method == "end":
            return account.end(*arguments)
        if method == "claim":
            key, kind, served = arguments
            waiter = _RemoteWaiter(worker, message.number)
            asked = account.claim(key, kind, waiter, served=served, holder=worker)
        elif method == "begin":
            key, model, bound = arguments
            asked = account.begin(key, model, bound, _RemoteWaiter(worker, message.number), worker)
        else:
            asked = self._forward(*arguments)
        task = asyncio.create_task(self._reply(worker, message.number, asked))
        # A forwarded call outlives its worker: the answer is stored for whoever judges the episode next.
        self._asks[task] = None if method == "forward" else worker
        task.add_done_callback(self._asks.pop)
        return None

    async def _reply(self, worker: WorkerHandle, number: int, asked: Awaitable[Any]) -> None:
        try:
            with exits_as_errors():
                result = await asked
        except Exception as error:  # third-party code may raise anything; the judge handles it
            result = sendable(error)
        worker.send(messages.Reply(number, result))

    async def _forward(
        self, model: int, episode_id: str, key: str, request: Request, decoded: Request
    ) -> Forwarded:
        """Make a call to a served model for a worker; the worker's claim passes to this process."""
        account, call = self._work.account, Call(episode_id, key, request, decoded=decoded)
        account.take_over(key)
        outcome: CallOutcome | None = None
        try:
            outcome = await self._work.chain.attempt(call, self._work.judge.models[model])
        except Exception as error:
            outcome = error
        finally:
            account.release(key, outcome)
        result: Response | Exception = sendable(outcome) if isinstance(outcome, Exception) else outcome
        return Forwarded(result, call.attempts, call.latencies, call.cost)

    def _lost(self, worker: WorkerHandle) -> None:
        """Give a lost worker's groups to others; an episode that killed too many becomes a row with that error."""
        self._workers.pop(worker.number, None)
        for task in [task for task, asking in self._asks.items() if asking is worker]:
            task.cancel()
        self._work.account.lose(worker)
        for episode in self._scheduler.leave(worker.number):
            error = (
                f"{MAX_DEATHS} workers ended one after another while judging this episode ({worker.end}). "
                "Its judge, model or video makes them crash or use too much memory."
            )
            self._writer.write(failed(described_unopened(episode), error))
        for other in list(self._workers.values()):
            self._feed(other)
        self._check_end()

    async def _watch(self) -> None:
        """Kill workers that are silent for too long, so that they are replaced."""
        before = time.monotonic()
        while True:
            await asyncio.sleep(TICK_S)
            now = time.monotonic()
            if now - before > SILENCE_S / 2:
                self._scheduler.renew()  # this process was suspended and could not hear anyone
            before = now
            for number in self._scheduler.overdue():
                self._workers[number].stop()

    def _check_end(self) -> None:
        if self._scheduler.done:
            self._ended.set()


def pickled(message: messages.ToWorker) -> bytes:
    """Return a message as it is sent; raise RunError for an episode that cannot be pickled."""
    try:
        with exits_as_errors():
            return pickle.dumps(message)
    except Exception as error:  # a third-party view may raise anything
        if not isinstance(message, messages.Give):
            raise
        names = ", ".join(task.episode.id for task in message.tasks)
        raise RunError(
            f"Episode {names} cannot be sent to another process ({type(error).__name__}: {error}). "
            "Judge in this process: -E engine=local"
        ) from error


def described_unopened(episode: Episode) -> Described:
    """Return the description of an episode whose files may crash the process that opens them."""
    row = episode_row(replace(episode, views={}, goals={}, recorded=())) | {"fingerprint": None}
    return Described(episode.id, row, input_key(row), None)
