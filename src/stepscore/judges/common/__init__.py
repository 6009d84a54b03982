"""What several judges share: prompts, frame layout, asking a model, parsing answers, verdicts, calibration."""

from stepscore.judges.common.calibration import FittedMap, write_calibration
from stepscore.judges.common.framing import image_parts
from stepscore.judges.common.image_prompts import prompt_names
from stepscore.judges.common.parsing import spoken
from stepscore.judges.common.prompt_files import fill, read_prompt

__all__ = [
    "FittedMap",
    "fill",
    "image_parts",
    "prompt_names",
    "read_prompt",
    "spoken",
    "write_calibration",
]
