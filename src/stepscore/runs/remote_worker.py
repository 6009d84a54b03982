"""A worker away from its run's owner: it receives groups and replies, and sends records and questions.

It does not know where it runs: an engine delivers the owner's messages to it, and posts its own.
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

from stepscore._local_modules import import_local_modules, local_modules
from stepscore._threads import Threads
from stepscore.errors import OptionError, RunError, StepScoreError, exits_as_errors
from stepscore.judges import Judge, default_model
from stepscore.models import Model, Response, guard_tasks
from stepscore.models.calls import Call, CallChain, CallOptions, CallOutcome, ClaimTable, Waiter, log_wait
from stepscore.runs import messages
from stepscore.runs.episode_record import bare, error_text, failed
from stepscore.runs.work import Work
from stepscore.runs.worker import Worker

HEARTBEAT_S = 5.0
"""Seconds between two messages that a worker is alive."""

Post = Callable[[Sequence[bytes]], None]
"""Sends pickled messages to the owner; called from any thread."""


@dataclass(frozen=True)
class Forwarded:
    """The end of a call that the owner made for a worker: its result, and the fields of its record."""

    result: Response | Exception
    attempts: int
    latencies: list[float]
    cost: float | None


@dataclass(frozen=True)
class _Question:
    """A question to the owner. ``undo`` gets a reply that nobody waits for any more."""

    future: asyncio.Future[Any]
    waiter: Waiter | None
    undo: Callable[[Any], None]


class OwnersAccount:
    """The owner's account of the run: each method is a message, sent by ``say``."""

    def __init__(self, say: Callable[[messages.FromWorker], None]) -> None:
        self._say = say
        # Episodes of one group share a call here, however slow the way to the owner is.
        self._claims = ClaimTable()
        self._questions: dict[int, _Question] = {}
        self._numbers = itertools.count(1)

    async def find(self, key: str, kind: type[Response]) -> Response | None:
        """Return nothing: the owner looks up a call when it is claimed, which saves a message."""
        return None

    def forget(self, key: str) -> None:
        """See :class:`stepscore.models.calls.Account`."""
        self._say(messages.Tell("forget", (key,)))

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
        except BaseException as error:
            self._claims.release(key, error if isinstance(error, Exception) else None)
            raise
        if found is not None:
            self._claims.release(key, found)
        return found

    def release(self, key: str, outcome: CallOutcome | None) -> None:
        """See :class:`stepscore.models.calls.Account`."""
        self._claims.release(key, outcome)
        self._give_back(key, sendable(outcome) if isinstance(outcome, Exception) else outcome)

    def _give_back(self, key: str, outcome: CallOutcome | None = None) -> None:
        self._say(messages.Tell("release", (key, outcome)))

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
        self._say(messages.Tell("end", (number, state, cost, answer, failure)))

    async def settled(self) -> None:
        """Wait for the calls of this worker; the owner lets every worker end its own."""
        await self._claims.settled()

    async def ask(
        self,
        method: str,
        *arguments: object,
        waiter: Waiter | None = None,
        undo: Callable[[Any], None] = lambda result: None,
    ) -> Any:
        """Return the result of a method of the owner's account."""
        number = next(self._numbers)
        question = _Question(asyncio.get_running_loop().create_future(), waiter, undo)
        self._questions[number] = question
        self._say(messages.Tell(method, arguments, number))
        return await question.future

    def deliver(self, message: messages.Reply | messages.Wait) -> None:
        """Take the owner's answer to a question."""
        if isinstance(message, messages.Wait):
            if (waiting := self._questions[message.number].waiter) is not None:
                waiting.pause()
            return
        question, result = self._questions.pop(message.number), message.result
        if question.future.done():  # whoever asked was cancelled
            if not isinstance(result, Exception):
                question.undo(result)
            return
        if question.waiter is not None:
            question.waiter.resume()
        if isinstance(result, Exception):
            question.future.set_exception(result)
        else:
            question.future.set_result(result)


@dataclass(frozen=True)
class Forward:
    """Layer: passes a call to served model number ``model`` to the owner, whose connections the whole run shares."""

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


