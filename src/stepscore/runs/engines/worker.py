"""A worker: judges the groups of episodes that a driver gives it, and asks the driver for what its judge asks.

It knows nothing of where it runs: what comes from the driver is delivered to it, what it has to say is posted.
The driver keeps the account of all calls; a worker with the model answers only what the driver has counted.
"""

from __future__ import annotations

import asyncio
import itertools
import pickle
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

from stepscore._threads import Threads
from stepscore.episodes import Episode
from stepscore.errors import ModelError, OptionError, StepScoreError, exits_as_errors
from stepscore.judges import Ask as AskFunction
from stepscore.judges import Judge
from stepscore.models import (
    BatchModel,
    Model,
    Request,
    Response,
    guard_tasks,
    guarded,
    media_decoder,
    resolve,
)
from stepscore.runs.engines.episode_work import RUN_STOPPING_ERRORS, bare, describe, error_text, judged
from stepscore.runs.engines.messages import (
    Alive,
    Answered,
    Ask,
    Asks,
    Compute,
    Computed,
    Ended,
    EpisodeTask,
    Finished,
    FromWorker,
    Give,
    Outcome,
    Ready,
    ToWorker,
    Unable,
)
from stepscore.types import Judgement

HEARTBEAT_S = 5.0
"""How often a worker says that it is alive, in seconds."""


