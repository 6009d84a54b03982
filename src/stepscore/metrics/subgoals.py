"""Metrics of subgoal failures, from a matrix of verdicts (episodes by ordered subgoals).

Entries are 1 (reached), 0 (not reached) or NaN (unknown). Intervals and comparisons use the per-episode
series: `conditional_success_indicator`, `first_failed_subgoal` and `order_violation_indicator`. The vector of
rates is StepEval's main result (arXiv 2509.19524).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stepscore.errors import OptionError
from stepscore.metrics.validation import binary
from stepscore.types import FloatArray, IntArray


@dataclass(frozen=True)
class SubgoalRates:
    """A rate for each subgoal over its n known entries, shape (K,); NaN without known entries.

    ``coverage`` is n over the eligible entries.
    """

    rate: FloatArray
    n: IntArray
    coverage: FloatArray


@dataclass(frozen=True)
class FirstFailures:
    """Counts of episodes by the subgoal they fail first, shape (K,).

    Attributes:
        none: Episodes that reached every subgoal.
        unknown: Episodes with an unknown verdict before any failure.
    """

    counts: IntArray
    none: int
    unknown: int

    @property
    def n(self) -> int:
        """Number of all episodes."""
        return int(self.counts.sum()) + self.none + self.unknown

    @property
    def shares(self) -> FloatArray:
        """Shares of all episodes, shape (K + 2,): first failed at each subgoal, none failed, unknown."""
        return np.append(self.counts, [self.none, self.unknown]) / (self.n or np.nan)


@dataclass(frozen=True)
class OrderViolations:
    """Episodes in which a later subgoal is reached without an earlier one.

    Attributes:
        rate: Share of violations among the n episodes for which the verdicts decide.
        pairs: ``pairs[i, j]``, i < j: episodes in which subgoal j is reached and i is not, shape (K, K).
    """

    rate: float
    n: int
    coverage: float
    pairs: IntArray


def verdict_coverage(matrix: ArrayLike) -> FloatArray:
    """Return the share of episodes with a known verdict, per subgoal, shape (K,); NaN without episodes."""
    verdicts = _verdicts(matrix)
    return np.asarray(np.sum(~np.isnan(verdicts), axis=0) / (len(verdicts) or np.nan))


def success_vector(matrix: ArrayLike) -> SubgoalRates:
    """Return the success rate of each subgoal over the episodes whose verdict is known."""
    verdicts = _verdicts(matrix)
    return _rates(verdicts, np.full(verdicts.shape[1], len(verdicts)))


def conditional_success(matrix: ArrayLike) -> SubgoalRates:
    """Return the success rate of each subgoal given that the previous was reached; the first is unconditional.

    rate_k = P(s_k = 1 | s_{k-1} = 1). The conditional rate shows at which subgoal episodes fail; the plain
    success vector only shows how many episodes get that far. Coverage counts only episodes known to have
    reached the previous subgoal.
    """
    verdicts = _verdicts(matrix)
    arrived = np.column_stack([np.ones(len(verdicts)), verdicts[:, :-1]]) == 1
    return _rates(np.where(arrived, verdicts, np.nan), arrived.sum(axis=0))


def conditional_success_indicator(matrix: ArrayLike, k: int) -> FloatArray:
    """Return 1 or 0 per episode for subgoal k (from 0) if k - 1 was reached; NaN otherwise or if unknown."""
    verdicts = _verdicts(matrix)
    if not 0 <= k < verdicts.shape[1]:
        raise OptionError(f"subgoal index must be in 0..{verdicts.shape[1] - 1}, got {k}.")
    return verdicts[:, 0].copy() if k == 0 else np.where(verdicts[:, k - 1] == 1, verdicts[:, k], np.nan)


def first_failed_subgoal(matrix: ArrayLike) -> FloatArray:
    """Return the index of the first failed subgoal per episode; K if none failed, NaN if unknown.

    The index is unknown if an unknown verdict comes before the first known failure, or if there is an unknown
    verdict and no failure.
    """
    verdicts = _verdicts(matrix)
    k = verdicts.shape[1]
    stopped = verdicts != 1
    at = np.where(stopped.any(axis=1), stopped.argmax(axis=1), k)
    failed = np.column_stack([verdicts, np.zeros(len(verdicts))])[np.arange(len(verdicts)), at] == 0
    return np.where(failed, at, np.nan)


def first_failure_histogram(matrix: ArrayLike) -> FirstFailures:
    """Count the episodes by their first failed subgoal: each subgoal, none, or unknown."""
    k = _verdicts(matrix).shape[1]
    at = first_failed_subgoal(matrix)
    counts = np.bincount(at[~np.isnan(at)].astype(np.int64), minlength=k + 1).astype(np.int64)
    return FirstFailures(counts=counts[:k], none=int(counts[k]), unknown=int(np.isnan(at).sum()))


def order_violation_indicator(matrix: ArrayLike) -> FloatArray:
    """Return 1 per episode in which a later subgoal is reached and an earlier one is not, else 0.

    NaN if no known pair violates the order but unknown verdicts could.
    """
    verdicts = _verdicts(matrix)
    unknown = np.isnan(verdicts)
    certain = _missing_before(verdicts == 0) & (verdicts == 1)
    possible = _missing_before((verdicts == 0) | unknown) & ((verdicts == 1) | unknown)
    open_ = possible.any(axis=1) & ~certain.any(axis=1)
    return np.where(open_, np.nan, certain.any(axis=1).astype(np.float64))


def order_violations(matrix: ArrayLike) -> OrderViolations:
    """Return the share of episodes that reach a later subgoal without an earlier one, and the pairs involved.

    If the subgoals depend on one another, a violation is the judge's mistake; otherwise it is a property of
    the policy. The metric cannot distinguish the two.
    """
    verdicts = _verdicts(matrix)
    violated = order_violation_indicator(matrix)
    known = violated[~np.isnan(violated)]
    pairs = (verdicts == 0).astype(np.int64).T @ (verdicts == 1).astype(np.int64)
    return OrderViolations(
        rate=float(known.mean()) if len(known) else float("nan"),
        n=len(known),
        coverage=len(known) / len(verdicts) if len(verdicts) else float("nan"),
        pairs=np.triu(pairs, 1),
    )


def _verdicts(matrix: ArrayLike) -> FloatArray:
    verdicts = binary(matrix, "verdict matrix (episodes x subgoals)", ndim=2)
    if not verdicts.shape[1]:
        raise OptionError("The verdict matrix has no subgoals; expected at least one column.")
    return verdicts


def _rates(entries: FloatArray, eligible: IntArray) -> SubgoalRates:
    known = ~np.isnan(entries)
    n = known.sum(axis=0).astype(np.int64)
    reached = np.where(known, entries, 0.0).sum(axis=0)
    return SubgoalRates(
        rate=reached / np.where(n, n, np.nan), n=n, coverage=n / np.where(eligible, eligible, np.nan)
    )


def _missing_before(missing: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return whether an entry strictly before this one in its row is set."""
    so_far = np.logical_or.accumulate(missing, axis=1)
    return np.column_stack([np.zeros(len(so_far), dtype=np.bool_), so_far[:, :-1]])
