"""Intervals of a rate, from the number of successes and of episodes."""

from __future__ import annotations

import math

from stepscore.errors import OptionError

NO_INTERVAL = (math.nan, math.nan)


def wilson_interval(successes: float, n: float, level: float = 0.95) -> tuple[float, float]:
    """Return Wilson's score interval of a rate (Wilson 1927), as (lo, hi); NaN if ``n`` is 0.

    The rates ``p`` with ``|successes/n - p| <= z sqrt(p (1 - p) / n)``. It covers its level on average over
    rates, not at every rate.

    >>> [round(end, 3) for end in wilson_interval(8, 10)]
    [0.49, 0.943]
    """
    from scipy.special import ndtri

    _check_counts(successes, n)
    return score_interval(successes / n if n else math.nan, n, float(ndtri((1 + check_level(level)) / 2)))


def clopper_pearson_interval(successes: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Return the exact interval of a rate (Clopper and Pearson 1934), as (lo, hi); NaN if ``n`` is 0.

    It covers at least its level at every rate and ``n``, so it is wider than Wilson's.

    >>> [round(end, 3) for end in clopper_pearson_interval(8, 10)]
    [0.444, 0.975]
    """
    from scipy.special import betaincinv

    _check_counts(successes, n)
    tail = (1.0 - check_level(level)) / 2
    if n == 0:
        return NO_INTERVAL
    lo = float(betaincinv(successes, n - successes + 1, tail)) if successes else 0.0
    hi = float(betaincinv(successes + 1, n - successes, 1 - tail)) if successes < n else 1.0
    return lo, hi


def score_interval(rate: float, n: float, quantile: float) -> tuple[float, float]:
    """Return Wilson's interval for an observed rate, a (possibly effective, not whole) sample size and a quantile."""
    if not n > 0:
        return NO_INTERVAL
    q = quantile**2 / n
    centre = (rate + q / 2) / (1 + q)
    half = quantile * math.sqrt((rate * (1 - rate) + q / 4) / n) / (1 + q)
    return max(0.0, centre - half) if rate > 0 else 0.0, min(1.0, centre + half) if rate < 1 else 1.0


def check_level(level: float) -> float:
    """Return ``level``; raise OptionError unless it is between 0 and 1."""
    if not 0 < level < 1:
        raise OptionError(f"level must be between 0 and 1, e.g. 0.95; got {level}.")
    return level


def percent_of(level: float) -> str:
    """Format a level for people: ``"95%"``."""
    return f"{100 * check_level(level):g}%"


def _check_counts(successes: float, n: float) -> None:
    """Raise OptionError unless ``0 <= successes <= n``."""
    if not 0 <= successes <= n:
        raise OptionError(f"A rate needs 0 <= successes <= n; got {successes} of {n}.")
