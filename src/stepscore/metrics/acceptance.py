"""Which answers to accept: the error among the surest answers against their share.

An answer's confidence is max(p, 1 - p) of its probability p; the surest are accepted first, equal ones
together (selective prediction; El-Yaniv and Wiener, JMLR 11, 1605-1641, 2010).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from stepscore.errors import OptionError
from stepscore.metrics.validation import binary, known_pairs, series
from stepscore.types import FloatArray, IntArray


@dataclass(frozen=True)
class RiskCoverage:
    """The error among accepted answers at every confidence threshold, from the highest down, shape (k,) each."""

    confidence: FloatArray
    accepted: IntArray
    wrong: IntArray
    n: int

    @property
    def coverage(self) -> FloatArray:
        """Share of answers accepted."""
        return np.asarray(self.accepted / self.n)

    @property
    def risk(self) -> FloatArray:
        """Share of accepted answers that are wrong."""
        return np.asarray(self.wrong / self.accepted)


def risk_coverage(probability: ArrayLike, labels: ArrayLike) -> RiskCoverage:
    """Return the error among accepted answers at every threshold; pairs with an unknown value are left out.

    The answer is yes from a probability of 0.5; labels are 1, 0 or NaN.
    """
    p, truth = known_pairs(
        series(probability, "probability"), binary(labels, "labels"), "probability", "labels"
    )
    if np.any((p < 0) | (p > 1)):
        raise OptionError(f"probability spans {p.min():g}..{p.max():g}; expected 0..1.")
    sure = np.maximum(p, 1 - p)
    wrong = (p >= 0.5) != (truth == 1)
    borders, code = np.unique(-sure, return_inverse=True)
    accepted = np.cumsum(np.bincount(code, minlength=len(borders)))
    errors = np.cumsum(np.bincount(code, weights=wrong, minlength=len(borders)))
    return RiskCoverage(-borders, accepted.astype(np.int64), errors.astype(np.int64), len(p))


def accept_threshold(probability: ArrayLike, labels: ArrayLike, max_error: float) -> float:
    """Return the lowest confidence at which at most ``max_error`` of the accepted answers are wrong.

    0.5 accepts all; infinite if not even the surest answers suffice; NaN without a known pair.
    """
    if not 0 <= max_error < 1:
        raise OptionError(f"max_error must be from 0 to below 1, got {max_error}.")
    found = risk_coverage(probability, labels)
    if not found.n:
        return math.nan
    good = np.flatnonzero(found.risk <= max_error)
    if not len(good):
        return math.inf
    # Where all are accepted, one that is less sure than any here is accepted too.
    return 0.5 if good[-1] == len(found.risk) - 1 else float(found.confidence[good[-1]])
