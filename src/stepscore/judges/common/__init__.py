"""Parts that several judges share: prompts, frame layout, requests, parsing of answers, verdicts, calibration."""

from stepscore.judges.common.calibration import (
    FittedMap,
    check_calibration,
    read_calibration,
    write_calibration,
)
from stepscore.judges.common.framing import image_parts
from stepscore.judges.common.parsing import strip_thinking
from stepscore.judges.common.prompts import PromptTemplate, load_prompt, prompt_names, video_prompt

__all__ = [
    "FittedMap",
    "PromptTemplate",
    "check_calibration",
    "image_parts",
    "load_prompt",
    "prompt_names",
    "read_calibration",
    "strip_thinking",
    "video_prompt",
    "write_calibration",
]
