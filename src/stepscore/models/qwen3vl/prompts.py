"""Inputs of Qwen-VL models (2, 2.5 and 3) for prompts of texts, images and videos."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from stepscore.episodes import Clip, resize_frames
from stepscore.models.media import DecodedMedia
from stepscore.models.qwen3vl.inputs import (
    Encode,
    Geometry,
    Patches,
    RepeatedToken,
    VisionTokens,
    block_frames,
    block_time,
    fitted_size,
    image_tokens,
    patches,
    time_text,
    token_ids,
)

Inputs = dict[str, Tensor]


@dataclass(frozen=True)
class QwenInputs:
    """Makes the inputs of ``model(**inputs)``.

    Attributes:
        encode: Encodes text as token ids, special tokens included.
        tokens: Ids of the tokens that stand for images.
        geometry: Sizes of patches and blocks, and the scaling of pixels.
        video_style: ``"timed"`` writes each block's timestamp before it (Qwen3-VL); otherwise a video is one run of
            tokens, whose positions depend on the frame rate (``"paced"``, Qwen2.5-VL) or not (``"plain"``, Qwen2-VL).
    """

    encode: Encode
    tokens: VisionTokens
    geometry: Geometry
    video_style: Literal["timed", "paced", "plain"] = "timed"

    def inputs(self, parts: Sequence[str | DecodedMedia]) -> Inputs:
        """Return the inputs for texts and images in this order."""
        laid: list[str | RepeatedToken] = []
        stills: list[tuple[Patches, list[int]]] = []
        videos: list[tuple[Patches, list[int]]] = []
        seconds: list[float] = []
        for part in parts:
            if isinstance(part, str):
                laid.append(part)
            elif part.video:
                cut = self._cut(part.clip, self.geometry.video_pixels)
                videos.append(cut)
                seconds.append(self.geometry.temporal * _interval(part.clip))
                laid += self._video(part.clip, cut[1])
            else:
                cut = self._cut(_one(part.clip), self.geometry.still_pixels)
                stills.append(cut)
                laid += image_tokens(self.tokens.image, self._count(cut[1]), self.tokens)
        ids = torch.tensor([token_ids(laid, self.encode)])
        kinds = (ids == self.tokens.image).int() + 2 * (ids == self.tokens.video).int()
        made = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "mm_token_type_ids": kinds}
        if stills:
            made["pixel_values"], made["image_grid_thw"] = _together(stills)
        if videos:
            made["pixel_values_videos"], made["video_grid_thw"] = _together(videos)
            if self.video_style == "paced":
                made["second_per_grid_ts"] = torch.tensor(seconds)
        return made

    def prefix(self, clip: Clip, length: int, head: str, tail: str) -> Inputs:
        """Return the inputs for a head, the first frames of a video, and a text after them."""
        first = Clip(clip.frames[:length], clip.timestamps[:length], clip.indices[:length])
        return self.inputs([head, DecodedMedia(first, video=True), tail])

    def _cut(self, clip: Clip, pixels: tuple[int, int]) -> tuple[Patches, list[int]]:
        """Return the patches of a clip, and its grid: blocks, rows and columns of patches."""
        geometry = self.geometry
        height, width = clip.frames.shape[1:3]
        size = fitted_size(height, width, geometry.unit, pixels)
        blocks = block_frames(len(clip), geometry.temporal)
        frames = resize_frames(clip.frames, size)[[frame for block in blocks for frame in block]]
        return patches(frames, geometry), [len(blocks), *(side // geometry.patch for side in size)]

    def _count(self, grid: Sequence[int]) -> int:
        return int(np.prod(grid)) // self.geometry.merge**2

    def _video(self, clip: Clip, grid: list[int]) -> list[str | RepeatedToken]:
        video = self.tokens.video
        if self.video_style != "timed":
            return image_tokens(video, self._count(grid), self.tokens)
        laid: list[str | RepeatedToken] = []
        for block in block_frames(len(clip), self.geometry.temporal):
            laid.append(time_text(block_time(clip.timestamps, block)))
            laid += image_tokens(video, self._count(grid[1:]), self.tokens)
        return laid


def _one(clip: Clip) -> Clip:
    """Return the first frame of a clip, as a single image."""
    return Clip(clip.frames[:1], clip.timestamps[:1], clip.indices[:1])


def _interval(clip: Clip) -> float:
    """Return the seconds between frames: the median, as one number must stand for a whole video."""
    return float(np.median(np.diff(clip.timestamps))) if len(clip) > 1 else 1.0


def _together(cuts: Sequence[tuple[Patches, list[int]]]) -> tuple[Tensor, Tensor]:
    pixels = torch.from_numpy(np.concatenate([cut for cut, _ in cuts]))
    return pixels, torch.tensor([grid for _, grid in cuts])
