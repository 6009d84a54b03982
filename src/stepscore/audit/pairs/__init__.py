"""The pairwise test: did the task advance or fall back between two timestamps?"""

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
from stepscore.audit.pairs.consistency import Consistency, ask_consistency, measure_consistency
from stepscore.audit.pairs.consistency_plan import ConsistencyOptions, ConsistencyPlan, plan_consistency
from stepscore.audit.pairs.make import make_progress_pairs
from stepscore.audit.pairs.pair import SPANS, Pair, read_pairs, write_pairs
from stepscore.audit.pairs.pair_file import COLUMNS, PairFile, read_columns, read_pair_file
from stepscore.audit.pairs.pairwise import (
    AskedPairs,
    PairTest,
    PairTestResult,
    check_file_judge,
    chosen_by,
    pairs_of_source,
)
from stepscore.audit.pairs.resolution import Resolution, measure_resolution
from stepscore.audit.pairs.score import (
    By,
    Measure,
    PairResult,
    SpanScore,
    judged_change,
    pair_videos,
    score_changes,
    score_pairs,
    trivial_comparisons,
    trivial_results,
)
from stepscore.audit.pairs.tables import consistency_table, pair_table, resolution_table

__all__ = [
    "COLUMNS",
    "PAIR",
    "SPANS",
    "AskedPairs",
    "By",
    "Compare",
    "Consistency",
    "ConsistencyOptions",
    "ConsistencyPlan",
    "Measure",
    "Pair",
    "PairFile",
    "PairResult",
    "PairTest",
    "PairTestResult",
    "Question",
    "Resolution",
    "SpanScore",
    "ask_consistency",
    "check_compares",
    "check_file_judge",
    "chosen_by",
    "compared",
    "comparing_judges",
    "consistency_table",
    "judged_change",
    "make_progress_pairs",
    "measure_consistency",
    "measure_resolution",
    "pair_changes",
    "pair_clips",
    "pair_table",
    "pair_videos",
    "pairs_of_source",
    "plan_consistency",
    "read_columns",
    "read_pair_file",
    "read_pairs",
    "resolution_table",
    "score_changes",
    "score_pairs",
    "trivial_comparisons",
    "trivial_results",
    "write_pairs",
]
