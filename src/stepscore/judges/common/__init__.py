"""Parts that several judges share: prompts, frame layout, requests, parsing of answers, verdicts, calibration."""

from stepscore.judges.common.calibration import (
    FittedMap,
    calibration_mismatch,
    check_calibration,
    model_identity,
    read_calibration,
    write_calibration,
)
from stepscore.judges.common.framing import STATED_TIME, image_parts
from stepscore.judges.common.parsing import json_values, strip_thinking
from stepscore.judges.common.prefixes import causal_prefixes, spread_prefixes
from stepscore.judges.common.prompts import PromptTemplate, load_prompt, prompt_names, video_prompt
from stepscore.judges.common.success_map import PROBABILITY_CHANNEL, FittedSuccess, final_score

__all__ = [
    "PROBABILITY_CHANNEL",
    "STATED_TIME",
    "FittedMap",
    "FittedSuccess",
    "PromptTemplate",
    "calibration_mismatch",
    "causal_prefixes",
    "check_calibration",
    "final_score",
    "image_parts",
    "json_values",
    "load_prompt",
    "model_identity",
    "prompt_names",
    "read_calibration",
    "spread_prefixes",
    "strip_thinking",
    "video_prompt",
    "write_calibration",
]
