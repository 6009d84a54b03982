"""The stage machine: which milestone stands now, how far the next is, and the progress potential.

A task has K milestones in order. The stage is the number of the furthest milestone that is true *now*, so it
falls when something is undone. Within a stage the share done is what the next milestone's gap has lost since
the start::

    potential = (stage + share) / K,   share = 1 - gap(now) / gap(start), clipped to 0 .. 0.99

It is 1 exactly while the last milestone, success, is true. A chain of tasks is several phases: the next one
begins when the last milestone of the one before is true, and measures from the state at that moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stepscore.sim.state import State
from stepscore.sim.tasks.distances import Measure
from stepscore.types import Mode

MOST_SHARE = 0.99
"""Share of a stage that is done at most, so that only the milestone itself completes it."""
_TINY = 1e-6


@dataclass(frozen=True)
class Milestone:
    """A state of the scene that ends a stage.

    Attributes:
        stage: What the robot does until then: ``"pull the drawer"``.
        subgoal: The state in words that can be checked in the picture: ``"the drawer is fully open"``.
        measure: What is left of it.
        mode: ``"ever"``: it counts once it was true; ``"holds"``: it must be true at the end.
    """

    stage: str
    subgoal: str
    measure: Measure
    mode: Mode = "ever"


@dataclass(frozen=True)
class Reading:
    """What the stage machine says of one moment.

    Attributes:
        stage: Milestones that stand now, 0..K, over all phases.
        potential: Progress in 0..1.
        truths: Whether each milestone is true now, in order.
        gap: Metres that the last milestone is away.
        phase: Which part of a chain is under way, from 0.
    """

    stage: int
    potential: float
    truths: tuple[bool, ...]
    gap: float
    phase: int

    @property
    def success(self) -> bool:
        """Whether the whole task is done at this moment."""
        return self.truths[-1]


class StageMachine:
    """Follows a rollout state by state.

    Args:
        phases: The milestones of each phase; most tasks have one.
        start: The state the rollout begins in.
    """

    def __init__(self, phases: Sequence[Sequence[Milestone]], start: State) -> None:
        self._phases = tuple(tuple(phase) for phase in phases)
        self._starts = [start]
        self._total = sum(len(phase) for phase in self._phases)

    def read(self, now: State) -> Reading:
        """The reading of the next state; a phase that is done stays done."""
        gaps = self._gaps(now)
        while gaps[-1] <= 0.0 and len(self._starts) < len(self._phases):
            self._starts.append(now)
            gaps = self._gaps(now)
        phase = len(self._starts) - 1
        before = sum(len(done) for done in self._phases[:phase])
        stage = max((number for number, gap in enumerate(gaps, start=1) if gap <= 0.0), default=0)
        if stage == len(gaps):
            share = 0.0
        else:
            whole = self._phases[phase][stage].measure.gap(self._starts[phase], self._starts[phase])
            share = min(max(1.0 - gaps[stage] / max(whole, _TINY), 0.0), MOST_SHARE)
        truths = tuple(
            milestone.measure.gap(now, start) <= 0.0
            for done, start in zip(self._phases, self._starts, strict=False)
            for milestone in done
        )
        return Reading(
            stage=before + stage,
            potential=(before + stage + share) / self._total,
            truths=truths + (False,) * (self._total - len(truths)),
            gap=max(gaps[-1], 0.0),
            phase=phase,
        )

    def _gaps(self, now: State) -> list[float]:
        start = self._starts[-1]
        return [milestone.measure.gap(now, start) for milestone in self._phases[len(self._starts) - 1]]
