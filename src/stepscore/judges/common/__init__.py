"""What several judges share: prompts, frame layout, asking a model, parsing answers, verdicts, calibration."""

from stepscore.judges.common.calibration import FittedMap, write_calibration
from stepscore.judges.common.framing import image_parts
from stepscore.judges.common.parsing import spoken
from stepscore.judges.common.prompts import PromptTemplate, load_prompt, prompt_names, video_prompt

__all__ = [
    "FittedMap",
    "PromptTemplate",
    "image_parts",
    "load_prompt",
    "prompt_names",
    "spoken",
    "video_prompt",
    "write_calibration",
]
