"""Comparison of two arms A and B, e.g. two policies or two judges: is A better, and by how much?

Episodes that share a key (one scene for two policies, one episode for two judges) are compared as pairs,
others by arm within strata. The result has the difference with its interval, a test, the probability of
improvement, and the smallest difference that the sample could show.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from stepscore.errors import OptionError
from stepscore.metrics.stats.comparison_result import (
    Comparison,
    bonett_price_interval,
    build_comparison,
    detectable_difference,
    detectable_rate_difference,
    difference_interval,
    paired_rates_error,
)
from stepscore.metrics.stats.comparisons.unpaired import compare_unpaired
from stepscore.metrics.stats.intervals import too_small
from stepscore.metrics.stats.rate_intervals import check_level
from stepscore.metrics.stats.sample import (
    GroupLabels,
    LinearStatistic,
    Sample,
    draw_sample,
    is_missing,
    mean_of,
    stands_first,
)
from stepscore.metrics.stats.significance import N_DRAWS, Significance, mcnemar_test, sign_flip_test
from stepscore.metrics.stats.studentised import T_DRAWS, bootstrap_t_test, decided, larger_p_value
from stepscore.types import FloatArray


def compare_samples(
    a: ArrayLike,
    b: ArrayLike,
    *,
    keys: tuple[GroupLabels, GroupLabels] | None = None,
    strata: tuple[GroupLabels, GroupLabels] | None = None,
    clusters: tuple[GroupLabels, GroupLabels] | None = None,
    paired: bool | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> Comparison:
    """Compare A with B, paired on shared keys if there are enough of them, else by arm.

    Args:
        a: A number or NaN (unknown) per episode of A; ``b`` likewise.
        keys: A key per episode of each arm; equal keys make a pair: (task, pair) for two policies, the
            episode's id for
        two judges. Episodes of one arm with one key are averaged into one unit. ``None`` or "" means no key.
        strata: A label per episode of each arm, e.g. its task.
        clusters: A label per episode of each arm; episodes with the same stratum and label are not
            independent.
        paired: Whether to compare as pairs; by default, if at least half of the smaller arm's keys are
            shared. Other
        episodes then count against coverage.

    Raises:
        OptionError: ``paired=True`` without keys, or labels that do not fit the values.

    >>> compare_samples([0.9, 0.8, 0.7], [0.5, 0.6, 0.6], keys=(["x", "y", "z"], ["z", "y", "x"])).paired
    True
    """
    if paired and keys is None:
        raise OptionError("Pairs need keys: give keys=(keys of a, keys of b), or compare with paired=False.")
    pairs = None
    if keys is not None and paired is not False:
        pairs = in_pairs(a, b, keys=keys, strata=strata, clusters=clusters, always=bool(paired))
    if pairs is None:
        return compare_unpaired(a, b, strata=strata, clusters=clusters, level=level, seed=seed)
    return compare_paired(
        pairs.a, pairs.b, strata=pairs.strata, clusters=pairs.clusters, level=level, seed=seed
    )


@dataclass(frozen=True)
class Pairs:
    """Two arms joined on their keys, one row per key.

    Attributes:
        a: Mean of A's episodes of each key; NaN without any. ``b`` likewise.
        repeated: Whether some key has several episodes of one arm.
    """

    a: list[float]
    b: list[float]
    strata: list[Hashable] | None
    clusters: list[Hashable] | None
    repeated: bool


def in_pairs(
    a: ArrayLike,
    b: ArrayLike,
    *,
    keys: tuple[GroupLabels, GroupLabels],
    strata: tuple[GroupLabels, GroupLabels] | None = None,
    clusters: tuple[GroupLabels, GroupLabels] | None = None,
    always: bool = False,
) -> Pairs | None:
    """Join two arms on their keys; ``None`` if too few are shared, unless ``always``."""
    if not (always or _mostly_shared(*keys)):
        return None
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    rows_a, rows_b = _rows_by_key(first, keys[0], "a"), _rows_by_key(second, keys[1], "b")
    everyone = list(rows_a | rows_b)

    def labels_of(labels: tuple[GroupLabels, GroupLabels] | None) -> list[Hashable] | None:
        if labels is None:
            return None
        return [labels[0][rows_a[k][0]] if k in rows_a else labels[1][rows_b[k][0]] for k in everyone]

    return Pairs(
        [_known_mean(first[rows_a.get(key, [])]) for key in everyone],
        [_known_mean(second[rows_b.get(key, [])]) for key in everyone],
        labels_of(strata),
        labels_of(clusters),
        any(len(rows) > 1 for rows in (*rows_a.values(), *rows_b.values())),
    )


def _mostly_shared(keys_a: GroupLabels, keys_b: GroupLabels) -> bool:
    a, b = ({key for key in keys if not is_missing(key)} for keys in (keys_a, keys_b))
    return len(a & b) > 0 and 2 * len(a & b) >= min(len(a), len(b))


def _rows_by_key(values: FloatArray, keys: GroupLabels, arm: str) -> dict[Hashable, list[int]]:
    """Group the rows by key; a row without a key gets a unique one."""
    if len(keys) != len(values):
        raise OptionError(f"There are {len(keys)} keys for {len(values)} episodes of {arm}; give one each.")
    rows: dict[Hashable, list[int]] = {}
    for row, key in enumerate(keys):
        rows.setdefault(("no key", arm, row) if is_missing(key) else ("key", key), []).append(row)
    return rows


def _known_mean(values: FloatArray) -> float:
    known = values[~np.isnan(values)]
    return float(np.mean(known)) if len(known) else math.nan


def compare_paired(
    a: ArrayLike,
    b: ArrayLike,
    *,
    strata: GroupLabels | None = None,
    clusters: GroupLabels | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> Comparison:
    """Compare A with B as pairs ``a[i]``, ``b[i]``; pairs with an unknown value are left out.

    The difference is the mean of ``a - b``, with a BCa bootstrap interval, cluster-robust t for clustered
    pairs, or Bonett-Price for 0/1 outcomes. The p-value is the larger of a sign-flip test (symmetry; a
    cluster flips as one) and the bootstrap-t (the mean), or McNemar's for 0/1 outcomes. B against A gives the
    same with the signs reversed. The smallest detectable difference is ``(t_(1 - alpha/2) + t_0.8) SE``.

    >>> compare_paired([1, 1, 1, 0], [0, 0, 0, 0]).test
    'McNemar exact'
    """
    check_level(level)
    sample = draw_sample(a, b, strata=strata, clusters=clusters)
    reverse = draw_sample(b, a, strata=strata, clusters=clusters)
    if stands_first(sample, reverse):
        return _compare(sample, level, seed)
    return _compare(reverse, level, seed).swapped()


def _compare(sample: Sample, level: float, seed: int) -> Comparison:
    """Compare the sample's first column with its second."""
    gain = sample.columns[0] - sample.columns[1]
    mean = mean_of(sample, gain)
    withheld = too_small(sample)
    if sample.n and not sample.clustered and np.all(np.isin(sample.columns, (0.0, 1.0))):
        won, lost = int(np.sum(gain > 0)), int(np.sum(gain < 0))
        interval = bonett_price_interval(won, lost, sample.n, level)
        significance = mcnemar_test(won, lost)
        detectable = detectable_rate_difference(paired_rates_error(won, lost, sample.n), level)
    else:
        interval = difference_interval(mean, withheld, clustered=sample.clustered, level=level, seed=seed)
        significance = decided(partial(_test, sample, gain, mean, seed), sample.units)
        detectable = detectable_difference(mean.standard_error, mean.degrees_of_freedom, level)
    return build_comparison(
        (sample,),
        mean.value,
        interval,
        significance=significance,
        improvement=mean_of(sample, (np.sign(gain) + 1) / 2),
        detectable=detectable,
        withheld=withheld,
        level=level,
        # That of all signs alike, of which there are two.
        least_p_value=min(1.0, 2.0 ** (1 - sample.units)),
    )


def _test(sample: Sample, gain: FloatArray, mean: LinearStatistic, seed: int, times: int) -> Significance:
    """Return the larger p-value of flipped signs and the bootstrap-t, with ``times`` the usual draws."""
    totals, draws = sample.totals(gain), (N_DRAWS + 1) * times - 1
    flips = sign_flip_test(totals, episodes=sample.n, seed=seed, draws=draws)
    resampled = bootstrap_t_test(mean, seed=seed, draws=(T_DRAWS + 1) * times - 1)
    return larger_p_value(flips, resampled, sample.units)
