"""The pairwise test of a judge: did the task advance or fall back between two timestamps?"""

from stepscore.audit.pairs.compare import (
    PAIR,
    Compare,
    Question,
    check_compares,
    compared,
    comparing_judges,
    pair_changes,
    pair_clips,
)
from stepscore.audit.pairs.make import make_progress_pairs
from stepscore.audit.pairs.pair import SPANS, Pair, read_pairs, write_pairs
from stepscore.audit.pairs.score import (
    By,
    PairResult,
    SpanScore,
    pair_videos,
    score_changes,
    score_pairs,
    trivial_comparisons,
    trivial_results,
)
from stepscore.audit.pairs.tables import pair_table

__all__ = [
    "PAIR",
    "SPANS",
    "By",
    "Compare",
    "Pair",
    "PairResult",
    "Question",
    "SpanScore",
    "check_compares",
    "compared",
    "comparing_judges",
    "make_progress_pairs",
    "pair_changes",
    "pair_clips",
    "pair_table",
    "pair_videos",
    "read_pairs",
    "score_changes",
    "score_pairs",
    "trivial_comparisons",
    "trivial_results",
    "write_pairs",
]
