"""Episodes that are judged together, so that a model answers their requests in one pass.

Which requests share a pass changes the last digits of the answers. So a pass is never cut by arrival: it holds the
requests of one group's episodes, groups are cut from the sorted ids, and a pass is sent when every unfinished episode
of the group waits for an answer. Any engine, number of workers and shards then answers the same requests together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol


class SendsPasses(Protocol):
    """A layer that answers several requests in one pass."""

    def send(self, waiting: Sequence[Any]) -> None:
        """Begin to answer them."""


@dataclass(eq=False)
class GroupAsk:
    """A request of the episode at a place of a group, until its judge continues.

    It is ``busy`` while it is looked up, decoded or answered, and may still join a pass or be followed by another
    request. While it waits for a pass, ``waiting`` holds the layer that sends the pass, and its record of it.
    """

    group: BatchGroup
    place: int
    busy: bool = True
    waiting: tuple[SendsPasses, object] | None = None

    def pause(self) -> None:
        """Note that it waits for something outside the group, and must not hold up a pass."""
        self.busy = False
        self.group.send_what_waits()

    def resume(self) -> None:
        """Note that it continues."""
        self.busy = True

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Pause for the duration of a block."""
        self.pause()
        try:
            yield
        finally:
            self.resume()

    def wait(self, layer: SendsPasses, waiting: object) -> None:
        """Wait for a pass, which ``layer`` sends."""
        self.waiting, self.busy = (layer, waiting), False
        self.group.send_what_waits()


class BatchGroup:
    """Collects the requests of a group's episodes and sends them pass by pass, in the order of ``episode_ids``."""

    def __init__(self, episode_ids: Sequence[str]) -> None:
        self._places = {name: place for place, name in enumerate(episode_ids)}
        self._judged = set(self._places.values())
        self._asks: dict[GroupAsk, None] = {}  # an ordered set: in the order in which they were asked

    @contextmanager
    def asking(self, episode_id: str) -> Iterator[GroupAsk]:
        """Note for the duration of a block that an episode's judge waits for an answer."""
        ask = GroupAsk(self, self._places[episode_id])
        self._asks[ask] = None
        try:
            yield ask
        finally:
            del self._asks[ask]
            self.send_what_waits()

    def leave(self, episode_id: str) -> None:
        """Note that an episode is finished."""
        self._judged.discard(self._places[episode_id])
        self.send_what_waits()

    def send_what_waits(self) -> None:
        """Send the waiting requests, if no further one can join them."""
        if any(ask.busy for ask in self._asks) or not self._judged <= {ask.place for ask in self._asks}:
            return
        passes: dict[SendsPasses, list[object]] = {}
        # A stable sort: the requests of one episode stay in order.
        for ask in sorted(self._asks, key=lambda ask: ask.place):
            if ask.waiting is not None:
                layer, waiting = ask.waiting
                passes.setdefault(layer, []).append(waiting)
                ask.waiting, ask.busy = None, True
        for layer, together in passes.items():
            layer.send(together)
