"""What may be averaged: an episode counts once, judges are kept apart, and unequal coverage is said."""

from stepscore.analysis.pooling.coverage import coverage_note, nothing_known_note
from stepscore.analysis.pooling.protocols import add_protocol_keys, check_unmixed, mixed_note
from stepscore.analysis.pooling.repeated import distinct_runs, repeated_episodes

__all__ = [
    "add_protocol_keys",
    "check_unmixed",
    "coverage_note",
    "distinct_runs",
    "mixed_note",
    "nothing_known_note",
    "repeated_episodes",
]
