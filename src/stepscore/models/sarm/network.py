"""SARM's two networks: the current stage, and the completed share of it, given the stage.

Chen et al. 2025, arXiv 2509.25358. Both are transformers over the tokens of a window: at each slot one token per
view, one for the text, one for the state where there is one, and in the second network one for the stage. The
tokens are ordered by slot, and so is the mask: in a causal network a slot attends to itself and to those before it,
in every stream. After the last layer the tokens of a slot are concatenated, and each head predicts a stage or the
completed share of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  # the usual name
from torch import Tensor, nn

from stepscore.errors import OptionError


@dataclass(frozen=True)
class SarmShape:
    """The sizes of a network. The published one has width 768, 8 layers and 12 heads: 119 million weights.

    Attributes:
        features: Features of a frame.
        text: Features of a text.
        views: Number of cameras.
        state: Dimensions of the robot's state; 0 without.
        stages: Most stages of a task, by head: ``{"sparse": 1, "dense": 5}``.
        slots: Slots of a window.
        causal: Whether a slot attends only to itself and those before it.
        width: Hidden dim of a token.
        layers: Layers of each transformer.
        attention_heads: Attention heads of each layer.
        dropout: Probability of dropout in training.
    """

    features: int
    text: int
    views: int
    state: int
    stages: Mapping[str, int]
    slots: int
    causal: bool
    width: int = 128
    layers: int = 3
    attention_heads: int = 4
    dropout: float = 0.1

    def __post_init__(self) -> None:
        if self.width % self.attention_heads:
            raise OptionError(f"width must be a multiple of {self.attention_heads} heads, got {self.width}.")


@dataclass(frozen=True, eq=False)
class Windows:
    """A batch of windows.

    Attributes:
        views: Encoded frames, (B, T, V, features).
        text: Encoded text, one a window, (B, text).
        state: The robot's state, (B, T, state); ``None`` without.
        valid: Which slots are not padding, (B, T).
        counts: Number of stages of each window's task, by head, (B,) each.
        tokens: Output of :meth:`SarmNetwork.project_features` for ``views``, where it was computed before: a frame
            that many windows share is then projected once.
    """

    views: Tensor
    text: Tensor
    state: Tensor | None
    valid: Tensor
    counts: Mapping[str, Tensor]
    tokens: tuple[Tensor, Tensor] | None = None


class SarmNetwork(nn.Module):
    """Both networks, with the means and deviations their inputs are scaled by, which are saved with them."""

    feature_mean: Tensor
    feature_std: Tensor
    state_mean: Tensor
    state_std: Tensor

    def __init__(self, shape: SarmShape) -> None:
        super().__init__()
        self.shape = shape
        self.register_buffer("feature_mean", torch.zeros(shape.views, shape.features))
        self.register_buffer("feature_std", torch.ones(shape.views, shape.features))
        self.register_buffer("state_mean", torch.zeros(shape.state))
        self.register_buffer("state_std", torch.ones(shape.state))
        self.stage_trunk = _Trunk(shape, staged=False)
        self.progress_trunk = _Trunk(shape, staged=True)
        self.stage_heads = nn.ModuleDict(
            {name: nn.Linear(shape.width, k) for name, k in shape.stages.items()}
        )
        self.progress_heads = nn.ModuleDict({name: nn.Linear(shape.width, 1) for name in shape.stages})

    def project_features(self, views: Tensor) -> tuple[Tensor, Tensor]:
        """Project encoded frames to the tokens of both networks, (..., V, width) each."""
        scaled = (views - self.feature_mean) / self.feature_std
        return self.stage_trunk.view(scaled), self.progress_trunk.view(scaled)

    def stages(self, windows: Windows) -> dict[str, Tensor]:
        """Return log-probabilities of the stages at every slot, by head, (B, T, K); -inf for stages a task lacks."""
        hidden = self.stage_trunk(self._tokens(windows, 0), windows, self._state(windows), None)
        found = {}
        for name, head in self.stage_heads.items():
            logits = head(hidden)
            lacks = (
                torch.arange(logits.shape[-1], device=logits.device) >= windows.counts[name][:, None, None]
            )
            found[name] = logits.masked_fill(lacks, -torch.inf).log_softmax(-1)
        return found

    def shares(self, windows: Windows, stages: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the completed share of the stage at every slot, 0..1, by head, (B, T).

        Args:
            windows: A batch of windows.
            stages: The stage at each slot, by head, (B, T) each. One token holds them all, so that one pass serves
                every head.
        """
        places = [F.one_hot(stages[name], k) for name, k in self.shape.stages.items()]
        one_hot = torch.cat(places, dim=-1).to(windows.text.dtype)
        hidden = self.progress_trunk(self._tokens(windows, 1), windows, self._state(windows), one_hot)
        return {name: torch.sigmoid(head(hidden)[..., 0]) for name, head in self.progress_heads.items()}

    def _tokens(self, windows: Windows, network: int) -> Tensor:
        if windows.tokens is not None:
            return windows.tokens[network]
        trunk = (self.stage_trunk, self.progress_trunk)[network]
        tokens: Tensor = trunk.view((windows.views - self.feature_mean) / self.feature_std)
        return tokens

    def _state(self, windows: Windows) -> Tensor | None:
        return None if windows.state is None else (windows.state - self.state_mean) / self.state_std


