"""The pairwise test of a judge: did the task advance or fall back between two timestamps?"""

from stepscore.audit.pairs.make import make_progress_pairs
from stepscore.audit.pairs.pair import SPANS, Pair, read_pairs, write_pairs
from stepscore.audit.pairs.score import PairResult, SpanScore, pair_videos, score_pairs, trivial_results
from stepscore.audit.pairs.tables import pair_table

__all__ = [
    "SPANS",
    "Pair",
    "PairResult",
    "SpanScore",
    "make_progress_pairs",
    "pair_table",
    "pair_videos",
    "read_pairs",
    "score_pairs",
    "trivial_results",
    "write_pairs",
]
