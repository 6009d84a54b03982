"""Robometer's network: a Qwen3-VL without its language head, and three small heads on its last hidden states.

A head is Linear(h, h/2), LayerNorm, GELU, Linear(h/2, outputs), as in robometer's ``models/heads.py``; the dropout
before the last layer does nothing at inference. Its names are those of the layout ``robometer``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class RobometerNetwork(nn.Module):
    """Backbone and heads.

    Args:
        backbone: A Qwen3-VL of transformers, without a language head.
        hidden: Width of its hidden states.
        bins: Outputs of the progress head.
    """

    def __init__(self, backbone: Any, hidden: int, bins: int) -> None:
        super().__init__()
        self.model = backbone
        self.progress_head = prediction_head(hidden, bins)
        self.success_head = prediction_head(hidden, 1)
        self.preference_head = prediction_head(hidden, 1)

    def progress(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Return progress and the standard deviation of its distribution, (n, hidden) to (n,) each.

        Progress is the mean of the softmax over values evenly from 0 to 1; a head with one output is a sigmoid,
        whose spread is unknown.
        """
        outputs = self.progress_head(states).float()
        if outputs.shape[1] == 1:
            return torch.sigmoid(outputs[:, 0]), torch.full_like(outputs[:, 0], torch.nan)
        values = torch.linspace(0.0, 1.0, outputs.shape[1], device=outputs.device)
        shares = torch.softmax(outputs, dim=1)
        mean = shares @ values
        variance = (shares * (values - mean[:, None]) ** 2).sum(dim=1)
        return mean.clamp(0.0, 1.0), variance.sqrt()

    def success(self, states: Tensor) -> Tensor:
        """Return the probability that the task is done, (n, hidden) to (n,)."""
        return torch.sigmoid(self.success_head(states)[:, 0].float())

    def preference(self, states: Tensor) -> Tensor:
        """Return the probability that the first video shows more progress, (n, hidden) to (n,)."""
        return torch.sigmoid(self.preference_head(states)[:, 0].float())


def prediction_head(hidden: int, outputs: int) -> nn.Sequential:
    """Return a head; its layers have the numbers of the published one, whose fourth is a dropout."""
    half = hidden // 2
    return nn.Sequential(
        nn.Linear(hidden, half), nn.LayerNorm(half), nn.GELU(), nn.Identity(), nn.Linear(half, outputs)
    )
