"""How well a judge's scores rank successes above failures: over all episodes, within tasks, at equal lengths."""

from stepscore.analysis.ranking.auc import auc_estimate, auc_within_tasks
from stepscore.analysis.ranking.judge_ranking import finer_ranking, score_ranking
from stepscore.analysis.ranking.length_matched import length_matched_scores

__all__ = ["auc_estimate", "auc_within_tasks", "finer_ranking", "length_matched_scores", "score_ranking"]
