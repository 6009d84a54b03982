"""Parts that several judges share: prompts, frame layout, requests, parsing of answers, verdicts, calibration."""

from stepscore.judges.common.calibration import (
    FittedMap,
    calibration_mismatch,
    check_calibration,
    model_identity,
    read_calibration,
    write_calibration,
)
from stepscore.judges.common.framing import image_parts
from stepscore.judges.common.parsing import json_values, strip_thinking
from stepscore.judges.common.prompts import PromptTemplate, load_prompt, prompt_names, video_prompt
from stepscore.judges.common.success_map import PROBABILITY_CHANNEL, FittedSuccess, final_score

__all__ = [
    "PROBABILITY_CHANNEL",
    "FittedMap",
    "FittedSuccess",
    "PromptTemplate",
    "calibration_mismatch",
    "check_calibration",
    "final_score",
    "image_parts",
    "json_values",
    "load_prompt",
    "model_identity",
    "prompt_names",
    "read_calibration",
    "strip_thinking",
    "video_prompt",
    "write_calibration",
]
