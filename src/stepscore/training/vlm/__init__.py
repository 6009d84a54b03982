"""Training a vision-language judge: from nothing or a checkpoint, whole or by LoRA."""

from stepscore.training.vlm.job import VlmJob

__all__ = ["VlmJob"]
