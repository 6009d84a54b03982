"""What several judges share: prompts, frame layout, asking a model, parsing answers, verdicts, calibration."""

from stepscore.judges.common.calibration import FittedMap, write_calibration
from stepscore.judges.common.framing import image_parts, sample_frames
from stepscore.judges.common.image_prompts import prompt_names
from stepscore.judges.common.parsing import spoken
from stepscore.judges.common.prompt_files import read_prompt

__all__ = [
    "FittedMap",
    "image_parts",
    "prompt_names",
    "read_prompt",
    "sample_frames",
    "spoken",
    "write_calibration",
]
