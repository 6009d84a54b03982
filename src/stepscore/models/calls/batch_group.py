"""Episodes that are judged together, so that a model answers their requests in one pass.

Which requests share a pass changes the last digits of the answers. So a pass is not cut by what happens to wait: it
holds what the episodes of one group ask, groups are cut from the sorted ids, and a pass is sent when every
episode of the group that has not ended waits for an answer. With any engine, any number of workers and any shards
the same requests are then answered together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol


class SendsPasses(Protocol):
    """What answers several requests in one pass."""

    def send(self, waiting: Sequence[Any]) -> None:
        """Begin to answer them."""


@dataclass(eq=False)
class GroupAsk:
    """A request of an episode of a group, from when it is asked to when its judge goes on.

    Attributes:
        group: The group.
        place: The episode's place in the group.
        busy: Whether something is being done for it, so that it may still join a pass or be followed by another
            request: it is looked up, its frames are decoded, or it is being answered.
        waiting: What it waits with for a pass, and what sends it; ``None`` unless it does.
    """

    group: BatchGroup
    place: int
    busy: bool = True
    waiting: tuple[SendsPasses, object] | None = None

    def pause(self) -> None:
        """Note that it waits for something outside of the group, which holds up no pass."""
        self.busy = False
        self.group.send_what_waits()

    def resume(self) -> None:
        """Note that it goes on."""
        self.busy = True

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Wait within for something outside of the group."""
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
    """Collects what the episodes of a group ask, and sends it pass by pass.

    Args:
        episode_ids: The episodes, in the order in which a pass holds their requests.
    """

    def __init__(self, episode_ids: Sequence[str]) -> None:
        self._places = {name: place for place, name in enumerate(episode_ids)}
        self._judged = set(self._places.values())
        self._asks: dict[GroupAsk, None] = {}  # in the order in which they were asked

    @contextmanager
    def asking(self, episode_id: str) -> Iterator[GroupAsk]:
        """Note that an episode's judge waits for an answer within."""
        ask = GroupAsk(self, self._places[episode_id])
        self._asks[ask] = None
        try:
            yield ask
        finally:
            del self._asks[ask]
            self.send_what_waits()

    def leave(self, episode_id: str) -> None:
        """Note that an episode has ended, and asks nothing more."""
        self._judged.discard(self._places[episode_id])
        self.send_what_waits()

    def send_what_waits(self) -> None:
        """Send what waits, if no further request can join it."""
        if any(ask.busy for ask in self._asks) or not self._judged <= {ask.place for ask in self._asks}:
            return
        passes: dict[SendsPasses, list[object]] = {}
        # Stable: what one episode asked stays in order.
        for ask in sorted(self._asks, key=lambda ask: ask.place):
            if ask.waiting is not None:
                layer, waiting = ask.waiting
                passes.setdefault(layer, []).append(waiting)
                ask.waiting, ask.busy = None, True
        for layer, together in passes.items():
            layer.send(together)
