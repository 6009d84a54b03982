"""The vision tower of a Qwen3-VL over many blocks of one size in one call.

The stock tower cuts its attention block by block; where all blocks have the same size they are a batch, and
one call does the same arithmetic several times faster. That it is the same is checked when it is made.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  # the usual name
from torch import Tensor

from stepscore.errors import ModelError

_TOLERANCE = 1e-3


class VisionPass:
    """Blocks of ``rows`` by ``columns`` patches through the tower's own weights.

    Args:
        tower: ``model.model.visual`` of a Qwen3-VL.
        rows: Patches down a block.
        columns: Patches across.

    Raises:
        ModelError: This tower computes something else.
    """

    def __init__(self, tower: Any, rows: int, columns: int) -> None:
        self._tower = tower
        self.patches = rows * columns
        self._heads = tower.blocks[0].attn.num_heads
        self._positions, self._cos, self._sin = _places(tower, rows, columns)
        self._check(rows, columns)

    def __call__(self, pixels: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Embeddings of all blocks' tokens, in order, and those that deepstack adds, one tensor a layer."""
        tower = self._tower
        embed = tower.patch_embed.proj
        n = len(pixels) // self.patches
        x = F.linear(pixels, embed.weight.reshape(embed.weight.shape[0], -1), embed.bias)
        weights, indices = self._positions
        places = (tower.pos_embed.weight[indices] * weights[..., None]).sum(dim=1)
        x = x.reshape(n, self.patches, -1) + places
        deep = []
        for number, block in enumerate(tower.blocks):
            x = x + self._attend(block.attn, block.norm1(x))
            x = x + block.mlp(block.norm2(x))
            if number in tower.deepstack_visual_indexes:
                merger = tower.deepstack_merger_list[tower.deepstack_visual_indexes.index(number)]
                deep.append(merger(x.reshape(n * self.patches, -1)))
        return tower.merger(x.reshape(n * self.patches, -1)), deep

    def _attend(self, attention: Any, x: Tensor) -> Tensor:
        n, length, _ = x.shape
        q, k, v = attention.qkv(x).reshape(n, length, 3, self._heads, -1).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(self._turn(q), self._turn(k), v, scale=attention.scaling)
        turned: Tensor = attention.proj(seen.transpose(1, 2).reshape(n, length, -1))
        return turned

    def _turn(self, x: Tensor) -> Tensor:
        """Rotary positions."""
        return x * self._cos + x.roll(x.shape[-1] // 2, -1) * self._sin

    @torch.no_grad()
    def _check(self, rows: int, columns: int) -> None:
        tower = self._tower
        width = tower.patch_embed.proj.weight[0].numel()
        pixels = torch.randn(2 * self.patches, width, generator=torch.Generator().manual_seed(0))
        pixels = pixels.to(tower.patch_embed.proj.weight)
        # Two blocks of one frame pair each, as a film gives them.
        out = tower(pixels, grid_thw=torch.tensor([[2, rows, columns]], device=pixels.device))
        found, deep = self(pixels)
        pairs = [(out.pooler_output, found), *zip(out.deepstack_features, deep, strict=True)]
        worst = max(float((torch.as_tensor(a).reshape(b.shape) - b).abs().max()) for a, b in pairs)
        if not worst < _TOLERANCE * max(1.0, float(found.abs().max())):
            raise ModelError(f"The vision tower in one call differs from the stock one by {worst:.2g}.")


def _places(tower: Any, rows: int, columns: int) -> tuple[tuple[Tensor, Tensor], Tensor, Tensor]:
    """Weights and indices of the position embeddings, and the rotary cosines and signed sines."""
    from transformers.vision_utils import (
        get_vision_interpolation_indices_and_weights,
        get_vision_position_ids,
    )

    grid = torch.tensor([[1, rows, columns]])
    indices, weights = get_vision_interpolation_indices_and_weights(
        grid,
        num_grid_per_side=tower.num_grid_per_side,
        mode=tower.interpolation_mode,
        align_corners=tower.interpolation_align_corners,
        spatial_merge_size=tower.spatial_merge_size,
        kwargs={},
    )
    ids = get_vision_position_ids(grid, tower.spatial_merge_size, kwargs={})
    cos, sin = tower.rotary_pos_emb(torch.zeros(rows * columns, 1), ids)
    cos, sin = cos[None, None].float(), sin[None, None].float()
    half = cos.shape[-1] // 2
    signed = torch.cat([-sin[..., :half], sin[..., half:]], dim=-1)
    device = tower.pos_embed.weight.device
    return (weights.float().to(device), indices.to(device)), cos.to(device), signed.to(device)
