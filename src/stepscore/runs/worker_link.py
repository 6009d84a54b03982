"""A worker's end of the way to the owner of its run: groups and replies come in, records and questions go out.

It knows nothing of where the worker runs: what comes from the owner is delivered to it, what it has to say is posted.
"""

from __future__ import annotations

import asyncio
import itertools
import pickle
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stepscore._threads import Threads
from stepscore.errors import OptionError, StepScoreError, exits_as_errors
from stepscore.judges import Judge, default_model
from stepscore.models import Model, Response, guard_tasks
from stepscore.models.calls import Call, CallChain, CallOptions, ClaimTable, Outcome, Waiter
from stepscore.runs.episode_record import bare, error_text, failed
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
from stepscore.runs.worker import Worker

HEARTBEAT_S = 5.0
"""How often a worker says that it is alive, in seconds."""


@dataclass(frozen=True)
class Forwarded:
    """How a call ended that the owner made for a worker: its result, and what the call's record holds."""

    result: Response | Exception
    attempts: int
    latencies: list[float]
    cost: float | None


@dataclass(frozen=True)
class _Asked:
    """A question to the owner: who waits for the reply, and what undoes it where nobody does any more."""

    future: asyncio.Future[Any]
    waiter: Waiter | None
    undo: Callable[[Any], None]


class OwnersAccount:
    """The account of a run, as a worker has it: each method is a message to the owner.

    Args:
        say: Sends a message.
    """

    def __init__(self, say: Callable[[FromWorker], None]) -> None:
        self._say = say
        self._claims = (
            ClaimTable()
        )  # of one group the same call is always shared here, whatever the way takes
        self._asked: dict[int, _Asked] = {}
        self._numbers = itertools.count(1)

    async def find(self, key: str, kind: type[Response]) -> Response | None:
        """Return nothing: the owner looks before it grants a claim, which saves a message."""
        return None

    def forget(self, key: str) -> None:
        """See :class:`stepscore.models.calls.Account`."""
        self._say(Tell("forget", (key,)))

    async def claim(
        self, key: str, kind: type[Response], waiter: Waiter | None, *, served: bool
    ) -> Response | None:
        """See :class:`stepscore.models.calls.Account`."""
        found: Response | None = await self._claims.claim(key, waiter)
        if found is not None:
            return found
        try:
            found = await self.ask(
                "claim", key, kind, served, waiter=waiter, undo=lambda _: self._give_back(key)
            )
        except asyncio.CancelledError:
            self._claims.release(key, None)
            raise
        except Exception as error:
            self._claims.release(key, error)
            raise
        if found is not None:
            self._claims.release(key, found)
        return found

    def release(self, key: str, outcome: Outcome | None) -> None:
        """See :class:`stepscore.models.calls.Account`."""
        self._claims.release(key, outcome)
        self._give_back(key, sendable(outcome) if isinstance(outcome, Exception) else outcome)

    def _give_back(self, key: str, outcome: Outcome | None = None) -> None:
        self._say(Tell("release", (key, outcome)))

    async def begin(self, key: str, model: str, bound: float | None, waiter: Waiter | None) -> int:
        """See :class:`stepscore.models.calls.Account`."""

        def undo(number: int) -> None:
            self.end(number, "unsent", 0.0, None)

        number: int = await self.ask("begin", key, model, bound, waiter=waiter, undo=undo)
        return number

    def end(
        self, number: int, state: str, cost: float | None, answer: Response | None, failure: str = ""
    ) -> None:
        """See :class:`stepscore.models.calls.Account`."""
        self._say(Tell("end", (number, state, cost, answer, failure)))

    async def settled(self) -> None:
        """See :class:`stepscore.models.calls.Account`; the owner lets every worker end what it has under way."""
        await self._claims.settled()

    async def ask(
        self,
        method: str,
        *arguments: object,
        waiter: Waiter | None = None,
        undo: Callable[[Any], None] = lambda result: None,
    ) -> Any:
        """Return what a method of the owner's account returns.

        Args:
            method: Its name.
            arguments: Its arguments.
            waiter: Who asks; informed where the owner lets it wait.
            undo: Called with a result that comes when nobody waits for it any more.
        """
        number = next(self._numbers)
        asked = _Asked(asyncio.get_running_loop().create_future(), waiter, undo)
        self._asked[number] = asked
        self._say(Tell(method, arguments, number))
        return await asked.future

    def deliver(self, message: Reply | Wait) -> None:
        """Take what the owner says to a question."""
        if isinstance(message, Wait):
            if (waiting := self._asked[message.number].waiter) is not None:
                waiting.pause()
            return
        asked, result = self._asked.pop(message.number), message.result
        failed = isinstance(result, Exception)
        if asked.future.done():
            if not failed:
                asked.undo(result)
            return
        if asked.waiter is not None:
            asked.waiter.resume()
        if failed:
            asked.future.set_exception(result)
        else:
            asked.future.set_result(result)


