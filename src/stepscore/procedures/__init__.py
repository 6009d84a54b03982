"""The steps of a task: subgoals drafted, stages annotated, progress labelled.

:func:`plan_subgoals` asks a model for ordered subgoals that can be checked in the picture; they stay marked
as unreviewed until a person changes the mark. :func:`annotate_episodes` has a model name and time the stages
of rollouts. :func:`label_progress` turns stages into progress labels by ProcVLM's formula, SARM's, or ours.
"""

from stepscore.procedures.annotate import AnnotateOptions as AnnotateOptions
from stepscore.procedures.annotate import Annotation as Annotation
from stepscore.procedures.annotate import annotate_episodes as annotate_episodes
from stepscore.procedures.labelling import LabelOptions as LabelOptions
from stepscore.procedures.labelling import label_progress as label_progress
from stepscore.procedures.labels_table import write_labels as write_labels
from stepscore.procedures.plan import Draft as Draft
from stepscore.procedures.plan import plan_subgoals as plan_subgoals
from stepscore.procedures.plan import write_subgoals as write_subgoals
from stepscore.procedures.progress import procvlm_progress as procvlm_progress
from stepscore.procedures.progress import sarm_progress as sarm_progress
from stepscore.procedures.proportions import temporal_proportions as temporal_proportions
from stepscore.procedures.robust import robust_progress as robust_progress
from stepscore.procedures.spans import check_spans as check_spans
from stepscore.procedures.spans import span_problems as span_problems
from stepscore.procedures.spans import stage_spans as stage_spans

__all__ = [
    "AnnotateOptions",
    "Annotation",
    "Draft",
    "LabelOptions",
    "annotate_episodes",
    "check_spans",
    "label_progress",
    "plan_subgoals",
    "procvlm_progress",
    "robust_progress",
    "sarm_progress",
    "span_problems",
    "stage_spans",
    "temporal_proportions",
    "write_labels",
    "write_subgoals",
]
