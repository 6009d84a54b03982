"""The Ray engine: episodes over workers of a cluster, models as actors; see :class:`RayEngine`."""

from stepscore.runs.engines.cluster.engine import RayEngine

__all__ = ["RayEngine"]
