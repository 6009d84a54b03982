"""Training of a vision-language judge: a new small network, or a checkpoint, whole or by LoRA."""

from stepscore.training.vlm.config import VlmTrainConfig
from stepscore.training.vlm.job import VlmJob

__all__ = ["VlmJob", "VlmTrainConfig"]