class _Trunk(nn.Module):
    """A transformer over the tokens of a window; its output is one vector per slot, (B, T, width)."""

    def __init__(self, shape: SarmShape, *, staged: bool) -> None:
        super().__init__()
        width = shape.width
        self.causal = shape.causal
        self.view = nn.Linear(shape.features, width)
        self.text = nn.Sequential(nn.LayerNorm(shape.text), nn.Linear(shape.text, width))
        self.state = nn.Linear(shape.state, width) if shape.state else None
        self.stage = nn.Linear(sum(shape.stages.values()), width) if staged else None
        streams = shape.views + 1 + (self.state is not None) + (self.stage is not None)
        self.stream_places = nn.Parameter(torch.randn(streams, width) * 0.02)
        self.slot_places = nn.Parameter(torch.randn(shape.slots, width) * 0.02)
        self.layers = nn.ModuleList(
            _Layer(width, shape.attention_heads, shape.dropout) for _ in range(shape.layers)
        )
        self.join = nn.Sequential(
            nn.LayerNorm(streams * width),
            nn.Linear(streams * width, width),
            nn.GELU(),
            nn.Dropout(shape.dropout),
        )

    def forward(
        self, view_tokens: Tensor, windows: Windows, state: Tensor | None, stage: Tensor | None
    ) -> Tensor:
        batch, slots = windows.valid.shape
        streams = [view_tokens, self.text(windows.text)[:, None, None].expand(-1, slots, -1, -1)]
        if self.state is not None and state is not None:
            streams.append(self.state(state)[:, :, None])
        if self.stage is not None and stage is not None:
            streams.append(self.stage(stage)[:, :, None])
        x = torch.cat(streams, dim=2) + self.stream_places + self.slot_places[:slots, None]
        each = x.shape[2]
        x = x.reshape(batch, slots * each, -1)
        mask = attention_mask(windows.valid, each, causal=self.causal)
        for layer in self.layers:
            x = layer(x, mask)
        joined: Tensor = self.join(x.reshape(batch, slots, -1))
        return joined


def attention_mask(valid: Tensor, streams: int, *, causal: bool) -> Tensor:
    """Return which tokens each token attends to, (B, 1, T * streams, T * streams); tokens are ordered by slot.

    Args:
        valid: Which slots are not padding, (B, T). The first never is, so that every token attends to something.
        streams: Tokens per slot.
        causal: Whether later slots are masked.
    """
    slot = torch.arange(valid.shape[1], device=valid.device).repeat_interleave(streams)
    mask = valid.repeat_interleave(streams, dim=1)[:, None, None, :].expand(-1, 1, len(slot), -1)
    return mask & (slot[None, :] <= slot[:, None]) if causal else mask


class _Layer(nn.Module):
    """A pre-norm transformer layer: self-attention, then a feed-forward network."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.before_attention, self.before_inner = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.inner = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(dropout), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        batch, length, width = x.shape
        qkv: Any = self.qkv(self.before_attention(x)).reshape(batch, length, 3, self.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        dropout = self.dropout if self.training else 0.0
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        inner: Tensor = x + self.inner(self.before_inner(x))
        return inner
