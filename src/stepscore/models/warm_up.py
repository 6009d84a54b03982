"""Live videos of models in process: their requests, and a first pass so that the first frame does not wait."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stepscore.episodes import Clip
from stepscore.models.base import Handlers
from stepscore.models.prompts import Prompt
from stepscore.models.requests import ScoreStream, Stream
from stepscore.models.responses import PrefixScores

SIDE = 224
"""Pixels a side of the blank frames."""


def score_blank(stream: Stream, prompt: Prompt, candidates: Sequence[str]) -> None:
    """Score a stream on two blank frames; it is of no use afterwards."""
    stream.append(Clip(np.zeros((2, SIDE, SIDE, 3), np.uint8), np.array([0.0, 0.5]), np.arange(2)))
    stream.score([prompt], candidates)


def score_live(request: ScoreStream) -> PrefixScores:
    """Return the scores of a live video with its new frames, shape (S, 1, C)."""
    request.stream.append(request.video.clip)
    return PrefixScores(request.stream.score(request.prompts, request.candidates)[:, None, :])


LIVE: Handlers = {ScoreStream: score_live}
"""Handlers of a model with streams; called in another thread, as a stream has its own way to the model."""
