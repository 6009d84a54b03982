"""A first pass on blank frames, so that the first real frame of a live video does not wait for the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from stepscore.episodes import Clip
from stepscore.models.prompts import Prompt
from stepscore.types import FloatArray

SIDE = 224
"""Pixels a side of the blank frames."""


class Stream(Protocol):
    """A growing video that a model scores; from ``open_stream``."""

    def append(self, clip: Clip) -> None:
        """Append frames."""

    def score(self, prompts: Sequence[Prompt], candidates: Sequence[str]) -> FloatArray:
        """Return log-probabilities for the video so far."""


def score_blank(stream: Stream, prompt: Prompt, candidates: Sequence[str]) -> None:
    """Score a stream on two blank frames; it is of no use afterwards."""
    stream.append(Clip(np.zeros((2, SIDE, SIDE, 3), np.uint8), np.array([0.0, 0.5]), np.arange(2)))
    stream.score([prompt], candidates)
