"""The vision encoder of a Qwen3-VL over many blocks of one size in one call.

The stock encoder splits its attention block by block; where all blocks have the same size they are a batch, and
one call does the same arithmetic several times faster. That the results are equal is checked on construction.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  # the usual name
from torch import Tensor

from stepscore.errors import ModelError
from stepscore.training.vlm.config import TrainDtype

_TOLERANCE = 1e-3


class BatchedVisionEncoder:
    """Encodes blocks of ``rows`` by ``columns`` patches with the stock encoder's weights.

    Args:
        encoder: ``model.model.visual`` of a Qwen3-VL.
        rows: Patches down a block.
        columns: Patches across.
        dtype: Type of the matrix products; results are float32.

    Raises:
        ModelError: The results differ from the stock encoder's.
    """

    def __init__(self, encoder: Any, rows: int, columns: int, dtype: TrainDtype = "float32") -> None:
        self._encoder, self._dtype = encoder, dtype
        self.patches = rows * columns
        self._heads = encoder.blocks[0].attn.num_heads
        self._positions, self._cos, self._sin = _position_tables(encoder, rows, columns)
        self._check(rows, columns)

    def __call__(self, pixels: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return the embeddings of all blocks' tokens, in order, and deepstack's, one tensor a layer."""
        with torch.autocast(pixels.device.type, torch.bfloat16, enabled=self._dtype == "bfloat16"):
            tokens, deep = self._encode(pixels)
        return tokens.float(), [layer.float() for layer in deep]

    def _encode(self, pixels: Tensor) -> tuple[Tensor, list[Tensor]]:
        encoder = self._encoder
        embed = encoder.patch_embed.proj
        n = len(pixels) // self.patches
        x = F.linear(pixels, embed.weight.reshape(embed.weight.shape[0], -1), embed.bias)
        weights, indices = self._positions
        positions = (encoder.pos_embed.weight[indices] * weights[..., None]).sum(dim=1)
        x = x.reshape(n, self.patches, -1) + positions
        deep = []
        for number, block in enumerate(encoder.blocks):
            x = x + self._attend(block.attn, block.norm1(x))
            x = x + block.mlp(block.norm2(x))
            if number in encoder.deepstack_visual_indexes:
                merger = encoder.deepstack_merger_list[encoder.deepstack_visual_indexes.index(number)]
                deep.append(merger(x.reshape(n * self.patches, -1)))
        return encoder.merger(x.reshape(n * self.patches, -1)), deep

    def _attend(self, attention: Any, x: Tensor) -> Tensor:
        n, length, _ = x.shape
        q, k, v = attention.qkv(x).reshape(n, length, 3, self._heads, -1).permute(2, 0, 3, 1, 4)
        # Two products: on a CPU the fused attention takes ten times as long for blocks this short.
        scores = self._rotate(q) @ self._rotate(k).transpose(-1, -2) * attention.scaling
        mixed = scores.softmax(-1) @ v
        projected: Tensor = attention.proj(mixed.transpose(1, 2).reshape(n, length, -1))
        return projected

    def _rotate(self, x: Tensor) -> Tensor:
        """Apply rotary positions."""
        return x * self._cos + x.roll(x.shape[-1] // 2, -1) * self._sin

    @torch.no_grad()
    def _check(self, rows: int, columns: int) -> None:
        encoder = self._encoder
        width = encoder.patch_embed.proj.weight[0].numel()
        pixels = torch.randn(2 * self.patches, width, generator=torch.Generator().manual_seed(0))
        pixels = pixels.to(encoder.patch_embed.proj.weight)
        # Two blocks of one frame pair each, as a video gives them.
        stock = encoder(pixels, grid_thw=torch.tensor([[2, rows, columns]], device=pixels.device))
        tokens, deep = self._encode(pixels)
        pairs = [(stock.pooler_output, tokens), *zip(stock.deepstack_features, deep, strict=True)]
        worst = max(float((torch.as_tensor(a).reshape(b.shape) - b).abs().max()) for a, b in pairs)
        if not worst < _TOLERANCE * max(1.0, float(tokens.abs().max())):
            raise ModelError(f"The vision encoder in one call differs from the stock one by {worst:.2g}.")


def _position_tables(encoder: Any, rows: int, columns: int) -> tuple[tuple[Tensor, Tensor], Tensor, Tensor]:
    """Return weights and indices of the position embeddings, and the rotary cosines and signed sines."""
    from transformers.vision_utils import (
        get_vision_interpolation_indices_and_weights,
        get_vision_position_ids,
    )

    grid = torch.tensor([[1, rows, columns]])
    indices, weights = get_vision_interpolation_indices_and_weights(
        grid,
        num_grid_per_side=encoder.num_grid_per_side,
        mode=encoder.interpolation_mode,
        align_corners=encoder.interpolation_align_corners,
        spatial_merge_size=encoder.spatial_merge_size,
        kwargs={},
    )
    ids = get_vision_position_ids(grid, encoder.spatial_merge_size, kwargs={})
    cos, sin = encoder.rotary_pos_emb(torch.zeros(rows * columns, 1), ids)
    cos, sin = cos[None, None].float(), sin[None, None].float()
    half = cos.shape[-1] // 2
    signed = torch.cat([-sin[..., :half], sin[..., half:]], dim=-1)
    device = encoder.pos_embed.weight.device
    return (weights.float().to(device), indices.to(device)), cos.to(device), signed.to(device)