@dataclass(frozen=True)
class Forward:
    """Layer: a call to a served model, with which the owner goes on: connections and patience are the whole run's.

    Attributes:
        account: The way to the owner.
        model: Number of the model among those of the judge.
    """

    account: OwnersAccount
    model: int

    async def answer(self, call: Call) -> Response:
        """Return the response that the owner got."""
        sent = (self.model, call.episode_id, call.key, call.request, call.decoded)
        done: Forwarded = await self.account.ask("forward", *sent)
        call.attempts, call.latencies, call.cost = done.attempts, done.latencies, done.cost
        if isinstance(done.result, Exception):
            raise done.result
        return done.result


class WorkerLink:
    """Runs a worker; to be used in a running event loop.

    Args:
        judge: The judge.
        views: Give the judge only these views; ``None`` for all.
        options: Prices, cache and patience.
        at_a_time: Groups in work at a time.
        post: Sends pickled messages to the owner; called from any thread.
    """

    def __init__(
        self,
        judge: Judge,
        views: Sequence[str] | None,
        options: CallOptions,
        at_a_time: int,
        post: Callable[[Sequence[bytes]], None],
    ) -> None:
        self._judge, self._at_a_time, self._post = judge, at_a_time, post
        self._account = OwnersAccount(self._say_soon)
        chain = CallChain(self._account, options, default_model(judge), self._forward)
        self._worker = Worker(judge, views, chain, Threads(2, "stepscore"))
        self._waiting: deque[Give] = deque()
        self._working: set[int] = set()
        self._received = 0
        self._to_say: list[bytes] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Say that the judge is here, and go on saying that this worker is alive."""
        guard_tasks(asyncio.get_running_loop())
        self._say(Ready())
        # A thread of its own: a judge that computes for long leaves the event loop no time.
        threading.Thread(target=self._beat, name="stepscore-heartbeat", daemon=True).start()

    def deliver(self, message: ToWorker) -> None:
        """Take a message of the owner."""
        if not isinstance(message, Give):
            self._account.deliver(message)
            return
        self._received = max(self._received, message.number)
        self._waiting.append(message)
        self._begin()

    def _beat(self) -> None:
        while True:
            time.sleep(HEARTBEAT_S)
            received = self._received  # before what is held: what comes in between is in neither
            holding = [*self._working.copy(), *(give.number for give in self._waiting.copy())]
            self._post([pickle.dumps(Alive(received, tuple(holding)))])

    def _begin(self) -> None:
        while self._waiting and len(self._working) < self._at_a_time:
            group = self._waiting[0]
            # Before it leaves the others, so that it is always in one of the two.
            self._working.add(group.number)
            self._waiting.popleft()
            task = asyncio.get_running_loop().create_task(self._judge_group(group))
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    async def _judge_group(self, group: Give) -> None:
        outcomes = await self._worker.judge_group(group.tasks)
        stopped = [replace(one, stopped=sendable(one.stopped)) if one.stopped else one for one in outcomes]
        try:
            with exits_as_errors():
                self._say(Finished(group.number, tuple(stopped)))
        except Exception as error:  # a judge's values are third-party objects, and cannot always be pickled
            text = error_text(error)
            episodes = (task.episode for task in group.tasks)
            described = [bare(one.id, one.source, one.source_index) for one in episodes]
            self._say(Finished(group.number, tuple(failed(one, text) for one in described)))
        self._working.discard(group.number)
        self._begin()

    def _forward(self, model: Model) -> Forward:
        """Return the layer of a served model."""
        models = self._judge.models
        same = [number for number, known in enumerate(models) if known is model]
        alike = [
            number for number, known in enumerate(models) if dict(known.describe()) == dict(model.describe())
        ]
        if not same + alike:
            raise OptionError(
                f"Judge {self._judge.name!r} asks the model {model.name}, which is not among its models; "
                "judge in one process: -E workers=1"
            )
        return Forward(self._account, (same + alike)[0])

    def _say_soon(self, message: FromWorker) -> None:
        """Send a message together with those that are said at the same time."""
        content = pickle.dumps(message)
        if not self._to_say:
            asyncio.get_running_loop().call_soon(self._say)
        self._to_say.append(content)

    def _say(self, *messages: FromWorker) -> None:
        """Send messages after those that wait."""
        self._to_say += map(pickle.dumps, messages)
        if self._to_say:
            now, self._to_say = self._to_say, []
            self._post(now)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._say(Unable(f"{type(error).__name__}: {error}"))


def sendable(error: Exception) -> Exception:
    """Return an error that can be pickled; of one that cannot, its text."""
    try:
        with exits_as_errors():
            pickle.loads(pickle.dumps(error))
    except Exception:  # a third-party exception class
        return StepScoreError(f"{type(error).__name__}: {error}")
    return error
