"""Scoring by full forward passes: every prompt from its first token, by the unchanged model of transformers.

Works for any model that returns logits, shares nothing, and assumes nothing. It is the only way for models whose
images attend to later images (Molmo2), and the reference for shared scoring.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from stepscore.episodes import Clip
from stepscore.errors import ModelError
from stepscore.models.chatml import RenderedPrefixes
from stepscore.models.qwen3vl.inputs import Encode
from stepscore.models.qwen3vl.prefix_plan import target_ids
from stepscore.types import FloatArray, IntArray


class PrefixInputs(Protocol):
    """Makes the inputs of prefixes of a video for one family of models."""

    @property
    def encode(self) -> Encode:
        """Encodes text as token ids, special tokens included."""

    def prefix(self, clip: Clip, length: int, head: str, tail: str) -> Mapping[str, Tensor]:
        """Return the inputs for a head, the first frames of a video, and a text after them."""


def score_naive(model: Any, prefix_inputs: PrefixInputs, request: RenderedPrefixes) -> tuple[FloatArray, int]:
    """Return log-probabilities (S, K, C) by K * S full forward passes, and the number of tokens they read."""
    targets = target_ids(prefix_inputs.encode, request.tails, request.candidates)
    logprobs = np.full((len(request.tails), len(request.lengths), len(request.candidates)), np.nan)
    tokens = 0
    for k, length in enumerate(request.lengths):
        for s, tail in enumerate(request.tails):
            inputs = prefix_inputs.prefix(request.clip, length, request.head, tail)
            logprobs[s, k] = next_logprobs(model, inputs, targets[s])
            tokens += inputs["input_ids"].shape[1]
    return logprobs, tokens


@torch.inference_mode()
def next_logprobs(model: Any, inputs: Mapping[str, Tensor], targets: IntArray | Sequence[int]) -> FloatArray:
    """Return the log-probability of each of these tokens as the next one, by a log-softmax in float32; shape (C,)."""
    moved = {name: value.to(model.device) for name, value in inputs.items()}
    logits = model(**moved, use_cache=False, logits_to_keep=1).logits[0, -1].float()
    return known_logprobs(torch.log_softmax(logits, dim=-1)[list(targets)])


def known_logprobs(values: Tensor) -> FloatArray:
    """Return log-probabilities as an array; ModelError if they are NaN, because values overflowed."""
    found: FloatArray = values.cpu().double().numpy()
    if np.isnan(found).any():
        raise ModelError(
            "The network's probabilities are not numbers (NaN): its values overflow. Try dtype=float32."
        )
    return found
