"""The parts of a loaded Qwen3-VL: its vision encoder, its language model, and its last layer at chosen rows.

Uses the model's own modules, so that a new release of transformers changes them in one place; ``prefix_check.py``
checks that the parts together still give the scores of the whole model.
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

from stepscore.models.qwen3vl.full_forward import known_logprobs
from stepscore.models.qwen3vl.inputs import Encode, Geometry, VisionTokens, patches
from stepscore.models.qwen3vl.prefix_batches import PassCost
from stepscore.models.qwen3vl.prefix_plan import TokenSpan
from stepscore.types import FloatArray, Frames, IntArray

Block = tuple[int, ...]

CPU_TOKENS_PER_PASS, GPU_TOKENS_PER_PASS = 512, 4096
"""Tokens in a pass over suffixes from which on a device is busy, and a longer pass is no faster."""


@dataclass(frozen=True, eq=False)
class BlockFeatures:
    """Features of the blocks of a video, from the vision encoder.

    Attributes:
        embeddings: One row per token, (blocks * tokens, hidden), the same number of tokens for every block.
        deepstack: Features added after the first layers of the language model, one tensor per layer, same rows.
        index: Position of each block among the rows.
    """

    embeddings: Tensor
    deepstack: tuple[Tensor, ...]
    index: Mapping[Block, int]

    def select(self, blocks: Sequence[Block]) -> tuple[Tensor, ...]:
        """Return embeddings and deepstack features of these blocks, in this order."""
        each = len(self.embeddings) // max(1, len(self.index))
        starts = torch.tensor([self.index[block] * each for block in blocks], dtype=torch.long)
        rows = (starts[:, None] + torch.arange(each)).flatten().to(self.embeddings.device)
        return tuple(tensor[rows] for tensor in (self.embeddings, *self.deepstack))


@dataclass(frozen=True, eq=False)
class Qwen3VLNetwork:
    """A Qwen3-VL in memory, used part by part."""

    model: Any
    encode: Encode
    tokens: VisionTokens
    geometry: Geometry
    attention: str = "sdpa"

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return torch.device(self.model.device)

    @property
    def dtype(self) -> torch.dtype:
        """Data type of the weights."""
        dtype: torch.dtype = self.model.dtype
        return dtype

    @property
    def max_positions(self) -> int:
        """Number of positions the language model was trained for."""
        return int(self.model.config.text_config.max_position_embeddings)

    @property
    def cost(self) -> PassCost:
        """Memory and length of a pass over suffixes."""
        text, size = self.model.config.text_config, self.dtype.itemsize
        heads = text.head_dim * (2 * text.num_attention_heads + 4 * text.num_key_value_heads)
        row = size * (6 * text.hidden_size + 3 * text.intermediate_size + heads)
        pair = 1 + size * (1 + 2 * text.num_attention_heads * (self.attention == "eager"))
        return PassCost(
            int(row), int(pair), CPU_TOKENS_PER_PASS if self.device.type == "cpu" else GPU_TOKENS_PER_PASS
        )

    def encode_images(self, frames: Frames, blocks: Sequence[Block], limit: int) -> BlockFeatures:
        """Encode blocks of a video separately, in calls of the vision encoder within a memory limit in bytes."""
        rows, columns = (side // self.geometry.patch for side in frames.shape[1:3])
        vision = self.model.config.vision_config
        width = 8 * vision.hidden_size + 2 * vision.intermediate_size + 6 * self.geometry.patch**2
        step = max(1, limit // (rows * columns * width * 4))
        parts = []
        for start in range(0, len(blocks), step):
            batch = blocks[start : start + step]
            pixels = torch.from_numpy(patches(frames[[i for block in batch for i in block]], self.geometry))
            grid = torch.tensor([[len(batch), rows, columns]], device=self.device)
            out = self.model.model.get_video_features(pixels.to(self.device), grid, return_dict=True)
            deep = [torch.cat(tuple(layer)) for layer in out.deepstack_features]
            parts.append((torch.cat(tuple(out.pooler_output)), *deep))
        embeddings, *deepstack = (torch.cat(layer) for layer in zip(*parts, strict=True))
        index = {block: number for number, block in enumerate(blocks)}
        return BlockFeatures(embeddings, tuple(deepstack), index)

    def forward(
        self,
        spans: Sequence[TokenSpan],
        features: tuple[Tensor, ...] | None,
        *,
        mask: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """Return the last hidden states of the language model, shape (spans, longest, hidden).

        Args:
            spans: One for each video of a batch; shorter ones are padded at their end.
            features: Embeddings and deepstack of all blocks in the spans, in order; ``None`` if there are none.
            mask: From :meth:`mask`; ``None`` for a causal mask.
            cache: KV cache of the tokens before these.
        """
        ids = torch.from_numpy(_padded([span.ids for span in spans], self.tokens.end)).to(self.device)
        places = torch.from_numpy(_padded([span.positions for span in spans], 0)).to(self.device)
        text = self.model.model.language_model
        embedded = text.embed_tokens(ids)
        images = ids == self.tokens.video
        if features is not None:
            embedded = embedded.masked_scatter(images[..., None], features[0].to(embedded.dtype))
        hidden: Tensor = text(
            inputs_embeds=embedded,
            position_ids=places.transpose(0, 1),
            attention_mask=mask,
            past_key_values=cache,
            use_cache=cache is not None,
            visual_pos_masks=None if features is None else images,
            deepstack_visual_embeds=None if features is None else list(features[1:]),
        ).last_hidden_state
        return hidden

    def mask(self, visible: NDArray[np.bool_]) -> Tensor:
        """Return an additive attention mask of what each token attends to, shape (batch, tokens, attended).

        Every attention implementation adds numbers; booleans are added as such by some and converted in every
        layer by others.
        """
        hidden = torch.from_numpy(~visible).to(self.device)
        nothing = torch.zeros(hidden.shape, dtype=self.dtype, device=self.device)
        return nothing.masked_fill_(hidden, torch.finfo(self.dtype).min)[:, None]

    def kv_cache(self) -> DynamicCache:
        """Return an empty KV cache."""
        return new_kv_cache(self.model.config.text_config)

    def logprobs(self, hidden: Tensor, targets: IntArray) -> FloatArray:
        """Return the log-probability of each row's targets, by a log-softmax in float32; (n, hidden) to (n, C)."""
        logprobs = torch.log_softmax(self.model.lm_head(hidden).float(), dim=-1)
        return known_logprobs(logprobs.gather(1, torch.from_numpy(targets).to(logprobs.device)))


