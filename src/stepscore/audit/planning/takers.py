"""The episodes that each probe takes, and their cost."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from stepscore.audit.planning.audit_plan import ProbedEpisode, Shortfall, scene_of
from stepscore.audit.probe import Context, Probe
from stepscore.episodes import Episode
from stepscore.errors import StepScoreError


@dataclass
class Taker:
    """The episodes of one probe, changed and taken one by one."""

    probe: Probe
    eligible: Sequence[Episode]
    context: Context
    taken: list[ProbedEpisode] = field(default_factory=list)
    scenes: set[Hashable] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._possible = {scene_of(episode) for episode in self.eligible}
        self._waiting: list[tuple[ProbedEpisode, Hashable]] = []
        self._changes = self._made()
        self._refused = ""
        self._ended = False

    def next(self, place: int = 0) -> ProbedEpisode | None:
        """Return the episode to take next, or ``place`` after that; ``None`` if there is none."""
        while len(self._waiting) <= place:
            made = next(self._changes, None)
            if made is None:
                self._ended = True
                return None
            self._waiting.append(made)
        return self._waiting[place][0]

    @property
    def next_is_new(self) -> bool:
        """Whether the next episode is from a new scene."""
        return self.next() is not None and self._waiting[0][1] not in self.scenes

    def up_to(self, scenes: int) -> tuple[list[ProbedEpisode], int]:
        """Return the next episodes until it has this many scenes (or all it can have), and the number of scenes."""
        found: list[ProbedEpisode] = []
        reached = set(self.scenes)
        while len(reached) < min(scenes, len(self._possible)):
            each = self.next(len(found))
            if each is None:
                break
            reached.add(self._waiting[len(found)][1])
            found.append(each)
        return found, len(reached)

    def take(self) -> None:
        """Take the next episode."""
        each, scene = self._waiting.pop(0)
        self.taken.append(each)
        self.scenes.add(scene)

    def why(self, *, readable: bool) -> str:
        """Return why it applies to no episode; empty if it applies to one."""
        if self.taken or self.next() is not None:
            return ""
        return self._refused or ("no episode is labelled a success" if readable else "no episode can be read")

    def shortfall(self) -> Shortfall | None:
        """Return how many scenes it lacks to pass; ``None`` if it has enough or does not apply."""
        needed = self.probe.scenes_to_pass
        if len(self.scenes) >= needed or not (self.taken or self.next()):
            return None
        known = self.scenes | {scene for _, scene in self._waiting}
        return Shortfall(
            self.probe.name, len(self.scenes), needed, len(known if self._ended else self._possible)
        )

    def _made(self) -> Iterator[tuple[ProbedEpisode, Hashable]]:
        for episode in self.eligible:
            try:
                changed = self.probe.change(episode, self.context)
            except StepScoreError as error:
                self._refused = self._refused or str(error)
            else:
                yield ProbedEpisode(self.probe.name, episode.id, changed), scene_of(episode)


@dataclass
class Budget:
    """The remaining budget, in episodes, and the changed episodes already paid for.

    Attributes:
        causal: Whether truncated videos are free.
    """

    left: float
    causal: bool
    paid: set[str] = field(default_factory=set)

    def price(self, probe: Probe, each: ProbedEpisode) -> float:
        """Return the cost of a changed episode."""
        free = each.changed.id in self.paid or (self.causal and probe.truncates)
        return 0.0 if free else probe.length

    def reaches(self, taker: Taker, scenes: int) -> bool:
        """Return whether the budget allows a probe this many scenes."""
        ahead, reached = taker.up_to(scenes)
        return reached >= scenes and sum(self.price(taker.probe, each) for each in ahead) <= self.left

    def buy(self, taker: Taker) -> bool:
        """Take the next episode of a probe; return whether there was one within the budget."""
        each = taker.next()
        if each is None or (price := self.price(taker.probe, each)) > self.left:
            return False
        self.left -= price
        self.paid.add(each.changed.id)
        taker.take()
        return True

    def buy_up_to(self, taker: Taker, scenes: int) -> None:
        """Take episodes until a probe has this many scenes, has all it can have, or the budget is spent."""
        for _ in taker.up_to(scenes)[0]:
            if not self.buy(taker):
                return
