"""Models behind an HTTP API: OpenAI-compatible servers, vLLM, SGLang."""

from stepscore.models.api.prefix_requests import score_one_by_one, scores_one_by_one, single_requests
from stepscore.models.api.raw_turn import template_with_raw_turn

__all__ = ["score_one_by_one", "scores_one_by_one", "single_requests", "template_with_raw_turn"]
