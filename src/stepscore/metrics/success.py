"""Does a score separate success from failure? Ranking, answers at a threshold, and fitting that threshold.

Labels and answers are 1 (yes), 0 (no) or NaN (unknown). Points with an unknown score or label are left out;
`confusion` and `best_threshold` count them, `stepscore.metrics.known_share` is the coverage of the other
metrics. With labels of one class, every metric here is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from stepscore.errors import OptionError
from stepscore.metrics.order import average_ranks
from stepscore.metrics.validation import binary, known_pairs, series
from stepscore.types import FloatArray

CountStatistic = Callable[[FloatArray, FloatArray, FloatArray, FloatArray], FloatArray]
"""A function of arrays of true and false positives, false and true negatives."""

Criterion = Literal["balanced_accuracy", "mcc", "accuracy"]
CRITERIA: tuple[Criterion, ...] = ("balanced_accuracy", "mcc", "accuracy")


@dataclass(frozen=True, slots=True)
class Confusion:
    """Counts of answers against labels; ``unknown`` counts the points where either is unknown."""

    tp: int
    fp: int
    fn: int
    tn: int
    unknown: int

    @property
    def n(self) -> int:
        """Points with a known answer and label."""
        return self.tp + self.fp + self.fn + self.tn


@dataclass(frozen=True, slots=True)
class Threshold:
    """A fitted threshold; the answer is yes at or above ``value``.

    Attributes:
        value: -inf or inf if one answer to all was best, NaN if the labels hold one class.
        score: The criterion on the split it was fitted on: optimistic, not a result.
    """

    value: float
    criterion: Criterion
    score: float
    n: int
    unknown: int


def roc_auc(scores: ArrayLike, labels: ArrayLike) -> float:
    """Return the area under the ROC curve: how often a success outscores a failure, a tie counting one half.

    AUC = (sum of the successes' average ranks - P(P+1)/2) / (P N) (Mann-Whitney's U; Hanley & McNeil 1982).
    0..1, 0.5 is chance.
    """
    known, truth = _scored(scores, labels)
    positives = int(truth.sum())
    negatives = len(truth) - positives
    if not positives or not negatives:
        return math.nan
    rank_sum = average_ranks(known)[truth == 1].sum()
    return float((rank_sum - positives * (positives + 1) / 2) / (positives * negatives))


def average_precision(scores: ArrayLike, labels: ArrayLike) -> float:
    """Return the average precision: precision at each distinct score, weighted by the recall gained there.

    AP = sum_n (R_n - R_{n-1}) P_n, scores falling, without interpolation (scikit-learn's definition). 0..1;
    chance is the share of successes, so compare only on equal shares.
    """
    known, truth = _scored(scores, labels)
    positives = truth.sum()
    if positives in (0, len(truth)):
        return math.nan
    order = np.argsort(-known, kind="stable")
    # Compared, not subtracted: two infinite log-probabilities are equal and have no difference.
    last_of_tie = np.append(known[order[1:]] != known[order[:-1]], True)
    hits = np.cumsum(truth[order])[last_of_tie]
    precision = hits / (np.flatnonzero(last_of_tie) + 1)
    return float(np.sum(np.diff(hits / positives, prepend=0.0) * precision))


def confusion(answers: ArrayLike, labels: ArrayLike) -> Confusion:
    """Count the answers against the labels."""
    given, truth = binary(answers, "answers"), binary(labels, "labels")
    total = len(given)
    given, truth = known_pairs(given, truth, "answers", "labels")
    tp, fp = int(np.sum(given * truth)), int(np.sum(given * (1 - truth)))
    fn = int(truth.sum()) - tp
    return Confusion(tp=tp, fp=fp, fn=fn, tn=len(given) - tp - fp - fn, unknown=total - len(given))


def balanced_accuracy(answers: ArrayLike, labels: ArrayLike) -> float:
    """Return the mean of the accuracy on successes and on failures: (tp/(tp+fn) + tn/(tn+fp)) / 2.

    0..1, 0.5 for any answer that ignores the episode.
    """
    counts = confusion(answers, labels)
    return float(_criterion("balanced_accuracy", counts.tp, counts.fp, counts.fn, counts.tn))


def precision(answers: ArrayLike, labels: ArrayLike) -> float:
    """Return the share of yes answers that are right, tp/(tp+fp); NaN without a yes."""
    counts = confusion(answers, labels)
    return counts.tp / (counts.tp + counts.fp) if counts.tp + counts.fp else math.nan


def recall(answers: ArrayLike, labels: ArrayLike) -> float:
    """Return the share of successes that are answered yes, tp/(tp+fn); NaN without a success."""
    counts = confusion(answers, labels)
    return counts.tp / (counts.tp + counts.fn) if counts.tp + counts.fn else math.nan


def f1(answers: ArrayLike, labels: ArrayLike) -> float:
    """Return the harmonic mean of precision and recall, 2 tp/(2 tp + fp + fn).

    0..1, higher is better; NaN if no success is labelled or answered. It ignores true negatives: yes to all
    has the F1 of the share of successes, 2 s/(1 + s).
    """
    counts = confusion(answers, labels)
    wrong = counts.fp + counts.fn
    return 2 * counts.tp / (2 * counts.tp + wrong) if counts.tp + wrong else math.nan


def mcc(answers: ArrayLike, labels: ArrayLike) -> float:
    """Return Matthews' correlation of answers and labels, -1..1, higher is better.

    MCC = (tp tn - fp fn) / sqrt((tp+fp)(tp+fn)(tn+fp)(tn+fn)) (Matthews 1975); 0 for one answer to all
    (scikit-learn's convention). ProcVLM's MCC@95 is this on ``apply_threshold(progress, 0.95)``.
    """
    counts = confusion(answers, labels)
    return float(_criterion("mcc", counts.tp, counts.fp, counts.fn, counts.tn))


def cohen_kappa(answers: ArrayLike, labels: ArrayLike) -> float:
    """Return Cohen's kappa: agreement beyond random answers with the same shares of yes, -1..1.

    kappa = (a - e) / (1 - e), a the share of equal answers, e = q l + (1 - q)(1 - l) for the shares of yes q
    among answers and l among labels (Cohen 1960). 0 for one answer to all.
    """
    c = confusion(answers, labels)
    if not c.tp + c.fn or not c.tn + c.fp:
        return math.nan
    yes, true = (c.tp + c.fp) / c.n, (c.tp + c.fn) / c.n
    by_chance = yes * true + (1 - yes) * (1 - true)
    return ((c.tp + c.tn) / c.n - by_chance) / (1 - by_chance)


def _f1_of_counts(tp: FloatArray, fp: FloatArray, fn: FloatArray, tn: FloatArray) -> FloatArray:
    del tn
    some = 2 * tp + (fp + fn)
    return np.asarray(2 * tp / np.where(some > 0, some, np.nan))


def _kappa_of_counts(tp: FloatArray, fp: FloatArray, fn: FloatArray, tn: FloatArray) -> FloatArray:
    n = np.where((tp + fn > 0) & (tn + fp > 0), tp + fp + fn + tn, np.nan)
    yes, true = (tp + fp) / n, (tp + fn) / n
    by_chance = yes * true + (1 - yes) * (1 - true)
    return np.asarray(((tp + tn) / n - by_chance) / (1 - by_chance))


OF_COUNTS: Mapping[Callable[..., float], CountStatistic] = {
    balanced_accuracy: lambda *counts: _criterion("balanced_accuracy", *counts),
    mcc: lambda *counts: _criterion("mcc", *counts),
    f1: _f1_of_counts,
    cohen_kappa: _kappa_of_counts,
}
"""The same statistics from the counts of many samples at once, by the same operations, so bitwise equal."""


def best_threshold(
    scores: ArrayLike, labels: ArrayLike, criterion: Criterion = "balanced_accuracy"
) -> Threshold:
    """Fit the threshold that maximises ``criterion`` on this split; apply it to another with `apply_threshold`.

    Candidates are the midpoints between neighbouring distinct scores, -inf and inf. Among equally good ones
    it is the finite one in the widest gap (the least likely to cut the next split's scores elsewhere), then
    the lowest.
    """
    if criterion not in CRITERIA:
        raise OptionError(f"criterion must be one of {', '.join(CRITERIA)}, got {criterion!r}.")
    known, truth = _scored(scores, labels)
    n, unknown = len(known), np.size(labels) - len(known)
    if not n or truth.min() == truth.max():
        return Threshold(math.nan, criterion, math.nan, n, unknown)
    distinct, code = np.unique(known, return_inverse=True)
    # Entry i describes answering yes from distinct[i] on; entry len(distinct), always no.
    yes = np.append(np.cumsum(np.bincount(code)[::-1])[::-1], 0)
    tp = np.append(np.cumsum(np.bincount(code, weights=truth)[::-1])[::-1], 0)
    positives = truth.sum()
    quality = _criterion(criterion, tp, yes - tp, positives - tp, n - yes - positives + tp)
    with np.errstate(invalid="ignore"):  # between -inf and inf scores
        middle = distinct[:-1] / 2 + distinct[1:] / 2
        gap = np.concatenate(([-np.inf], np.diff(distinct), [-np.inf]))
    # Between two neighbouring floats there is no middle: the upper one still separates them.
    middle = np.where((middle > distinct[:-1]) & (middle <= distinct[1:]), middle, distinct[1:])
    candidates = np.concatenate(([-np.inf], middle, [np.inf]))
    best = quality >= quality.max() - 1e-12
    choice = np.flatnonzero(best)[np.argmax(gap[best])]
    return Threshold(float(candidates[choice]), criterion, float(quality[choice]), n, unknown)


def apply_threshold(scores: ArrayLike, threshold: float | Threshold) -> FloatArray:
    """Return 1 for scores at or above the threshold, 0 below it, NaN if the score or the threshold is unknown."""
    value = threshold.value if isinstance(threshold, Threshold) else float(threshold)
    known = series(scores, "scores")
    answers = (known >= value).astype(np.float64)
    answers[np.isnan(known) | math.isnan(value)] = np.nan
    return answers


def _scored(scores: ArrayLike, labels: ArrayLike) -> tuple[FloatArray, FloatArray]:
    return known_pairs(series(scores, "scores"), binary(labels, "labels"), "scores", "labels")


def _criterion(
    name: Criterion,
    tp: FloatArray | float,
    fp: FloatArray | float,
    fn: FloatArray | float,
    tn: FloatArray | float,
) -> FloatArray:
    """Compute a criterion from counts, numbers or arrays; NaN if a class is missing."""
    tp, fp, fn, tn = (np.asarray(x, dtype=np.float64) for x in (tp, fp, fn, tn))
    positives, negatives = tp + fn, tn + fp
    both = (positives > 0) & (negatives > 0)
    positives, negatives = np.where(both, positives, np.nan), np.where(both, negatives, np.nan)
    if name == "balanced_accuracy":
        return np.asarray((tp / positives + tn / negatives) / 2)
    if name == "accuracy":
        return np.asarray((tp + tn) / (positives + negatives))
    # Where one answer is given to all, the numerator is 0 too; 1 stands for the missing margin.
    margin = np.where((tp + fp == 0) | (tn + fn == 0), 1.0, (tp + fp) * (tn + fn))
    return np.asarray((tp * tn - fp * fn) / np.sqrt(positives * negatives * margin))
