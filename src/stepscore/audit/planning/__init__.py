"""Which episodes each probe of an audit takes."""

from stepscore.audit.planning.choosing import make_plan
from stepscore.audit.planning.plan import AuditPlan, ProbedEpisode, Shortfall
from stepscore.audit.planning.scenes import scene_of

__all__ = ["AuditPlan", "ProbedEpisode", "Shortfall", "make_plan", "scene_of"]
