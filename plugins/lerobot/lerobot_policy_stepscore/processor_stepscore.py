"""The processors of the reward model ``stepscore``: frames go to the judge as they are recorded."""

from __future__ import annotations

from typing import Any

from lerobot.processor import (
    AddBatchDimensionProcessorStep,
    PolicyAction,
    PolicyProcessorPipeline,
    policy_action_to_transition,
)
from lerobot.utils.constants import POLICY_POSTPROCESSOR_DEFAULT_NAME, POLICY_PREPROCESSOR_DEFAULT_NAME

from lerobot_policy_stepscore.configuration_stepscore import StepScoreConfig


def make_stepscore_pre_post_processors(
    config: StepScoreConfig, dataset_stats: Any = None, **kwargs: Any
) -> tuple[
    PolicyProcessorPipeline[dict[str, Any], dict[str, Any]],
    PolicyProcessorPipeline[PolicyAction, PolicyAction],
]:
    """Return the pipelines before and after the model; neither normalises."""
    before = PolicyProcessorPipeline[dict[str, Any], dict[str, Any]](
        steps=[AddBatchDimensionProcessorStep()], name=POLICY_PREPROCESSOR_DEFAULT_NAME
    )
    after = PolicyProcessorPipeline[PolicyAction, PolicyAction](
        steps=[], name=POLICY_POSTPROCESSOR_DEFAULT_NAME, to_transition=policy_action_to_transition
    )
    return before, after
