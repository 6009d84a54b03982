"""The KV cache of prefix scoring: the keys and values of a video's tokens, read by many passes and changed by none.

The video is read once into :func:`new_kv_cache`. Every pass over suffixes then reads a
:func:`shared_kv_cache` of it, which attends to the video's keys and values and stores none of its own.
(Answers of models are cached elsewhere: ``models/calls/answer_cache.py``.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer


def new_kv_cache(text_config: Any) -> DynamicCache:
    """Return an empty KV cache for a language model of this config."""
    return DynamicCache(config=text_config)


def shared_kv_cache(cache: Cache, videos: Sequence[int], reach: int) -> Cache:
    """Return a read-only view of a cache for one pass.

    Args:
        cache: Keys and values of the videos of a batch; it is not changed.
        videos: Numbers of the videos that the pass reads.
        reach: Number of tokens of each, from the first.
    """
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
