"""From what the encoder saw in a film to stages and progress at its frames.

Every frame was encoded once; the windows of all moments look the same numbers up. What is read is the slot that
holds the moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from stepscore.models.sarm.checkpoint import Decode, Procedure, SarmConfig
from stepscore.models.sarm.encoders import Float32, Half
from stepscore.models.sarm.network import SarmNetwork, Windows
from stepscore.types import FloatArray, IntArray

AT_ONCE = 128
"""Windows in one pass."""


@dataclass(frozen=True, eq=False)
class StagePrediction:
    """What a head says of some moments.

    Attributes:
        stages: Names of the task's K stages.
        probabilities: Of each stage, (n, K).
        shares: How much of the likeliest stage is done, (n,).
        progress: In 0..1, (n,).
    """

    stages: tuple[str, ...]
    probabilities: FloatArray
    shares: FloatArray
    progress: FloatArray


@dataclass(frozen=True, eq=False)
class EncodedVideo:
    """A film as the encoder saw it.

    Attributes:
        times: Seconds of its frames, (n,).
        features: What was seen, (n, views, features).
        state: The robot's numbers, (n, state); ``None`` where the checkpoint takes none.
        text: What was read, (text,).
        task: Under which trained task it is scored.
    """

    times: FloatArray
    features: Half
    state: FloatArray | None
    text: Float32
    task: str


def score_video(
    network: SarmNetwork, config: SarmConfig, film: EncodedVideo, moments: IntArray, decode: Decode
) -> dict[str, StagePrediction]:
    """What each head says of some frames of a film.

    Args:
        network: The network, in evaluation.
        config: What it is.
        film: What was seen.
        moments: Frames to score.
        decode: ``"argmax"``: progress of the likeliest stage, phi = P_k + tau_k (P_{k+1} - P_k), as published;
            ``"expected"``: the mean of that over all stages by their probability, which does not jump where two
            stages are equally likely.
    """
    tokens = _tokens(network, film)
    parts = [
        _score(network, config, film, tokens, moments[start : start + AT_ONCE], decode)
        for start in range(0, len(moments), AT_ONCE)
    ]
    return {
        head: StagePrediction(
            config.procedures[head][film.task].stages,
            *(np.concatenate([part[head][field] for part in parts]) for field in range(3)),
        )
        for head in config.procedures
    }


@torch.inference_mode()
def _tokens(network: SarmNetwork, film: EncodedVideo) -> tuple[Tensor, Tensor]:
    """Every frame's tokens for both networks, (n, views, width)."""
    device = network.feature_mean.device
    parts = [
        network.see(torch.from_numpy(film.features[start : start + AT_ONCE].astype(np.float32)).to(device))
        for start in range(0, len(film.features), AT_ONCE)
    ]
    first, second = (torch.cat(tokens) for tokens in zip(*parts, strict=True))
    return first, second


@torch.inference_mode()
def _score(
    network: SarmNetwork,
    config: SarmConfig,
    film: EncodedVideo,
    tokens: tuple[Tensor, Tensor],
    moments: IntArray,
    decode: Decode,
) -> Mapping[str, tuple[FloatArray, FloatArray, FloatArray]]:
    frames, valid = config.window.look(film.times, moments)
    device, n = network.feature_mean.device, len(moments)
    state = None
    if film.state is not None:
        state = torch.from_numpy(film.state[frames].astype(np.float32)).to(device)
    shown = torch.from_numpy(frames).to(device)
    windows = Windows(
        torch.empty(0),
        torch.from_numpy(film.text).to(device).expand(n, -1),
        state,
        torch.from_numpy(valid).to(device),
        {
            head: torch.full((n,), len(tasks[film.task].stages), device=device)
            for head, tasks in config.procedures.items()
        },
        (tokens[0][shown], tokens[1][shown]),
    )
    at = config.window.moment_slot
    told = {
        head: logs[..., : len(config.procedures[head][film.task].stages)].exp()
        for head, logs in network.stages(windows).items()
    }
    likeliest = {head: chances.argmax(-1) for head, chances in told.items()}
    shares = network.shares(windows, likeliest)
    found = {}
    for head, chances in told.items():
        procedure, share = config.procedures[head][film.task], shares[head][:, at]
        if decode == "argmax" or len(procedure.stages) == 1:
            progress = _placed(procedure, likeliest[head][:, at], share)
        else:
            progress = torch.zeros_like(share)
            for stage in range(len(procedure.stages)):
                # The moment's own slot is in the stage supposed; the others stay where they most likely were.
                supposed = likeliest[head].clone()
                supposed[:, at] = stage
                part = network.shares(windows, {**likeliest, head: supposed})[head][:, at]
                progress += chances[:, at, stage] * _placed(procedure, supposed[:, at], part)
        columns = (chances[:, at], share, progress.clamp(0.0, 1.0))
        found[head] = tuple(column.double().cpu().numpy() for column in columns)
    return found  # type: ignore[return-value]


def _placed(procedure: Procedure, stage: Tensor, share: Tensor) -> Tensor:
    """Progress phi = P_k + tau (P_{k+1} - P_k)."""
    points = torch.tensor(procedure.breakpoints, dtype=share.dtype, device=share.device)
    return points[stage] + share * (points[stage + 1] - points[stage])
