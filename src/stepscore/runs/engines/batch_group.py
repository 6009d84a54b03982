"""Episodes that are judged together, so that a model answers their requests in one pass.

Which requests share a pass changes the last digits of the answers. So a pass is not cut by what happens to wait: it
holds what the episodes of one group ask, groups are cut from the sorted ids, and a pass is sent when every
episode of the group that has not ended waits for an answer. With any engine, any number of workers and any shards
the same requests are then answered together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from stepscore.episodes import Episode
from stepscore.errors import exits_as_errors
from stepscore.judges import Ask, Judge
from stepscore.models import BatchModel, Model, Request, Response, batch_size
from stepscore.models.calls import Call
from stepscore.runs.model_client import Asked, Elsewhere, ModelClient


def episode_groups(episodes: Iterable[Episode], judge: Judge) -> Iterator[list[tuple[str, Episode]]]:
    """Yield the episodes in groups that a model in process answers in one pass, cut from the sorted ids.

    Without such a model every episode is a group, and a lazy listing stays lazy.
    """
    size = batch_size(judge.models)
    if size == 1:
        yield from ([(episode.id, episode)] for episode in episodes)
        return
    ordered = sorted(((episode.id, episode) for episode in episodes), key=lambda item: item[0])
    for start in range(0, len(ordered), size):
        yield ordered[start : start + size]


class BatchElsewhere(Elsewhere, Protocol):
    """Where frames are decoded and requests answered, several in one pass."""

    async def answer_batch(
        self, asked: Sequence[tuple[BatchElsewhere, Request]], model: BatchModel
    ) -> Sequence[Response | Exception]:
        """Return the model's response to each of several decoded requests, or why there is none.

        Args:
            asked: What decoded each request, this one among them, and what it returned.
            model: The model.
        """


@dataclass(eq=False)
class GroupAsk:
    """A request of an episode of a group, from when it is asked to when its judge goes on.

    Attributes:
        episode_id: The episode.
        busy: Whether something is being done for it, so that it may still join a pass or be followed by another
            request: it is looked up, its frames are decoded, or it is being answered.
        waiting: Its decoded request and where it is answered, while it waits for the others.
    """

    episode_id: str
    busy: bool = True
    waiting: _Waiting | None = None


@dataclass(eq=False)
class _Waiting:
    """A decoded request that waits for its pass."""

    elsewhere: BatchElsewhere
    decoded: Request
    model: BatchModel
    future: asyncio.Future[Response] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class BatchGroup:
    """Collects what the episodes of a group ask, and sends it to the model pass by pass.

    Args:
        episode_ids: The episodes, in the order in which a pass holds their requests.
    """

    def __init__(self, episode_ids: Sequence[str]) -> None:
        self._places = {name: place for place, name in enumerate(episode_ids)}
        self._judged = set(episode_ids)
        self._asks: dict[GroupAsk, None] = {}  # in the order in which they were asked
        self._passes: set[asyncio.Task[None]] = set()

    def begin(self, episode_id: str) -> GroupAsk:
        """Note that an episode's judge asks something, and waits for it until :meth:`end`."""
        ask = GroupAsk(episode_id)
        self._asks[ask] = None
        return ask

    def end(self, ask: GroupAsk) -> None:
        """Note that a judge has its answer, or an error, and goes on."""
        self._asks.pop(ask, None)
        self._send_what_waits()

    @contextmanager
    def asking(self, episode_id: str) -> Iterator[GroupAsk]:
        """Note that an episode's judge waits for an answer within."""
        ask = self.begin(episode_id)
        try:
            yield ask
        finally:
            self.end(ask)

    def wait_for_same(self, ask: GroupAsk) -> None:
        """Note that the answer to a request is that of the same one of another episode, which is under way."""
        ask.busy = False
        self._send_what_waits()

    def leave(self, episode_id: str) -> None:
        """Note that an episode has ended, and asks nothing more."""
        self._judged.discard(episode_id)
        self._send_what_waits()

    def close(self) -> None:
        """Cancel what waits or is being answered: the worker that judges the group is gone."""
        for task in self._passes:
            task.cancel()
        for ask in self._asks:
            if ask.waiting is not None:
                ask.waiting.future.cancel()

    def ask(
        self,
        client: ModelClient,
        episode: Asked,
        calls: list[Call],
        elsewhere: BatchElsewhere,
        in_group: GroupAsk,
    ) -> Ask:
        """Return the ``ask`` of a client for one request, which is answered in one pass with those of the others.

        Args:
            client: The client.
            episode: The episode.
            calls: Every call is appended to it.
            elsewhere: Where frames are decoded and requests answered.
            in_group: What :meth:`begin` returned.
        """
        inside = _InGroup(self, elsewhere, in_group)
        return client.ask_elsewhere(episode, calls, inside, lambda: self.wait_for_same(in_group))

    async def answer_with_others(self, ask: GroupAsk, waiting: _Waiting) -> Response:
        """Return the answer to a decoded request, in one pass with those of the others."""
        ask.waiting, ask.busy = waiting, False
        self._send_what_waits()
        try:
            return await waiting.future
        finally:
            ask.waiting = None

    def _send_what_waits(self) -> None:
        """Send what waits, if no further request can join it."""
        asking = {ask.episode_id for ask in self._asks}
        if any(ask.busy for ask in self._asks) or not self._judged <= asking:
            return
        ready = [ask for ask in self._asks if ask.waiting is not None and not ask.waiting.future.done()]
        ready.sort(
            key=lambda ask: self._places[ask.episode_id]
        )  # stable: what one episode asked stays in order
        by_model: dict[int, list[_Waiting]] = {}
        for ask in ready:
            assert ask.waiting is not None
            ask.busy = True
            by_model.setdefault(id(ask.waiting.model), []).append(ask.waiting)
        for waiting in by_model.values():
            size = waiting[0].model.batch
            for start in range(0, len(waiting), size):
                task = asyncio.create_task(_answer_pass(waiting[start : start + size]))
                self._passes.add(task)
                task.add_done_callback(self._passes.discard)