def _padded(arrays: Sequence[IntArray], value: int) -> IntArray:
    """Return arrays that differ in their last dimension as one, padded at the end."""
    longest = max(array.shape[-1] for array in arrays)
    made = np.full((len(arrays), *arrays[0].shape[:-1], longest), value, dtype=np.int64)
    for row, array in zip(made, arrays, strict=True):
        row[..., : array.shape[-1]] = array
    return made


def new_kv_cache(text_config: Any) -> DynamicCache:
    """Return an empty KV cache for a language model of this config."""
    return DynamicCache(config=text_config)


def shared_kv_cache(cache: Cache, videos: Sequence[int], reach: int) -> Cache:
    """Return a read-only view of a cache for one pass."""
    whole = list(videos) == list(range(len(videos)))
    make: Any = _ReadOnlyLayer
    layers: list[Any] = []
    layer: Any
    for layer in cache.layers:
        keys, values = (t[: len(videos)] if whole else t[list(videos)] for t in (layer.keys, layer.values))
        view = make()
        view.lazy_initialization(keys, values)
        view.keys, view.values = keys[:, :, :reach], values[:, :, :reach]
        layers.append(view)
    return Cache(layers=layers)


class _ReadOnlyLayer(DynamicLayer):  # type: ignore[no-untyped-call]  # its base is untyped
    """Keys and values of one layer that are read together with new ones, and stay as they are."""

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Return old and new together, and store nothing: the next pass finds the cache as it was."""
        old: Any = self
        return torch.cat([old.keys, key_states], dim=-2), torch.cat([old.values, value_states], dim=-2)
