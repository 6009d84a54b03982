"""What may be averaged: repeated episodes once, protocols apart, few scenes as fixed, with coverage stated."""

from stepscore.analysis.pooling.coverage import coverage_note, nothing_known_note
from stepscore.analysis.pooling.protocols import (
    DURATION_COLUMN,
    LABEL_COLUMNS,
    PROTOCOL_KEYS,
    add_protocol_keys,
    baseline_note,
    check_unmixed,
    is_baseline,
    mixed_note,
)
from stepscore.analysis.pooling.repeated import copied_trials, copies_note, distinct_runs, repeated_episodes
from stepscore.analysis.pooling.scenes import (
    check_scene_choice,
    fixed_in_both,
    fixed_scenes,
    other_scenes_note,
    scope_text,
)

__all__ = [
    "DURATION_COLUMN",
    "LABEL_COLUMNS",
    "PROTOCOL_KEYS",
    "add_protocol_keys",
    "baseline_note",
    "check_scene_choice",
    "check_unmixed",
    "copied_trials",
    "copies_note",
    "coverage_note",
    "distinct_runs",
    "fixed_in_both",
    "fixed_scenes",
    "is_baseline",
    "mixed_note",
    "nothing_known_note",
    "other_scenes_note",
    "repeated_episodes",
    "scope_text",
]
