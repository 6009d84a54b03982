"""Inputs of Molmo2, without torchvision: every frame of a video resized to one square, after its timestamp.

In Molmo2 every token of a frame attends to every other, later frames included, so that a prefix of a video is not
a prefix of the model's hidden states: nothing can be shared exactly, and each prefix is a full pass.
Follows ``Molmo2VideoProcessor`` and ``Molmo2Processor`` of transformers 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from stepscore._untrusted.checkpoint_folder import brief, whole_number
from stepscore.episodes import Clip
from stepscore.errors import ModelError
from stepscore.models.qwen3vl.inputs import MAX_PATCH, Encode, colour_values
from stepscore.types import FloatArray, Frames, IntArray

MAX_SIDE = 4096
IMAGE_TOKENS = ("<im_patch>", "<im_col>", "<im_start>", "<low_res_im_start>")
FRAME_TOKENS = ("<frame_start>", "<frame_end>", "<im_end>", "<im_low>")


@dataclass(frozen=True)
class Molmo2Inputs:
    """Makes the inputs of prompts with one video.

    Attributes:
        encode: Text into token ids, special tokens included.
        begin: Text at the beginning of every prompt.
        side: Side of the square in pixels.
        patch: Side of a patch.
        pool: Rows and columns of patches that become one token.
        mean: Mean of each colour channel, 0..1, which is subtracted.
        std: Standard deviation of each, by which the difference is divided.
    """

    encode: Encode
    begin: str
    side: int = 378
    patch: int = 14
    pool: tuple[int, int] = (3, 3)
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    std: tuple[float, ...] = (0.5, 0.5, 0.5)

    def prefix(self, clip: Clip, length: int, head: str, tail: str) -> Mapping[str, Tensor]:
        """Return the inputs for a head, the first frames of a video, and a text after them."""
        pooled, rows, columns = pooling(self.side // self.patch, self.pool)
        head = head if head.startswith(self.begin) else self.begin + head
        ids = self.encode(head + video_text(clip.timestamps[:length], rows * columns) + tail)
        images = {self.encode(token)[0] for token in (*IMAGE_TOKENS, *FRAME_TOKENS)}
        offsets = np.arange(length)[:, None, None] * (self.side // self.patch) ** 2
        places = np.where(pooled >= 0, pooled + offsets, -1).reshape(-1, pooled.shape[-1])
        return {
            "input_ids": torch.tensor([ids]),
            "attention_mask": torch.ones(1, len(ids), dtype=torch.long),
            "mm_token_type_ids": torch.tensor([[int(token in images) for token in ids]]),
            "pixel_values_videos": self._pixels(clip.frames[:length]),
            "video_token_pooling": torch.from_numpy(places),
            "video_grids": torch.tensor([[length, rows, columns]]),
        }

    def _pixels(self, frames: Frames) -> Tensor:
        """Return the patches of every frame, shape (frames, patches, patch * patch * 3)."""
        x = torch.from_numpy(frames).permute(0, 3, 1, 2).float()
        x = torch.nn.functional.interpolate(x, (self.side, self.side), mode="bilinear", antialias=False)
        mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in (self.mean, self.std))
        x = (x.round().clamp(0, 255) / 255 - mean) / std
        n, each, p = len(frames), self.side // self.patch, self.patch
        x = x.permute(0, 2, 3, 1).reshape(n, each, p, each, p, 3).transpose(2, 3)
        return x.reshape(n, each * each, p * p * 3)


def video_text(times: FloatArray, tokens: int) -> str:
    """Return a video as prompt text: each frame's timestamp, then its tokens between their marks."""
    return " ".join(f"{seconds:.1f} <frame_start>{'<im_patch>' * tokens}<frame_end>" for seconds in times)


def pooling(patches: int, pool: tuple[int, int]) -> tuple[IntArray, int, int]:
    """Return the patches that each token of a frame pools (-1 for none), and rows and columns of tokens."""
    numbers = np.arange(patches * patches, dtype=np.int64).reshape(patches, patches)
    lacking = [-patches % size for size in pool]
    padded = np.pad(numbers, [(lack // 2, lack - lack // 2) for lack in lacking], constant_values=-1)
    rows, columns = (side // size for side, size in zip(padded.shape, pool, strict=True))
    grouped = padded.reshape(rows, pool[0], columns, pool[1]).transpose(0, 2, 1, 3)
    return grouped.reshape(rows * columns, -1), rows, columns


def load_molmo2_inputs(
    encode: Encode, tokenizer: Any, vision: Mapping[str, Any], video: Mapping[str, Any], folder: str = ""
) -> Molmo2Inputs:
    """Make them by a checkpoint's vision configuration and its ``video_preprocessor_config.json``.

    Raises:
        ModelError: A field is no size; the message names file and field.
    """
    plain = Molmo2Inputs(encode, "")
    in_config, in_video = f"{folder}/config.json: ", f"{folder}/video_preprocessor_config.json: "
    sides = vision.get("image_size") or vision.get("image_default_input_size") or plain.side
    side = {"image_size": sides[0] if isinstance(sides, list) and sides else sides}
    patch = {"patch_size": vision.get("patch_size") or vision.get("image_patch_size")}
    pool = video.get("pooling_size") or plain.pool
    if not isinstance(pool, list | tuple) or len(pool) != 2:
        raise ModelError(f"{in_video}pooling_size is {brief(pool)}; it is two whole numbers.")
    rows, columns = (
        whole_number({"pooling_size": size}, "pooling_size", in_video, 1, MAX_PATCH) or 1 for size in pool
    )
    return Molmo2Inputs(
        encode,
        tokenizer.bos_token or tokenizer.eos_token or "",
        whole_number(side, "image_size", in_config, 1, MAX_SIDE) or plain.side,
        whole_number(patch, "patch_size", in_config, 1, MAX_PATCH) or plain.patch,
        (rows, columns),
        colour_values(video, "image_mean", in_video) or plain.mean,
        colour_values(video, "image_std", in_video, above=0.0) or plain.std,
    )
