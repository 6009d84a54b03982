"""A judge against labels beyond its verdicts: policies it favours, its curves, and which answers to accept."""

from stepscore.analysis.against_labels.abstention import Abstention, abstention
from stepscore.analysis.against_labels.curves import curve_agreement, judged_stages, level_estimate
from stepscore.analysis.against_labels.policies import (
    PolicyAgreement,
    PolicyDifference,
    PolicyError,
    policies_by_protocol,
    policy_agreement,
)

__all__ = [
    "Abstention",
    "PolicyAgreement",
    "PolicyDifference",
    "PolicyError",
    "abstention",
    "curve_agreement",
    "judged_stages",
    "level_estimate",
    "policies_by_protocol",
    "policy_agreement",
]