class EpisodeWorker:
    """Judges groups of episodes; to be used in a running event loop.

    Args:
        judge: The judge.
        views: Give the judge only these views; ``None`` for all.
        at_a_time: Groups in work at a time.
        post: Sends a pickled message to the driver; called from any thread.
    """

    def __init__(
        self,
        judge: Judge,
        views: Sequence[str] | None,
        at_a_time: int,
        post: Callable[[bytes], None],
    ) -> None:
        self._judge, self._views, self._at_a_time, self._post = judge, views, at_a_time, post
        self._waiting: deque[Give] = deque()
        self._working: set[int] = set()
        self._received = 0
        self._asked: dict[int, tuple[Episode, Model | None, asyncio.Future[Response]]] = {}
        self._to_ask: list[Ask] = []
        self._numbers = itertools.count(1)
        self._tasks: set[asyncio.Task[None]] = set()
        self._threads = Threads(2, "stepscore-decode")

    def start(self) -> None:
        """Say that the judge is here, and go on saying that this worker is alive."""
        guard_tasks(asyncio.get_running_loop())
        self._say(Ready())
        # A thread of its own: a judge that computes for long leaves the event loop no time.
        threading.Thread(target=self._beat, name="stepscore-heartbeat", daemon=True).start()

    def deliver(self, message: ToWorker) -> None:
        """Take a message of the driver."""
        if isinstance(message, Give):
            self._received = max(self._received, message.number)
            self._waiting.append(message)
            self._begin()
        elif isinstance(message, Answered):
            self._settle(message)
        else:
            self._spawn(self._compute(message))

    def _beat(self) -> None:
        while True:
            time.sleep(HEARTBEAT_S)
            received = self._received  # before what is held: what comes in between is in neither
            holding = [*self._working.copy(), *(give.number for give in self._waiting.copy())]
            self._say(Alive(received, tuple(holding)))

    def _begin(self) -> None:
        while self._waiting and len(self._working) < self._at_a_time:
            group = self._waiting[0]
            self._working.add(
                group.number
            )  # before it leaves the others, so that it is always in one of the two
            self._waiting.popleft()
            self._spawn(self._judge_group(group))

    async def _judge_group(self, group: Give) -> None:
        outcomes = await asyncio.gather(*(self._judge_of_group(task, group) for task in group.tasks))
        try:
            with exits_as_errors():
                self._say(Finished(group.number, tuple(outcomes)))
        except Exception as error:  # a judge's channels are anyone's, and cannot always be pickled
            failed = Judgement(error=error_text(error))
            self._say(Finished(group.number, tuple(replace(one, judgement=failed) for one in outcomes)))
        self._working.discard(group.number)
        self._begin()

    async def _judge_of_group(self, task: EpisodeTask, group: Give) -> Outcome:
        try:
            return await self._judge_one(task)
        finally:
            if len(group.tasks) > 1:
                self._say(Ended(task.episode.id))

    async def _judge_one(self, task: EpisodeTask) -> Outcome:
        started = time.perf_counter()
        loop = asyncio.get_running_loop()
        episode = task.episode
        try:
            selected, described = await loop.run_in_executor(self._threads, describe, episode, self._views)
            if task.key is not None and described.key == task.key:
                return Outcome(described)
            if described.error is not None:
                judgement = Judgement(error=described.error)
            else:
                judgement = await judged(self._judge, selected, self._ask_about(selected))
        except RUN_STOPPING_ERRORS as error:
            unknown = bare(episode.id, episode.source, episode.source_index)
            return Outcome(unknown, stopped=sendable(error))
        return Outcome(described, judgement, time.perf_counter() - started)

    def _ask_about(self, episode: Episode) -> AskFunction:
        async def ask(request: Request, model: Model | None = None) -> Response:
            number = next(self._numbers)
            future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
            place = None if model is None else self._place(model)
            self._asked[number] = (episode, model, future)
            try:
                self._send_soon(Ask(number, episode.id, episode.fingerprint, request, place))
                return await future
            finally:
                del self._asked[number]

        return ask

    def _send_soon(self, ask: Ask) -> None:
        """Send a request together with those that are asked at the same time, so that they share a pass."""
        if not self._to_ask:
            asyncio.get_running_loop().call_soon(self._send_asks)
        self._to_ask.append(ask)

    def _send_asks(self) -> None:
        asks, self._to_ask = tuple(self._to_ask), []
        self._say(Asks(asks))

    def _place(self, model: Model) -> int:
        """Return the number of a model among those of the judge."""
        models = self._judge.models
        for number, known in enumerate(models):
            if known is model:
                return number
        for number, known in enumerate(models):
            if dict(known.describe()) == dict(model.describe()):
                return number
        raise OptionError(
            f"Judge {self._judge.name!r} asks the model {model.name}, which is not among its models; "
            "judge in one process: --workers 1"
        )

    def _settle(self, message: Answered) -> None:
        asked = self._asked.get(message.ask)
        if asked is None or asked[2].done():
            return  # its judge has ended, and waits for it no more
        if isinstance(message.result, Exception):
            asked[2].set_exception(message.result)
        else:
            asked[2].set_result(message.result)

    async def _compute(self, message: Compute) -> None:
        decoded = await asyncio.gather(*(self._decoded(ask, request) for ask, request in message.asked))
        ready = [one for one in decoded if not isinstance(one, Exception)]
        ask = message.asked[0][0]
        model = self._asked[ask][1] if ask in self._asked else None
        found = iter(await answers(model or self._judge.models[0], ready))
        results = [sendable(one) if isinstance(one, Exception) else next(found) for one in decoded]
        self._say(Computed(message.number, tuple(results)))

    async def _decoded(self, ask: int, request: Request) -> Request | Exception:
        try:
            with guarded():
                return await self.decode_asked(ask, request)
        except Exception as error:  # a view is anyone's code
            return error

    async def decode_asked(self, ask: int, request: Request) -> Request:
        """Return a request with its frames; it is what a judge asked by this number, or a part of it.

        Raises:
            ModelError: The judge has ended since.
        """
        if ask not in self._asked:
            raise ModelError("The judge has ended, and waits for no answer.")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, resolve, request, media_decoder(self._asked[ask][0]))

    def _say(self, message: FromWorker) -> None:
        self._post(pickle.dumps(message))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._say(Unable(f"{type(error).__name__}: {error}"))


async def answers(model: Model, requests: Sequence[Request]) -> list[Response | Exception]:
    """Return the model's answer to each request, or why there is none; several are answered in one pass."""
    results: Sequence[Response | Exception]
    try:
        with guarded():
            if len(requests) > 1 and isinstance(model, BatchModel):
                results = await model.answer_batch(requests)
            else:
                results = [await model.answer(request) for request in requests]
    except Exception as error:  # a model is anyone's code
        results = [error] * len(requests)
    return [sendable(one) if isinstance(one, Exception) else one for one in results]


def sendable(error: Exception) -> Exception:
    """Return an error that can be pickled; of one that cannot, its text."""
    try:
        with exits_as_errors():
            pickle.loads(pickle.dumps(error))
    except Exception:  # anyone's exception class
        return StepScoreError(f"{type(error).__name__}: {error}")
    return error
