"""Requests of a judge to a model: text, token scores, growing prefixes, live video, stages, heads, similarity.

A request names its images (view, frame, size) instead of holding them. The call chain looks it up in the cache by
those names, and only decodes what was never asked before. A model gets the resolved request, with
:class:`DecodedMedia` in place of each :data:`MediaRef`. To add a request, write its type here and a handler in the
models that answer it.
"""

from stepscore.models.requests.heads import PredictProgress, PredictStages, PreferVideo, ScoreSimilarity
from stepscore.models.requests.language import Generate, Score, ScorePrefixes, ScoreStream, Stream
from stepscore.models.requests.typed import MAX_TOKENS_PER_IMAGE, PromptRequest, R, Request, TypedRequest

__all__ = [
    "MAX_TOKENS_PER_IMAGE",
    "Generate",
    "PredictProgress",
    "PredictStages",
    "PreferVideo",
    "PromptRequest",
    "R",
    "Request",
    "Score",
    "ScorePrefixes",
    "ScoreSimilarity",
    "ScoreStream",
    "Stream",
    "TypedRequest",
]
