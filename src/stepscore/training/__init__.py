"""Training of judges on labelled episodes: a vision-language model, SARM, and the embedded judge with its gate."""

from stepscore.training.job import default_threads
from stepscore.training.sarm import SarmJob
from stepscore.training.vlm import VlmJob

__all__ = ["SarmJob", "VlmJob", "default_threads"]
