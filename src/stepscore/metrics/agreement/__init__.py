"""A judge against labels in what people decide by it: the ranking of policies, and which answers to accept."""

from stepscore.metrics.agreement.policy_ranking import PolicyRanking, rank_policies
from stepscore.metrics.agreement.risk_coverage import RiskCoverage, accept_threshold, risk_coverage

__all__ = ["PolicyRanking", "RiskCoverage", "accept_threshold", "rank_policies", "risk_coverage"]
