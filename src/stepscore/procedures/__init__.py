"""The procedure of a task: draft subgoals, annotate stages, label progress.

:func:`plan_subgoals` asks a model for ordered subgoals that an image can show; they stay unreviewed until a
person approves them. :func:`annotate_episodes` asks a model for the names and times of stages.
:func:`label_progress` turns stages into progress labels by ProcVLM's, SARM's or our method.
"""

from stepscore.metrics import procedure_order
from stepscore.procedures.annotate import (
    AnnotateOptions,
    Annotation,
    annotate_episodes,
    plan_question,
    segment_question,
)
from stepscore.procedures.labels_table import MergedLabels, merge_labels, write_labels
from stepscore.procedures.model_answers import MAX_STEPS
from stepscore.procedures.progress_labels import (
    EpisodeProgress,
    Outcome,
    ProgressLabelOptions,
    ProgressLabels,
    label_progress,
    labelled_outcome,
    why_not_in_shards,
)
from stepscore.procedures.robust_progress import robust_progress
from stepscore.procedures.spans import (
    SPAN_TOLERANCE_S,
    SpanProblem,
    check_spans,
    done_spans,
    span_problems,
    stage_spans,
    success_from_stages,
    without_done,
)
from stepscore.procedures.stage_progress import (
    breakpoints,
    linear_progress,
    procvlm_progress,
    sarm_progress,
    sarm_stage_tau,
    stage_tau_progress,
    temporal_proportions,
)
from stepscore.procedures.subgoal_drafts import SubgoalDraft, plan_subgoals, plan_tasks, write_subgoals

__all__ = [
    "MAX_STEPS",
    "SPAN_TOLERANCE_S",
    "AnnotateOptions",
    "Annotation",
    "EpisodeProgress",
    "MergedLabels",
    "Outcome",
    "ProgressLabelOptions",
    "ProgressLabels",
    "SpanProblem",
    "SubgoalDraft",
    "annotate_episodes",
    "breakpoints",
    "check_spans",
    "done_spans",
    "label_progress",
    "labelled_outcome",
    "linear_progress",
    "merge_labels",
    "plan_question",
    "plan_subgoals",
    "plan_tasks",
    "procedure_order",
    "procvlm_progress",
    "robust_progress",
    "sarm_progress",
    "sarm_stage_tau",
    "segment_question",
    "span_problems",
    "stage_spans",
    "stage_tau_progress",
    "success_from_stages",
    "temporal_proportions",
    "why_not_in_shards",
    "without_done",
    "write_labels",
    "write_subgoals",
]
