"""The schedule: which episodes are judged together, and by which worker; without processes, messages or files.

It cuts a run's episodes into groups, hands them to workers and takes the results. The groups of a lost worker go to
others; of two results for an episode the first one counts. So no episode is lost or written twice, however workers
die, return late or answer twice. An episode that was under way in ``max_deaths`` workers when they died is given up,
so that it cannot kill them all. If workers judge several groups at a time, those of a dead worker go to workers that
have no other, which shows the guilty one.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from stepscore.episodes import Episode
from stepscore.judges import Judge
from stepscore.models import batch_size

T = TypeVar("T")

MAX_DEATHS = 3
"""Workers that may die while they judge the same episode, before it is given up."""


def episode_groups(episodes: Iterable[Episode], judge: Judge) -> Iterator[list[tuple[str, Episode]]]:
    """Yield the episodes in groups of the models' batch size, cut from the sorted ids.

    If that is 1, a lazy listing stays lazy.
    """
    size = batch_size(judge.models)
    if size == 1:
        yield from ([(episode.id, episode)] for episode in episodes)
        return
    ordered = sorted(((episode.id, episode) for episode in episodes), key=lambda item: item[0])
    for start in range(0, len(ordered), size):
        yield ordered[start : start + size]


@dataclass(frozen=True, slots=True)
class Group(Generic[T]):
    """Items by id that one worker judges together; a group that is handed out again gets a new number."""

    number: int
    items: dict[str, T]


@dataclass
class _Held(Generic[T]):
    """The groups that one worker holds, in the order in which it got them, and when it was last heard."""

    heard: float
    groups: dict[int, Group[T]] = field(default_factory=dict)


class Scheduler(Generic[T]):
    """Hands out groups of items to workers and takes their results.

    Args:
        groups: The groups of items by id, taken one by one, so that a lazy listing stays lazy.
        at_a_time: Groups that a worker judges at a time, in the order in which it gets them.
        ahead: Further groups that it holds, so that it need not wait for the next one.
        max_deaths: See :data:`MAX_DEATHS`.
        silence_s: Seconds of silence after which a worker counts as gone.
        clock: Returns the time in seconds.
    """

    def __init__(
        self,
        groups: Iterable[Sequence[tuple[str, T]]],
        *,
        at_a_time: int = 1,
        ahead: int = 1,
        max_deaths: int = MAX_DEATHS,
        silence_s: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._groups: Iterator[Sequence[tuple[str, T]]] = iter(groups)
        self._at_a_time, self._most = at_a_time, at_a_time + ahead
        self._max_deaths, self._silence_s, self._clock = max_deaths, silence_s, clock
        self._next: deque[dict[str, T]] = deque()
        self._workers: dict[int, _Held[T]] = {}
        self._deaths: dict[str, int] = {}
        self._finished: set[str] = set()
        self._count = 0
        self._stopped = False

    @property
    def waiting(self) -> bool:
        """Whether a group waits to be handed out."""
        group = self._take_waiting(alone=True)
        if group is not None:
            self._next.appendleft(group)
        return group is not None

    @property
    def done(self) -> bool:
        """Whether nothing waits and no worker holds anything."""
        return not any(held.groups for held in self._workers.values()) and not self.waiting

    def join(self, worker: int) -> None:
        """Add a worker."""
        self._workers[worker] = _Held(self._clock())

    def take(self, worker: int) -> Group[T] | None:
        """Return the next group for a worker; ``None`` if it has enough, or no group waits."""
        held = self._workers.get(worker)
        if held is None or len(held.groups) >= self._most:
            return None
        if any(self._is_suspect(group.items) for group in held.groups.values()):
            return None
        items = self._take_waiting(alone=not held.groups)
        if items is None:
            return None
        self._count += 1
        group = Group(self._count, items)
        if not held.groups:
            held.heard = self._clock()  # an idle worker cannot be overdue
        held.groups[group.number] = group
        return group

    def heard(self, worker: int, received: int | None = None, holding: Collection[int] | None = None) -> None:
        """Note that a worker is alive, the last group it received, and the groups it has not reported yet.

        A group that it received, but neither holds nor reported to us, was in a lost message: it is handed out again.
        """
        held = self._workers.get(worker)
        if held is None:
            return
        held.heard = self._clock()
        if received is None or holding is None:
            return
        for number in [n for n in held.groups if n <= received and n not in holding]:
            self._next.appendleft(held.groups.pop(number).items)

    def finish(self, worker: int, number: int, names: Iterable[str]) -> set[str]:
        """Take the results of a group, also of a worker that counted as gone; return the ids with a first result.

        Items of the group that are not named go to others.
        """
        first = {name for name in names if name not in self._finished}
        self._finished |= first
        held = self._workers.get(worker)
        if held is not None:
            held.heard = self._clock()
            group = held.groups.pop(number, None)
            if group is not None:
                self._put_back(group.items)
        return first

    def leave(self, worker: int) -> list[T]:
        """Remove a lost worker; return the items that are given up because too many workers died of them."""
        held = self._workers.pop(worker, None)
        if held is None:
            return []
        given_up: list[T] = []
        for place, group in reversed(list(enumerate(held.groups.values()))):
            if place < self._at_a_time:
                given_up += self._blame(group)
            else:
                self._put_back(group.items)
        return given_up[::-1]

    def overdue(self) -> list[int]:
        """Return the workers that hold groups and have been silent for too long."""
        latest = self._clock() - self._silence_s
        return [worker for worker, held in self._workers.items() if held.groups and held.heard < latest]

    def renew(self) -> None:
        """Count all workers as heard now, after a time in which nobody could be heard."""
        for held in self._workers.values():
            held.heard = self._clock()

    def stop(self) -> None:
        """Hand out no more groups; those held may still be finished."""
        self._stopped = True

    def _take_waiting(self, *, alone: bool) -> dict[str, T] | None:
        """Take the first waiting group; a suspect one only for a worker that has no other (``alone``)."""
        if self._stopped:
            return None
        for place, items in enumerate(self._next):
            # A late result may have come since the items were put back.
            left = {name: item for name, item in items.items() if name not in self._finished}
            if left and (alone or not self._is_suspect(left)):
                del self._next[place]
                return left
        fresh = next(self._groups, None)
        return None if fresh is None else dict(fresh)

    def _is_suspect(self, items: Collection[str]) -> bool:
        """Return whether a worker died with these items, perhaps because of another group."""
        return self._at_a_time > 1 and any(name in self._deaths for name in items)

    def _blame(self, group: Group[T]) -> list[T]:
        """Count a death against the items of a group; return those given up, and put the others back."""
        left = {name: item for name, item in group.items.items() if name not in self._finished}
        given_up: list[T] = []
        for name in list(left):
            self._deaths[name] = self._deaths.get(name, 0) + 1
            if self._deaths[name] >= self._max_deaths:
                self._finished.add(name)
                given_up.append(left.pop(name))
        if any(self._deaths[name] > 1 for name in left):
            # One of them may be to blame: judge each separately, so that the next death shows which.
            for name, item in reversed(left.items()):
                self._put_back({name: item})
        else:
            self._put_back(left)
        return given_up

    def _put_back(self, items: dict[str, T]) -> None:
        left = {name: item for name, item in items.items() if name not in self._finished}
        if left:
            self._next.appendleft(left)
