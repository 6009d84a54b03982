"""Failures cut to the lengths of successes, so that length carries no information about the outcome.

Rollouts that stop after success give the answer away: their length reaches a success AUC of 0.95, and
a judge that counts frames looks good. Here each success is paired with a failure of its task, which is cut to
the success's length. In the result, successes and failures of every task are equally many and equally long,
so judging by length scores an AUC of 0.5 within each task and over all of them.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from stepscore.episodes.episode import Episode
from stepscore.episodes.labels.label_intervals import LABEL_TOLERANCE_S, Truth, success_truth
from stepscore.episodes.perturbations.perturb import cut
from stepscore.errors import EpisodeError
from stepscore.metrics import roc_auc
from stepscore.types import BoolArray, FloatArray, SuccessMode

MOST_AT_ONCE = 4_000_000
"""Most pairs of a success and a failure of one task among which a maximum matching is looked for."""

ROUNDS = 4
"""How often what is left over of a larger task is matched again."""


@dataclass(frozen=True)
class LengthMatched:
    """Episodes of matched length.

    Attributes:
        episodes: Successes as they were and failures, cut where needed, by id.
        pairs: Ids of each success and the failure of its length.
        left_out: Why each other episode is not among them, by id.
    """

    episodes: tuple[Episode, ...]
    pairs: tuple[tuple[str, str], ...]
    left_out: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Rollout:
    """An episode whose outcome is known, with the times of its main view."""

    episode: Episode
    times: FloatArray
    frame_s: float

    @property
    def duration_s(self) -> float:
        return float(self.times[-1]) + self.frame_s

    @cached_property
    def truth(self) -> Truth:
        return success_truth(self.episode.labels, float(self.times[-1]))

    @property
    def mode(self) -> SuccessMode:
        return self.episode.labels.success_mode or "holds"

    def last_frame(self, length_s: float) -> int:
        """Return the frame to end with so that the duration is nearest to ``length_s``."""
        return int(np.argmin(np.abs(self.times + self.frame_s - length_s)))

    def fails_at(self, lengths_s: FloatArray) -> BoolArray:
        """Return whether it lasts that long, to half a frame, and is known to be a failure when it ends there."""
        ends = self.times + self.frame_s
        after = np.minimum(np.searchsorted(ends, lengths_s), len(ends) - 1)
        before = np.maximum(after - 1, 0)
        nearer = np.abs(ends[before] - lengths_s) <= np.abs(ends[after] - lengths_s)
        last = np.searchsorted(ends, ends[np.where(nearer, before, after)])  # the first of frames at one time
        found = np.abs(ends[last] - lengths_s) <= self.frame_s / 2 + LABEL_TOLERANCE_S
        inside = np.flatnonzero(found & (last < len(ends) - 1))
        found[inside] = self.truth.is_false_at_end(self.mode, self.times[last[inside]])
        return found

    def cut_to(self, length_s: float) -> Episode:
        """Return the episode, cut to the frame nearest to ``length_s``; itself where that is its last."""
        last = self.last_frame(length_s)
        whole = last == len(self.times) - 1
        return self.episode if whole else cut(self.episode, float(self.times[last + 1]))


def match_lengths(episodes: Iterable[Episode], *, seed: int = 0) -> LengthMatched:
    """Pair successes with failures of the same task and length; read headers, no frames.

    As many pairs are made as the task's lengths and labels allow (a maximum matching); which of several
    possible ones depends only on the ids and ``seed``. A task with more than :data:`MOST_AT_ONCE` pairs of a
    success and a failure to choose from is matched in parts, which may make a few pairs fewer. Successes are
    never cut. A failure is cut only where its labels state that it is a failure when it ends there: one that
    had succeeded for a while is not cut inside that time, and one of which only the end is known (``holds``,
    without spans or potential) is never cut. Label it ``ever`` = 0 if it never succeeded.

    Args:
        episodes: Episodes with success labels. The task is ``task``, else the instruction.
        seed: Random seed of the choice among possible pairings.
    """
    left_out: dict[str, str] = {}
    tasks: dict[str, list[_Rollout]] = defaultdict(list)
    for episode in episodes:
        try:
            tasks[episode.task or episode.instruction].append(_rollout(episode))
        except EpisodeError as error:
            left_out[episode.id] = str(error)
    kept: list[Episode] = []
    pairs: list[tuple[str, str]] = []
    for task in sorted(tasks):
        matched = _matching(tasks[task], seed)
        for success, failure in matched:
            shortened = failure.cut_to(success.duration_s)
            kept += [success.episode, shortened]
            pairs.append((success.episode.id, shortened.id))
        used = {rollout.episode.id for pair in matched for rollout in pair}
        left_out |= {r.episode.id: _why(r, task) for r in tasks[task] if r.episode.id not in used}
    return LengthMatched(tuple(sorted(kept, key=lambda e: e.id)), tuple(sorted(pairs)), left_out)


def length_auc(episodes: Iterable[Episode]) -> float:
    """Return the success AUC of shortness: 0.5 for no information, 1 where every success is shorter.

    Episodes of unknown success do not enter; NaN where all others succeed, or none does.
    """
    known = [e for e in episodes if e.labels.success is not None and e.info is not None]
    # Microseconds: the same length may be a sum of frames here and a product there.
    lengths = [round(e.info.duration_s, 6) if e.info is not None else math.nan for e in known]
    return roc_auc([-length for length in lengths], [float(bool(e.labels.success)) for e in known])


def _rollout(episode: Episode) -> _Rollout:
    if episode.labels.success is None:
        raise EpisodeError("its success is not known")
    main = episode.view(episode.main_view)
    return _Rollout(episode, main.timestamps(), 1.0 / main.info().fps)


def _matching(rollouts: Sequence[_Rollout], seed: int) -> list[tuple[_Rollout, _Rollout]]:
    """Return the most pairs of a success and a failure that can be cut to its length.

    What is drawn by the seed is in random order, so that neighbours are a sample of the task: of a large task each
    part is matched separately, then the rest once more.
    """
    drawn = sorted(rollouts, key=lambda r: hashlib.sha256(f"{seed}\0{r.episode.id}".encode()).digest())
    successes = [r for r in drawn if r.episode.labels.success]
    failures = [r for r in drawn if not r.episode.labels.success]
    found: list[tuple[_Rollout, _Rollout]] = []
    for _ in range(ROUNDS):
        parts = math.ceil(math.sqrt(len(successes) * len(failures) / MOST_AT_ONCE))
        some = [
            pair
            for part in range(parts)
            for pair in _maximum_matching(_part(successes, part, parts), _part(failures, part, parts))
        ]
        found += some
        if parts <= 1 or not some:
            break
        used = {rollout.episode.id for pair in some for rollout in pair}
        successes, failures = (
            [rollout for rollout in side if rollout.episode.id not in used] for side in (successes, failures)
        )
    return found


def _part(rollouts: Sequence[_Rollout], part: int, parts: int) -> Sequence[_Rollout]:
    return rollouts[part * len(rollouts) // parts : (part + 1) * len(rollouts) // parts]


def _maximum_matching(
    successes: Sequence[_Rollout], failures: Sequence[_Rollout]
) -> list[tuple[_Rollout, _Rollout]]:
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import maximum_bipartite_matching

    if not successes or not failures:
        return []
    lengths, code = np.unique([s.duration_s for s in successes], return_inverse=True)
    fits = np.array([f.fails_at(lengths) for f in failures]).T[code]
    partner = maximum_bipartite_matching(csr_matrix(fits), perm_type="column")
    return [(successes[i], failures[j]) for i, j in enumerate(partner) if j >= 0]


def _why(rollout: _Rollout, task: str) -> str:
    if rollout.episode.labels.success:
        return f"no failure of {task!r} is left that lasts as long and is known to be one at that length"
    return f"no success of {task!r} is left to whose length it can be cut and be known to be a failure"
