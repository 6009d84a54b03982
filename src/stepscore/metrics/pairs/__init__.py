"""Two points of an episode: which is further along, and do the answers of a judge that compares fit together?

:mod:`signs` measures agreement with the truth; :mod:`consistency` what a judge that compares two frames says of
itself, without labels; :mod:`resolution` how fine its answers are. A curve is consistent by construction.
"""

from stepscore.metrics.pairs.consistency import (
    MIN_REMAINDER,
    confirmed_order,
    curve_gap,
    hop_between,
    opposite_signs,
    partition_gap,
    triple_residual,
)
from stepscore.metrics.pairs.resolution import (
    HOP_BINS,
    Levels,
    equal_neighbours,
    repeat_variance,
    value_levels,
)
from stepscore.metrics.pairs.signs import TRUE_CHANGE_BINS, Pairs, PairScores, make_pairs, pair_scores

__all__ = [
    "HOP_BINS",
    "MIN_REMAINDER",
    "TRUE_CHANGE_BINS",
    "Levels",
    "PairScores",
    "Pairs",
    "confirmed_order",
    "curve_gap",
    "equal_neighbours",
    "hop_between",
    "make_pairs",
    "opposite_signs",
    "pair_scores",
    "partition_gap",
    "repeat_variance",
    "triple_residual",
    "value_levels",
]
