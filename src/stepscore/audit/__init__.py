"""Judge the judge: probes with known answers, baselines, pairs, tuning and the leaderboard of judges.

:func:`audit` probes a judge on your own episodes; ``stepscore audit`` is the command.
"""

from stepscore.audit.audit import AuditOptions, audit, audit_shard
from stepscore.audit.effects import effect_estimate, probe_result
from stepscore.audit.judge_answers import Judged, judged_episodes
from stepscore.audit.load import StoredAudit, is_audit, read_audit
from stepscore.audit.planned_runs import TRIVIAL_JUDGES
from stepscore.audit.planning import AuditPlan, Shortfall, make_plan, scene_of
from stepscore.audit.probe import MIN_SCENES, Bound, Case, Context, Outcome, Probe
from stepscore.audit.probes import PROBES, choose_probes
from stepscore.audit.probes.instructions import read_texts
from stepscore.audit.recorded import warnings_of
from stepscore.audit.results import HEADLINE, Audit, ProbeResult
from stepscore.audit.tables import audit_tables, headline_sentences, shortfall_sentences

__all__ = [
    "HEADLINE",
    "MIN_SCENES",
    "PROBES",
    "TRIVIAL_JUDGES",
    "Audit",
    "AuditOptions",
    "AuditPlan",
    "Bound",
    "Case",
    "Context",
    "Judged",
    "Outcome",
    "Probe",
    "ProbeResult",
    "Shortfall",
    "StoredAudit",
    "audit",
    "audit_shard",
    "audit_tables",
    "choose_probes",
    "effect_estimate",
    "headline_sentences",
    "is_audit",
    "judged_episodes",
    "make_plan",
    "probe_result",
    "read_audit",
    "read_texts",
    "scene_of",
    "shortfall_sentences",
    "warnings_of",
]
