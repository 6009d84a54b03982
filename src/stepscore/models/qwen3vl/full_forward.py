"""Scoring by full forward passes: every prompt from its first token, by the unchanged model of transformers.

Works for any model that returns logits, shares nothing, and assumes nothing. It is the only way for models whose
images attend to later images (Molmo2), and the reference for shared scoring.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from stepscore.episodes import Clip
from stepscore.errors import ModelError
from stepscore.models.chatml import RenderedPrefixes
from stepscore.models.qwen3vl.inputs import Encode
from stepscore.models.qwen3vl.network import Qwen3VLNetwork
from stepscore.models.qwen3vl.prefix_plan import target_ids
from stepscore.models.qwen3vl.prefix_scoring import prepare_video, score_incremental, score_shared
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
    """Return log-probabilities as an array.

    Raises:
        ModelError: They are not numbers: the network's values overflow, or its inputs are out of its range.
    """
    found: FloatArray = values.cpu().double().numpy()
    if np.isnan(found).any():
        raise ModelError(
            "The network's probabilities are not numbers (NaN): its values overflow. With dtype=float32 they may not."
        )
    return found


TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-4, torch.float16: 0.25, torch.bfloat16: 0.5}
"""Nats by which sharing may differ from full passes. Half precision rounds each way of computing differently;
there the check finds a model that is built otherwise, and the difference is logged, not guaranteed."""

TAILS = ("Is the task done? The answer is:", "Is the gripper open? The answer is:")
TIMES = np.array([0.0, 0.7, 1.9, 2.4, 4.1])
LENGTHS = (2, 3, 5)
"""A prefix that ends before the video does, an odd one within it, an odd one at its end."""

log = logging.getLogger(__name__)


def check_sharing(
    network: Qwen3VLNetwork, prefix_inputs: PrefixInputs, name: str, scoring: str = "shared"
) -> float:
    """Return the largest difference in nats between sharing and full passes on a video of noise.

    Args:
        network: The model, used part by part.
        prefix_inputs: Makes the inputs of full passes.
        name: The model string, for the message.
        scoring: ``"shared"`` or ``"incremental"``.

    Raises:
        ModelError: The difference is more than rounding explains. The model is refused.
    """
    unit = network.geometry.unit
    frames = np.random.default_rng(0).integers(0, 256, (len(TIMES), 2 * unit, 3 * unit, 3), dtype=np.uint8)
    clip = Clip(frames, TIMES, np.arange(len(TIMES)))
    request = RenderedPrefixes(clip, LENGTHS, "A robot:\n", TAILS, (_next_word(network),))
    reference, _ = score_naive(network.model, prefix_inputs, request)
    video = prepare_video(network, request)
    found = score_shared(network, [video])[0] if scoring == "shared" else score_incremental(network, video)
    difference = float(np.max(np.abs(found - reference)))
    allowed = TOLERANCE[network.dtype]
    if not difference <= allowed:
        raise ModelError(
            f"{name}: sharing work between prefixes is not exact for this model. On a video of noise its scores "
            f"differ from full passes by {difference:.2g} nats ({allowed:g} is allowed in {network.dtype}). "
            "Score it by full passes instead: -M scoring=naive"
        )
    log.info("%s: %s scoring agrees with full passes within %.2g nats", name, scoring, difference)
    return difference


def _next_word(network: Qwen3VLNetwork) -> str:
    """Return a candidate that is one token after the check's texts, whatever the vocabulary."""
    for word in (" True", " yes", " Yes", " no", "\n", " a", "a", "."):
        if all(network.encode(tail + word)[:-1] == network.encode(tail) for tail in TAILS):
            return word
    raise ModelError("The tokenizer joins every word tried to the text before it; no token can be scored.")
