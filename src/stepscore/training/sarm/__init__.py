"""Training SARM: datasets to targets, batches, network, checkpoint."""

from stepscore.training.sarm.job import SarmJob

__all__ = ["SarmJob"]
