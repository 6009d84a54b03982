"""From the encoded frames of a video to stages and progress at some of them.

Every frame was encoded once; the windows of all scored frames share the features. The prediction is read at the
slot of the window that holds the scored frame.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from stepscore.models.responses import StagePrediction
from stepscore.models.sarm.config import Decode, Procedure, SarmConfig
from stepscore.models.sarm.network import SarmNetwork, Windows
from stepscore.models.vision_encoder import Float32, Half
from stepscore.types import FloatArray, IntArray

MAX_WINDOWS_PER_PASS = 128


@dataclass(frozen=True, eq=False)
class EncodedVideo:
    """An encoded video.

    Attributes:
        times: Timestamps of its frames in seconds, (n,).
        features: Of each frame and view, (n, views, features).
        state: The robot's state at each frame, (n, state); ``None`` where the checkpoint takes none.
        text: Features of the instruction, (text,).
        task: The trained task under which it is scored.
    """

    times: FloatArray
    features: Half
    state: FloatArray | None
    text: Float32
    task: str


def score_video(
    network: SarmNetwork, config: SarmConfig, video: EncodedVideo, frames: IntArray, decode: Decode
) -> dict[str, StagePrediction]:
    """Predict stage and progress at some frames of a video, by head.

    Args:
        network: In evaluation mode.
        config: Of the network's checkpoint.
        video: The encoded frames.
        frames: Positions in the video to score.
        decode: ``"argmax"``: progress of the likeliest stage, phi = P_k + tau_k (P_{k+1} - P_k), as published;
            ``"expected"``: the mean of that over all stages by their probability, which does not jump where two
            stages are equally likely.
    """
    tokens = _tokens(network, video)
    parts = [
        _score(network, config, video, tokens, frames[start : start + MAX_WINDOWS_PER_PASS], decode)
        for start in range(0, len(frames), MAX_WINDOWS_PER_PASS)
    ]
    return {
        head: StagePrediction(
            config.procedures[head][video.task].stages,
            *(np.concatenate([part[head][field] for part in parts]) for field in range(3)),
        )
        for head in config.procedures
    }


@torch.inference_mode()
def _tokens(network: SarmNetwork, video: EncodedVideo) -> tuple[Tensor, Tensor]:
    """Return every frame's tokens for both networks, (n, views, width)."""
    device = network.feature_mean.device
    parts = [
        network.project_features(
            torch.from_numpy(video.features[start : start + MAX_WINDOWS_PER_PASS].astype(np.float32)).to(
                device
            )
        )
        for start in range(0, len(video.features), MAX_WINDOWS_PER_PASS)
    ]
    first, second = (torch.cat(tokens) for tokens in zip(*parts, strict=True))
    return first, second


@torch.inference_mode()
def _score(
    network: SarmNetwork,
    config: SarmConfig,
    video: EncodedVideo,
    tokens: tuple[Tensor, Tensor],
    scored: IntArray,
    decode: Decode,
) -> Mapping[str, tuple[FloatArray, FloatArray, FloatArray]]:
    frames, valid = config.window.frames_at(video.times, scored)
    device, n = network.feature_mean.device, len(scored)
    state = None
    if video.state is not None:
        state = torch.from_numpy(video.state[frames].astype(np.float32)).to(device)
    places = torch.from_numpy(frames).to(device)
    windows = Windows(
        torch.empty(0),
        torch.from_numpy(video.text).to(device).expand(n, -1),
        state,
        torch.from_numpy(valid).to(device),
        {
            head: torch.full((n,), len(tasks[video.task].stages), device=device)
            for head, tasks in config.procedures.items()
        },
        (tokens[0][places], tokens[1][places]),
    )
    at = config.window.current_slot
    probabilities = {
        head: logs[..., : len(config.procedures[head][video.task].stages)].exp()
        for head, logs in network.stages(windows).items()
    }
    likeliest = {head: chances.argmax(-1) for head, chances in probabilities.items()}
    shares = network.shares(windows, likeliest)
    found = {}
    for head, chances in probabilities.items():
        procedure, share = config.procedures[head][video.task], shares[head][:, at]
        if decode == "argmax" or len(procedure.stages) == 1:
            progress = _placed(procedure, likeliest[head][:, at], share)
        else:
            progress = torch.zeros_like(share)
            for stage in range(len(procedure.stages)):
                # The scored frame's slot takes the supposed stage; the others keep their most likely one.
                supposed = likeliest[head].clone()
                supposed[:, at] = stage
                part = network.shares(windows, {**likeliest, head: supposed})[head][:, at]
                progress += chances[:, at, stage] * _placed(procedure, supposed[:, at], part)
        columns = (chances[:, at], share, progress.clamp(0.0, 1.0))
        found[head] = tuple(column.double().cpu().numpy() for column in columns)
    return found  # type: ignore[return-value]


def _placed(procedure: Procedure, stage: Tensor, share: Tensor) -> Tensor:
    """Return progress phi = P_k + tau (P_{k+1} - P_k)."""
    points = torch.tensor(procedure.breakpoints, dtype=share.dtype, device=share.device)
    return points[stage] + share * (points[stage + 1] - points[stage])