class RemoteWorker:
    """Runs a worker in a running event loop, with ``at_a_time`` groups in work; from :func:`load_worker`."""

    def __init__(
        self, judge: Judge, views: Sequence[str] | None, options: CallOptions, at_a_time: int, post: Post
    ) -> None:
        self._judge, self._at_a_time, self._post = judge, at_a_time, post
        self._account = OwnersAccount(self._say_soon)
        chain = CallChain(self._account, options, default_model(judge), self._forward)
        self._worker = Worker(judge, views, chain, Threads(2, "stepscore"))
        self._waiting: deque[messages.Give] = deque()
        self._working: set[int] = set()
        self._received = 0
        self._to_say: list[bytes] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Tell the owner that the judge is loaded, and then regularly that this worker is alive."""
        guard_tasks(asyncio.get_running_loop())
        self._say(messages.Ready())
        # A thread, because a judge that computes for long leaves the event loop no time.
        threading.Thread(target=self._beat, name="stepscore-heartbeat", daemon=True).start()

    def deliver(self, message: messages.ToWorker) -> None:
        """Take a message of the owner."""
        if not isinstance(message, messages.Give):
            self._account.deliver(message)
            return
        self._received = max(self._received, message.number)
        self._waiting.append(message)
        self._begin()

    def _beat(self) -> None:
        while True:
            time.sleep(HEARTBEAT_S)
            # Read before the groups: one that arrives in between is then in neither, and not taken for lost.
            received = self._received
            holding = [*self._working.copy(), *(give.number for give in self._waiting.copy())]
            self._post([pickle.dumps(messages.Alive(received, tuple(holding)))])

    def _begin(self) -> None:
        while self._waiting and len(self._working) < self._at_a_time:
            group = self._waiting[0]
            # Added before it is removed, so that the heartbeat always finds it in one of the two.
            self._working.add(group.number)
            self._waiting.popleft()
            task = asyncio.get_running_loop().create_task(self._judge_group(group))
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    async def _judge_group(self, group: messages.Give) -> None:
        outcomes = await self._worker.judge_group(group.tasks)
        stopped = [replace(one, stopped=sendable(one.stopped)) if one.stopped else one for one in outcomes]
        try:
            with exits_as_errors():
                self._say(messages.Finished(group.number, tuple(stopped)))
        except Exception as error:  # a judge's values are third-party objects, which pickle may refuse
            text = error_text(error)
            unsent = tuple(failed(bare(one.episode), text) for one in group.tasks)
            self._say(messages.Finished(group.number, unsent))
        self._working.discard(group.number)
        self._begin()

    def _forward(self, model: Model) -> Forward:
        """Return the layer of a served model, which the owner knows by its number."""
        models = list(enumerate(self._judge.models))
        found = [number for number, known in models if known is model]
        found += [number for number, known in models if dict(known.describe()) == dict(model.describe())]
        if not found:
            raise OptionError(
                f"Judge {self._judge.name!r} asks the model {model.name}, which is not in its models. "
                "Judge in one process: -E workers=1"
            )
        return Forward(self._account, found[0])

    def _say_soon(self, message: messages.FromWorker) -> None:
        """Send a message together with others of the same turn of the event loop."""
        content = pickle.dumps(message)
        if not self._to_say:
            asyncio.get_running_loop().call_soon(self._say)
        self._to_say.append(content)

    def _say(self, *said: messages.FromWorker) -> None:
        """Send what waits, then these messages."""
        self._to_say += map(pickle.dumps, said)
        if self._to_say:
            now, self._to_say = self._to_say, []
            self._post(now)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._say(messages.Unable(f"{type(error).__name__}: {error}"))


def pack_work(work: Work, at_a_time: int, dumps: Callable[[object], bytes] = pickle.dumps) -> list[bytes]:
    """Return what :func:`load_worker` needs, pickled; ``dumps`` pickles the judge.

    Raises:
        RunError: The judge cannot be pickled.
    """
    options = replace(work.options, on_wait=log_wait)  # a worker reports its waits on its own stderr
    try:
        with exits_as_errors():
            return [pickle.dumps(local_modules()), dumps((work.judge, work.views, options, at_a_time))]
    except Exception as error:  # pickle raises anything
        raise RunError(
            f"The judge {work.judge.name!r} cannot be sent to another process ({type(error).__name__}: {error}). "
            "Judge in this process: -E engine=local"
        ) from error


def load_worker(packed: Sequence[bytes], post: Post) -> RemoteWorker | None:
    """Return the worker that was packed; if it cannot be loaded, post that and return ``None``."""
    try:
        with exits_as_errors():
            import_local_modules(pickle.loads(packed[0]))  # the judge's class may be in the user's own file
            judge, views, options, at_a_time = pickle.loads(packed[1])
            return RemoteWorker(judge, views, options, at_a_time, post)
    except Exception as error:  # a third-party judge may raise anything
        post([pickle.dumps(messages.Unable(f"{type(error).__name__}: {error}"))])
        return None


def sendable(error: Exception) -> Exception:
    """Return the error if it can be pickled, else one with its text."""
    try:
        with exits_as_errors():
            pickle.loads(pickle.dumps(error))
    except Exception:  # a third-party exception class
        return StepScoreError(f"{type(error).__name__}: {error}")
    return error
