"""A loaded Qwen3-VL, taken apart: its vision encoder, its language model, and its last layer at chosen rows.

Uses the model's own modules, so that a new release of transformers changes them in one place; that the parts
put together still give what the whole gives is what ``prefix_check.py`` finds out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

from stepscore.models.qwen3vl.inputs import Encode, Geometry, VisionTokens, patches
from stepscore.models.qwen3vl.prefix_batches import PassCost
from stepscore.models.qwen3vl.prefix_plan import TokenSpan
from stepscore.types import FloatArray, Frames, IntArray

Block = tuple[int, ...]

CPU_TOKENS_PER_PASS, GPU_TOKENS_PER_PASS = 512, 4096
"""Tokens in a pass over suffixes that keep a device busy."""


@dataclass(frozen=True, eq=False)
class BlockFeatures:
    """What the vision encoder saw in the blocks of a video.

    Attributes:
        rows: Embeddings, the same number of rows for every block.
        deep: What is added after the first layers of the language model (deepstack), one tensor a layer.
        place: Number of each block among the rows.
    """

    rows: Tensor
    deep: tuple[Tensor, ...]
    place: Mapping[Block, int]

    def of(self, blocks: Sequence[Block]) -> tuple[Tensor, ...]:
        """Embeddings and deepstack of these blocks, in this order."""
        each = len(self.rows) // max(1, len(self.place))
        starts = torch.tensor([self.place[block] * each for block in blocks], dtype=torch.long)
        picked = (starts[:, None] + torch.arange(each)).flatten().to(self.rows.device)
        return tuple(tensor[picked] for tensor in (self.rows, *self.deep))


@dataclass(frozen=True, eq=False)
class Qwen3VLNetwork:
    """A Qwen3-VL in memory.

    Attributes:
        model: The ``Qwen3VLForConditionalGeneration``.
        encode: Text into token ids.
        tokens: Ids that stand for images.
        geometry: How it cuts images up.
        attention: ``"sdpa"``, ``"eager"`` or ``"flash_attention_2"``, as it was loaded.
    """

    model: Any
    encode: Encode
    tokens: VisionTokens
    geometry: Geometry
    attention: str = "sdpa"

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return torch.device(self.model.device)

    @property
    def dtype(self) -> torch.dtype:
        """The kind of number the weights are."""
        dtype: torch.dtype = self.model.dtype
        return dtype

    @property
    def longest(self) -> int:
        """Most positions it can tell apart."""
        return int(self.model.config.text_config.max_position_embeddings)

    @property
    def cost(self) -> PassCost:
        """What a pass over suffixes takes."""
        text, size = self.model.config.text_config, self.dtype.itemsize
        heads = text.head_dim * (2 * text.num_attention_heads + 4 * text.num_key_value_heads)
        row = size * (6 * text.hidden_size + 3 * text.intermediate_size + heads)
        pair = 1 + size * (1 + 2 * text.num_attention_heads * (self.attention == "eager"))
        return PassCost(
            int(row), int(pair), CPU_TOKENS_PER_PASS if self.device.type == "cpu" else GPU_TOKENS_PER_PASS
        )

    def see(self, frames: Frames, blocks: Sequence[Block], limit: int) -> BlockFeatures:
        """What the vision encoder sees in blocks of a video, each seen by itself, in calls that keep within a memory.

        Args:
            frames: All frames, of a fitted size.
            blocks: Frames of each block.
            limit: Bytes for one call; one block is seen in any case.
        """
        rows, columns = (side // self.geometry.patch for side in frames.shape[1:3])
        vision = self.model.config.vision_config
        width = 8 * vision.hidden_size + 2 * vision.intermediate_size + 6 * self.geometry.patch**2
        step = max(1, limit // (rows * columns * width * 4))
        seen = []
        for start in range(0, len(blocks), step):
            some = blocks[start : start + step]
            pixels = torch.from_numpy(patches(frames[[i for block in some for i in block]], self.geometry))
            grid = torch.tensor([[len(some), rows, columns]], device=self.device)
            out = self.model.model.get_video_features(pixels.to(self.device), grid, return_dict=True)
            deep = [torch.cat(tuple(layer)) for layer in out.deepstack_features]
            seen.append((torch.cat(tuple(out.pooler_output)), *deep))
        joined = [torch.cat(layer) for layer in zip(*seen, strict=True)]
        return BlockFeatures(
            joined[0], tuple(joined[1:]), {block: number for number, block in enumerate(blocks)}
        )

    def read(
        self,
        spans: Sequence[TokenSpan],
        seen: tuple[Tensor, ...] | None,
        *,
        mask: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """What the language model makes of tokens, before its last layer; shape (spans, longest, hidden).

        Args:
            spans: One for each video of a batch; shorter ones are filled up at their end.
            seen: Embeddings and deepstack of all blocks in the spans, in order; ``None`` if there are none.
            mask: As from :meth:`mask`; ``None`` for plain causal reading.
            cache: What was read before; read on from there.
        """
        ids = torch.from_numpy(_filled([span.ids for span in spans], self.tokens.end)).to(self.device)
        places = torch.from_numpy(_filled([span.positions for span in spans], 0)).to(self.device)
        text = self.model.model.language_model
        embedded = text.embed_tokens(ids)
        images = ids == self.tokens.video
        if seen is not None:
            embedded = embedded.masked_scatter(images[..., None], seen[0].to(embedded.dtype))
        hidden: Tensor = text(
            inputs_embeds=embedded,
            position_ids=places.transpose(0, 1),
            attention_mask=mask,
            past_key_values=cache,
            use_cache=cache is not None,
            visual_pos_masks=None if seen is None else images,
            deepstack_visual_embeds=None if seen is None else list(seen[1:]),
        ).last_hidden_state
        return hidden

    def mask(self, visible: NDArray[np.bool_]) -> Tensor:
        """What each token sees, shape (batch, tokens, seen), as a mask that attention adds to its scores.

        Every kind of attention adds numbers; booleans are taken for such by some and converted anew in every
        layer by others.
        """
        hidden = torch.from_numpy(~visible).to(self.device)
        nothing = torch.zeros(hidden.shape, dtype=self.dtype, device=self.device)
        return nothing.masked_fill_(hidden, torch.finfo(self.dtype).min)[:, None]

    def cache(self) -> DynamicCache:
        """An empty cache."""
        return DynamicCache(config=self.model.config.text_config)

    def logprobs(self, hidden: Tensor, targets: IntArray) -> FloatArray:
        """Log-probability of each row's targets, by a log-softmax in float32; shapes (n, hidden) and (n, C)."""
        told = torch.log_softmax(self.model.lm_head(hidden).float(), dim=-1)
        picked = told.gather(1, torch.from_numpy(targets).to(told.device))
        return picked.cpu().double().numpy()


