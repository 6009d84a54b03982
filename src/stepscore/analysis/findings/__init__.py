"""A run's numbers in sentences, the same on the page, in the demo and in tables.

No sentence claims more than the sample shows.
"""

from stepscore.analysis.findings.first_failures import FirstFailure, first_failures
from stepscore.analysis.findings.funnel import Funnel, subgoal_funnels
from stepscore.analysis.findings.headline import Opening, opening_sentences
from stepscore.analysis.findings.run_findings import Findings, run_findings
from stepscore.analysis.findings.trust import JudgeTrust, judge_trust
from stepscore.analysis.findings.trust_aspects import TrustAspect
from stepscore.analysis.findings.worst_failures import (
    DROP,
    GAIN,
    WorstFailure,
    WorstTime,
    worst_failures,
    worst_time,
)

__all__ = [
    "DROP",
    "GAIN",
    "Findings",
    "FirstFailure",
    "Funnel",
    "JudgeTrust",
    "Opening",
    "TrustAspect",
    "WorstFailure",
    "WorstTime",
    "first_failures",
    "judge_trust",
    "opening_sentences",
    "run_findings",
    "subgoal_funnels",
    "worst_failures",
    "worst_time",
]