async def _answer_pass(batch: Sequence[_Waiting]) -> None:
    """Answer decoded requests in one pass, and hand out the answers."""
    answers: Sequence[Response | Exception]
    try:
        asked = [(waiting.elsewhere, waiting.decoded) for waiting in batch]
        with exits_as_errors():
            answers = await batch[0].elsewhere.answer_batch(asked, batch[0].model)
    except asyncio.CancelledError:
        for waiting in batch:
            waiting.future.cancel()
        raise
    except Exception as error:  # a model is anyone's code
        answers = [error] * len(batch)
    for waiting, answer in zip(batch, answers, strict=True):
        if waiting.future.done():
            continue  # nobody waits for it any more
        if isinstance(answer, Exception):
            waiting.future.set_exception(answer)
        else:
            waiting.future.set_result(answer)


@dataclass
class _InGroup:
    """Decodes and answers as another does, but answers what a model can batch in one pass with others' requests."""

    group: BatchGroup
    elsewhere: BatchElsewhere
    ask: GroupAsk
    _request: Request | None = None

    async def decode(self, request: Request) -> Request:
        """Return the request with its frames, or what stands for it."""
        self.ask.busy, self._request = True, request
        return await self.elsewhere.decode(request)

    async def answer(self, decoded: Request, model: Model) -> Response:
        """Return the model's response."""
        if not isinstance(model, BatchModel) or model.batch == 1:
            return await self.elsewhere.answer(decoded, model)
        if self._request is None or not model.is_batchable(self._request):
            return await self.elsewhere.answer(decoded, model)
        return await self.group.answer_with_others(self.ask, _Waiting(self.elsewhere, decoded, model))
