"""The check that sharing is exact for a model, made before its first shared score.

Sharing depends on how a model is built: images that do not attend to later images, positions that do not depend on
what follows, a mask that the attention applies. None of it is assumed. A small video of noise is scored by full
passes and by sharing; if they differ, the model is refused. Every known mistake moves these scores by far more
than rounding does: a dropped deepstack, a plain causal mask, a mask of the wrong kind, flat
positions, positions counted from the end of the video, an odd prefix rounded up or down or with another's time.
"""

from __future__ import annotations

import logging

import numpy as np
import torch

from stepscore.episodes import Clip
from stepscore.errors import ModelError
from stepscore.models.chatml import RenderedPrefixes
from stepscore.models.qwen3vl.full_forward import PrefixInputs, score_naive
from stepscore.models.qwen3vl.network import Qwen3VLNetwork
from stepscore.models.qwen3vl.prefix_scoring import prepare_video, score_incremental, score_shared

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
