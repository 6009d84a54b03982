"""Comparison of two arms A and B, e.g. two policies or two judges: is A better, and by how much?

Episodes that share a key (one scene for two policies, one episode for two judges) are compared as pairs, others
by arm within strata. Either way the result is the difference with its interval, a test, the probability of
improvement, and the smallest difference that the sample could have shown.
"""

from __future__ import annotations

import math
from collections.abc import Hashable

import numpy as np
from numpy.typing import ArrayLike

from stepscore.errors import OptionError
from stepscore.metrics.stats.comparison_result import Comparison
from stepscore.metrics.stats.paired import compare_paired
from stepscore.metrics.stats.sample import GroupLabels, is_missing
from stepscore.metrics.stats.unpaired import compare_unpaired
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
    """Compare A with B, paired on shared keys where there are enough of them, else by arm.

    Args:
        a: A number or NaN (unknown) per episode of A.
        b: The same for B.
        keys: A key per episode of each arm; episodes with the same key are a pair: (task, pair) for two
            policies, the episode's id for two judges. Episodes of one arm with one key are averaged: the key
            is then the unit. ``None`` or an empty string means no key.
        strata: A label per episode of each arm, e.g. its task.
        clusters: A label per episode of each arm; episodes of one stratum and label are not independent.
        paired: Whether to compare as pairs. ``None``: as pairs when at least half of the smaller arm's keys
            are shared. Episodes whose key is not shared then count against coverage.
        level: Nominal coverage of the intervals.
        seed: Seed of resampling and of drawn permutations.

    Raises:
        OptionError: ``paired=True`` without keys, or labels that do not fit the values.

    >>> compare_samples([0.9, 0.8, 0.7], [0.5, 0.6, 0.6], keys=(["x", "y", "z"], ["z", "y", "x"])).paired
    True
    """
    if paired and keys is None:
        raise OptionError("Pairs need keys: give keys=(keys of a, keys of b), or compare with paired=False.")
    if keys is None or paired is False or not (paired or _mostly_shared(*keys)):
        return compare_unpaired(a, b, strata=strata, clusters=clusters, level=level, seed=seed)
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    rows_a, rows_b = _rows_by_key(first, keys[0], "a"), _rows_by_key(second, keys[1], "b")
    everyone = list(rows_a | rows_b)

    def labels_of(labels: tuple[GroupLabels, GroupLabels] | None) -> list[Hashable] | None:
        if labels is None:
            return None
        return [labels[0][rows_a[k][0]] if k in rows_a else labels[1][rows_b[k][0]] for k in everyone]

    return compare_paired(
        [_known_mean(first[rows_a.get(key, [])]) for key in everyone],
        [_known_mean(second[rows_b.get(key, [])]) for key in everyone],
        strata=labels_of(strata),
        clusters=labels_of(clusters),
        level=level,
        seed=seed,
    )


def _mostly_shared(keys_a: GroupLabels, keys_b: GroupLabels) -> bool:
    a, b = ({key for key in keys if not is_missing(key)} for keys in (keys_a, keys_b))
    return len(a & b) > 0 and 2 * len(a & b) >= min(len(a), len(b))


def _rows_by_key(values: FloatArray, keys: GroupLabels, arm: str) -> dict[Hashable, list[int]]:
    """Group the rows by key; a row without one has a key of its own that the other arm does not have."""
    if len(keys) != len(values):
        raise OptionError(f"There are {len(keys)} keys for {len(values)} episodes of {arm}; give one each.")
    rows: dict[Hashable, list[int]] = {}
    for row, key in enumerate(keys):
        rows.setdefault(("no key", arm, row) if is_missing(key) else ("key", key), []).append(row)
    return rows


def _known_mean(values: FloatArray) -> float:
    known = values[~np.isnan(values)]
    return float(np.mean(known)) if len(known) else math.nan
