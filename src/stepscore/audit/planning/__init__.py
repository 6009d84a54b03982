"""Choose the episodes of each probe within a budget."""

from stepscore.audit.planning.audit_plan import AuditPlan, ProbedEpisode, Shortfall, scene_of
from stepscore.audit.planning.choosing import make_plan

__all__ = ["AuditPlan", "ProbedEpisode", "Shortfall", "make_plan", "scene_of"]