class _SharedLayer(DynamicLayer):  # type: ignore[no-untyped-call]  # its base says nothing of subclasses
    """Keys and values that are read together with new ones, and stay as they are."""

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Old and new together; nothing is kept, so that the next pass finds the cache as it was."""
        old: Any = self
        return torch.cat([old.keys, key_states], dim=-2), torch.cat([old.values, value_states], dim=-2)


def shared_kv_cache(cache: Cache, videos: Sequence[int], reach: int) -> Cache:
    """The first ``reach`` tokens of these videos of a cache, to be read by a pass that leaves no trace."""
    whole = list(videos) == list(range(len(videos)))
    make: Any = _SharedLayer
    layers: list[Any] = []
    layer: Any
    for layer in cache.layers:
        keys, values = (t[: len(videos)] if whole else t[list(videos)] for t in (layer.keys, layer.values))
        view = make()
        view.lazy_initialization(keys, values)
        view.keys, view.values = keys[:, :, :reach], values[:, :, :reach]
        layers.append(view)
    return Cache(layers=layers)


def _filled(arrays: Sequence[IntArray], value: int) -> IntArray:
    """Arrays that differ in their last length as one, filled up at the end."""
    longest = max(array.shape[-1] for array in arrays)
    made = np.full((len(arrays), *arrays[0].shape[:-1], longest), value, dtype=np.int64)
    for row, array in zip(made, arrays, strict=True):
        row[..., : array.shape[-1]] = array
    return made
