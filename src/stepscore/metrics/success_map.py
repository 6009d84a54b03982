"""A success map, from a judge's score of an episode to the probability of success.

logit p = a + b x + u_task. A task's term u is shrunk towards 0, and is fitted only if the task has enough
labelled successes and failures. Other tasks use the pooled map (u = 0). Successes and failures have equal
weight within a task, so that p >= 0.5 does not depend on the share of successes among the labelled episodes.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from stepscore.errors import OptionError
from stepscore.metrics.validation import binary, same_length, series
from stepscore.types import FloatArray, IntArray

MIN_OF_EACH = 5
"""Minimum number of labelled successes, and of failures, for a task to get a separate term."""

SLOPE_SD = 10.0
"""Prior standard deviation of the slope, per standard deviation of the score. The prior only matters if the
score separates all labels, because the slope would otherwise be infinite.
"""

TASK_SD = (1e-3, 10.0)
"""Search range for the standard deviation of the task terms."""


@dataclass(frozen=True)
class SuccessMap:
    """A logistic map with intercept a, slope b and a term u for each task (0 for other tasks).

    Attributes:
        task_sd: Prior standard deviation of the task terms; NaN without terms.
    """

    intercept: float
    slope: float
    task_terms: Mapping[str, float] = field(default_factory=dict)
    task_sd: float = math.nan

    def __post_init__(self) -> None:
        for number in (self.intercept, self.slope, *self.task_terms.values()):
            if not math.isfinite(number):
                raise OptionError("A success map must hold finite numbers.")

    def apply(self, scores: ArrayLike, task: str | None = None) -> FloatArray:
        """Return the probability of success at each score, shape (n,); NaN if the score is unknown."""
        x = series(scores, "scores")
        return _sigmoid(self.intercept + self.task_terms.get(task or "", 0.0) + self.slope * x)


def fit_success_map(
    scores: ArrayLike,
    labels: ArrayLike,
    tasks: Sequence[Hashable] | None = None,
    *,
    task_sd: float | None = None,
) -> SuccessMap:
    """Fit a success map by penalised maximum likelihood.

    Minimises sum_i w_i log(1 + exp(-s_i (a + b x_i + u_i))) + (b sd(x) / SLOPE_SD)^2 / 2 + sum_t (u_t /
    task_sd)^2 / 2, with s = 1 for a success and -1 for a failure. In a task of n episodes with a separate
    term, w is n / (2 n_s) for each of the n_s successes, and likewise for failures. All other tasks are
    weighted together in the same way. Unless given, task_sd maximises the marginal likelihood of the labels
    in Laplace's approximation (as for a generalised linear model with a random intercept; Breslow & Clayton
    1993).

    Args:
        scores: Scores in any unit, shape (n,); NaN if unknown.
        labels: 1 (success), 0 (failure) or NaN (unknown).

    Raises:
        OptionError: The known labels have only one class, or all scores are equal.
    """
    x, y = series(scores, "scores"), binary(labels, "labels")
    same_length(x, y, "scores", "labels")
    names = np.array(["" if tasks is None else str(task) for task in (tasks or [""] * len(x))], dtype=object)
    known = np.isfinite(x) & ~np.isnan(y)
    x, y, names = x[known], y[known], names[known]
    if not np.any(y == 1) or not np.any(y == 0):
        raise OptionError(
            f"A success map needs labelled successes and failures; {int(np.sum(y == 1))} and {int(np.sum(y == 0))} "
            "episodes have a known score."
        )
    spread = float(np.std(x))
    if spread < 1e-12:
        raise OptionError("A success map needs scores that differ, but all episodes have the same score.")
    own = own_terms(y, names.tolist()) if tasks is not None else []
    group = _groups(names, own)
    centre = float(np.mean(x))
    problem = _Problem((x - centre) / spread, y, group, _weights(y, group, len(own)), len(own))
    chosen = task_sd if task_sd is not None else problem.likeliest_sd()
    fitted = problem.solve(chosen)
    slope = float(fitted[1]) / spread
    terms = dict(zip(own, fitted[2:].tolist(), strict=True))
    return SuccessMap(float(fitted[0]) - slope * centre, slope, terms, chosen if own else math.nan)


def own_terms(labels: FloatArray, tasks: Sequence[Hashable], min_of_each: int = MIN_OF_EACH) -> list[str]:
    """Return the sorted tasks with enough labelled successes and failures for a separate term."""
    named = np.array([str(task) for task in tasks], dtype=object)
    counts = {
        str(task): [int(np.sum(labels[named == task] == value)) for value in (0, 1)] for task in set(named)
    }
    return sorted(task for task, each in counts.items() if min(each) >= min_of_each)


def balanced_brier(predicted: ArrayLike, labels: ArrayLike) -> float:
    """Return the Brier score with equal weight for successes and failures; NaN unless both occur."""
    p, y = series(predicted, "predicted"), binary(labels, "labels")
    squares = [np.square(p[(y == value) & ~np.isnan(p)] - value) for value in (0, 1)]
    return float(np.mean([each.mean() for each in squares])) if all(map(len, squares)) else math.nan


def balanced_ece(predicted: ArrayLike, labels: ArrayLike, *, bins: int = 10) -> float:
    """Return the expected calibration error with equal weight for successes and failures; NaN unless both occur.

    sum_b W_b |mean p - share of successes|, both weighted, with W_b the bin's share of the total weight
    (Naeini et al. 2015).
    """
    p, y = series(predicted, "predicted"), binary(labels, "labels")
    known = ~np.isnan(p) & ~np.isnan(y)
    p, y = p[known], y[known]
    if not np.any(y == 1) or not np.any(y == 0):
        return math.nan
    w = np.where(y == 1, 0.5 / np.sum(y == 1), 0.5 / np.sum(y == 0))
    bin_of = np.minimum((p * bins).astype(int), bins - 1)
    return float(np.sum(np.abs(np.bincount(bin_of, weights=w * (p - y), minlength=bins))))


@dataclass(frozen=True)
class _Problem:
    """Labels with standardised scores; ``group`` is the index of a task with a term, and -1 for other tasks."""

    x: FloatArray
    y: FloatArray
    group: IntArray
    w: FloatArray
    terms: int

    def solve(self, task_sd: float) -> FloatArray:
        """Return intercept, slope and terms that minimise the penalised loss, by Newton's method."""
        theta = np.zeros(2 + self.terms)
        design = np.column_stack([np.ones(len(self.x)), self.x, self._indicators()])
        penalty = np.concatenate([[0.0, SLOPE_SD**-2], np.full(self.terms, task_sd**-2)])
        loss = self._loss(theta, design, penalty)
        for _ in range(200):
            p = _sigmoid(design @ theta)
            gradient = design.T @ (self.w * (p - self.y)) + penalty * theta
            hessian = (design * (self.w * p * (1 - p))[:, None]).T @ design + np.diag(penalty)
            # The ridge keeps the step finite if all p are 0 or 1, and does not move the minimum.
            step = np.linalg.solve(hessian + 1e-10 * np.eye(len(theta)), gradient)
            scale = 1.0
            while scale > 1e-6 and self._loss(theta - scale * step, design, penalty) > loss:
                scale /= 2
            theta = theta - scale * step
            loss = self._loss(theta, design, penalty)
            if float(np.max(np.abs(scale * step))) < 1e-10:
                break
        return theta

    def likeliest_sd(self) -> float:
        """Return the standard deviation of the terms that maximises the marginal likelihood."""
        if not self.terms:
            return TASK_SD[1]
        from scipy.optimize import minimize_scalar

        bounds = (math.log(TASK_SD[0]), math.log(TASK_SD[1]))
        found = minimize_scalar(
            lambda log_sd: -self._evidence(math.exp(log_sd)), bounds=bounds, method="bounded"
        )
        return math.exp(float(found.x))

    def _evidence(self, task_sd: float) -> float:
        """Return Laplace's approximation of the labels' log-likelihood with the terms integrated out.

        log p(y | theta) - sum u^2 / (2 sd^2) - sum log(1 + sd^2 h_t) / 2, where h_t is the information about
        task t's term.
        """
        theta = self.solve(task_sd)
        linear = theta[0] + theta[1] * self.x + self._indicators() @ theta[2:]
        p = _sigmoid(linear)
        information = np.bincount(
            self.group[self.group >= 0],
            weights=(self.w * p * (1 - p))[self.group >= 0],
            minlength=self.terms,
        )
        likelihood = -float(self.w @ _losses(linear, self.y))
        shrinkage = float(np.sum(theta[2:] ** 2)) / (2 * task_sd**2)
        return likelihood - shrinkage - 0.5 * float(np.sum(np.log1p(task_sd**2 * information)))

    def _indicators(self) -> FloatArray:
        indicators: FloatArray = (self.group[:, None] == np.arange(self.terms)[None, :]).astype(np.float64)
        return indicators

    def _loss(self, theta: FloatArray, design: FloatArray, penalty: FloatArray) -> float:
        return float(self.w @ _losses(design @ theta, self.y) + 0.5 * penalty @ theta**2)


def _groups(names: np.ndarray[tuple[int], np.dtype[np.object_]], own: Sequence[str]) -> IntArray:
    number = {task: i for i, task in enumerate(own)}
    return np.array([number.get(name, -1) for name in names], dtype=np.int64)


def _weights(y: FloatArray, group: IntArray, terms: int) -> FloatArray:
    """Return weights that balance successes and failures within each group and keep the group's total.

    The tasks without a term form one group. If that group has only one class, it gets weight 0.
    """
    w = np.zeros(len(y))
    for number in range(-1, terms):
        members = group == number
        for value in (0, 1):
            mine = members & (y == value)
            if 0 < np.sum(mine) < np.sum(members):
                w[mine] = np.sum(members) / (2 * np.sum(mine))
    return w


def _losses(linear: FloatArray, y: FloatArray) -> FloatArray:
    return np.logaddexp(0.0, np.where(y == 1, -linear, linear))


def _sigmoid(values: FloatArray) -> FloatArray:
    return 0.5 * (1.0 + np.tanh(values / 2))
