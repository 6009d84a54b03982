"""Training of SARM: datasets, targets, batches, trainer, checkpoint."""

from stepscore.training.sarm.config import SarmJobConfig, SarmTrainConfig
from stepscore.training.sarm.job import SarmJob

__all__ = ["SarmJob", "SarmJobConfig", "SarmTrainConfig"]
