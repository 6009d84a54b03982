"""A kit of scripted judges that compare two frames, each with one known fault, and what must be measured of them.

They know the true potential of the frames they are shown: a frame of :class:`FakeView` has its number as its value,
and the labels of the recorded episode have the potential at that frame.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stepscore.episodes import Episode, SampledFrames
from stepscore.errors import EpisodeError
from stepscore.judges import Ask
from stepscore.metrics import hop_between
from stepscore.models import Model
from stepscore.types import FloatArray, Judgement

Answer = Callable[[float, float, np.random.Generator], float]


@dataclass
class ScriptedComparer:
    """Answers from the true potential of two frames, spoilt.

    Attributes:
        name: What is wrong with it.
        answer: Takes the potential before and after and a random generator; returns the stated hop.
        recorded: Recorded episodes by id.
    """

    name: str
    answer: Answer
    recorded: Mapping[str, Episode]
    version: int = 1
    models: tuple[Model, ...] = ()

    def options(self) -> Mapping[str, object]:
        """Return its fault."""
        return {"fault": self.name}

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        """Refuse: it has no curve."""
        raise EpisodeError("It compares two frames alone.")

    async def compare(
        self,
        episode: Episode,
        sampled: SampledFrames,
        pairs: Sequence[tuple[int, int]],
        ask: Ask,
        *,
        repeat: int = 0,
    ) -> FloatArray:
        """Return the spoilt hop of each pair."""
        potential = self.potential(episode)
        answers = []
        for before, after in pairs:
            seed = f"{self.name} {episode.id} {before} {after} {repeat}"
            rng = np.random.default_rng(int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big"))
            answers.append(self.answer(potential[before], potential[after], rng))
        return np.clip(answers, -1.0, 1.0)

    def potential(self, episode: Episode) -> FloatArray:
        """Return the true potential of every frame, by the number that its pixels hold."""
        frames = episode.view(episode.main_view).read(range(len(episode.views["top"].timestamps())))
        of = str(episode.metadata["frames_of"]).removesuffix("~reversed")
        times, values = self.recorded[of].labels.progress()
        return np.asarray(np.interp(frames[:, 0, 0, 0] / 10.0, times, values))


def hop(before: float, after: float) -> float:
    """Return the true hop."""
    return float(hop_between(before, after))


FAULTS: dict[str, Answer] = {
    "none": lambda p, q, rng: hop(p, q),
    "always an advance": lambda p, q, rng: 0.1,
    "constant": lambda p, q, rng: 0.0,
    "sign only": lambda p, q, rng: 0.1 * float(np.sign(q - p)),
    "noisy": lambda p, q, rng: hop(p, q) + rng.normal(0, 0.1),
    "guesses": lambda p, q, rng: rng.uniform(-0.5, 0.5),
    "blind to falls": lambda p, q, rng: max(hop(p, q), 0.0),
    "not 0 on identity": lambda p, q, rng: hop(p, q) if p != q else 0.2,
    "differences": lambda p, q, rng: q - p,
    "silent": lambda p, q, rng: float("nan"),
}


class Expected(NamedTuple):
    """Ranges (lo, hi) in which each number must lie; ``None`` where nothing may be known.

    Attributes:
        accuracy: Share of right signs of all pairs.
        ties: Share of pairs judged as no change.
        residual: Median triple residual in nats.
        order: Share of orders that the long hop confirms.
        antisymmetry: Share of opposite signs when the frames are swapped.
        identity: Mean absolute answer about a frame and itself.
        noise: Standard deviation of repeated answers.
    """

    accuracy: tuple[float, float] | None
    ties: tuple[float, float] | None
    residual: tuple[float, float] | None
    order: tuple[float, float] | None
    antisymmetry: tuple[float, float] | None
    identity: tuple[float, float] | None
    noise: tuple[float, float] | None


ZERO, ONE, HALF = (0.0, 1e-9), (1 - 1e-9, 1.0), (0.4, 0.6)
EXPECTED: Mapping[str, Expected] = {
    "none": Expected(ONE, ZERO, ZERO, ONE, ONE, ZERO, ZERO),
    # 0.9 of the rest is left after each hop: log 0.9 - 2 log 0.9.
    "always an advance": Expected((0.5, 0.5), ZERO, (0.105, 0.106), ONE, ZERO, (0.1, 0.1), ZERO),
    "constant": Expected((0.5, 0.5), ONE, ZERO, None, ONE, ZERO, ZERO),
    "sign only": Expected(ONE, ZERO, (0.1, 0.11), ONE, ONE, ZERO, ZERO),
    "noisy": Expected((0.75, 0.99), ZERO, (0.05, 0.4), (0.7, 1.0), (0.7, 1.0), (0.05, 0.11), (0.08, 0.12)),
    "guesses": Expected((0.4, 0.6), ZERO, (0.2, 2.0), (0.25, 0.75), (0.3, 0.7), (0.15, 0.35), (0.24, 0.34)),
    # Its answer about a fall is no change: half right.
    "blind to falls": Expected((0.75, 0.75), (0.5, 0.5), ZERO, ONE, (0.0, 0.3), ZERO, ZERO),
    "not 0 on identity": Expected(ONE, ZERO, ZERO, ONE, ONE, (0.2, 0.2), ZERO),
    # Differences add up and are not shares of what is left.
    "differences": Expected(ONE, ZERO, (0.005, 0.5), ONE, ONE, ZERO, ZERO),
    "silent": Expected(None, None, None, None, None, None, None),
}
"""What must be measured of every judge of the kit, stated before it was first run."""


def scripted_comparers(episodes: Sequence[Episode]) -> dict[str, ScriptedComparer]:
    """Return the kit by fault; ``none`` is perfect."""
    recorded = {episode.id: episode for episode in episodes}
    return {fault: ScriptedComparer(fault, answer, recorded) for fault, answer in FAULTS.items()}
