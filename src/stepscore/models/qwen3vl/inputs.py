"""Inputs of a Qwen-VL model: frames as patches, prompts as token ids, and a position for every token.

Plain numpy and Pillow, so that torchvision is not needed, and written so that a prefix of a video is a prefix
of its input: the size depends only on the size of a frame, never on the number of frames, and every pair of frames
carries the timestamps of its own frames. The sizes follow Qwen's ``smart_resize``, the patch order and the video
text those of ``Qwen3VLProcessor``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscore._untrusted.checkpoint_folder import brief, whole_number
from stepscore.episodes import Clip
from stepscore.errors import EpisodeError, ModelError
from stepscore.types import FloatArray, Frames, IntArray

PREPROCESSING = "qwen-vl 1"
"""Version of this preprocessing; raised with every change that changes a number."""

VIDEO_TOKENS = 768
"""Most tokens a pair of frames may take, as in Qwen's own video reader (``VIDEO_MAX_TOKEN_NUM``)."""

MAX_PATCH = 1024
MAX_LEAST_PIXELS, MAX_MOST_PIXELS = 1 << 24, 1 << 31
"""Largest values of a checkpoint's fewest pixels, to which a small image is enlarged, and most pixels."""

Encode = Callable[[str], list[int]]
Patches = NDArray[np.float32]


@dataclass(frozen=True)
class Geometry:
    """Sizes of a checkpoint's patches and blocks, and its scaling of pixels.

    Attributes:
        patch: Side of a patch in pixels.
        merge: Patches along each side that are merged into one token.
        temporal: Frames that become one block.
        mean: Mean of each colour channel, 0..1, which is subtracted.
        std: Standard deviation of each, by which the difference is divided.
        still_pixels: Fewest and most pixels of a single image.
        video_pixels: Fewest and most pixels of a frame of a video.
    """

    patch: int = 16
    merge: int = 2
    temporal: int = 2
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    std: tuple[float, ...] = (0.5, 0.5, 0.5)
    still_pixels: tuple[int, int] = (32 * 32, VIDEO_TOKENS * 32 * 32)
    video_pixels: tuple[int, int] = (32 * 32, VIDEO_TOKENS * 32 * 32)

    @property
    def unit(self) -> int:
        """Sides of an image are multiples of this many pixels."""
        return self.patch * self.merge

    def grid(self, size: tuple[int, int]) -> tuple[int, int]:
        """Return rows and columns of tokens in an image of this height and width."""
        return size[0] // self.unit, size[1] // self.unit


@dataclass(frozen=True, slots=True)
class VisionTokens:
    """Ids of the tokens that stand for images."""

    start: int
    end: int
    image: int
    video: int


@dataclass(frozen=True, slots=True)
class RepeatedToken:
    """One token id, repeated ``count`` times; image tokens are replaced by the vision encoder's features."""

    token: int
    count: int


def geometry_of(vision: Mapping[str, Any], processor: Mapping[str, Any], folder: str = "") -> Geometry:
    """Return the geometry that a checkpoint's files state.

    Args:
        vision: ``vision_config`` of its ``config.json``.
        processor: Its ``preprocessor_config.json``; empty where it has none. Only stills follow its limits in
            pixels: those for videos share a budget among all frames, so that a longer prefix would be smaller.
        folder: The checkpoint's folder, for messages.

    Raises:
        ModelError: A field is missing its meaning; the message names file and field.
    """
    plain = Geometry()
    in_config, in_processor = (
        f"{folder}/config.json: vision_config.",
        f"{folder}/preprocessor_config.json: ",
    )
    sides = {
        field: whole_number(vision, field, in_config, 1, MAX_PATCH)
        for field in ("patch_size", "spatial_merge_size", "temporal_patch_size")
    }
    patch, merge = sides["patch_size"] or plain.patch, sides["spatial_merge_size"] or plain.merge
    unit = patch * merge
    size = processor.get("size") or {}
    if not isinstance(size, Mapping):
        raise ModelError(f"{in_processor}size must be an object, got {brief(size)}.")
    in_size = f"{in_processor}size."
    least = whole_number(processor, "min_pixels", in_processor, 1, MAX_LEAST_PIXELS) or whole_number(
        size, "shortest_edge", in_size, 1, MAX_LEAST_PIXELS
    )
    most = whole_number(processor, "max_pixels", in_processor, 1, MAX_MOST_PIXELS) or whole_number(
        size, "longest_edge", in_size, 1, MAX_MOST_PIXELS
    )
    return Geometry(
        patch=patch,
        merge=merge,
        temporal=sides["temporal_patch_size"] or plain.temporal,
        mean=colour_values(processor, "image_mean", in_processor) or plain.mean,
        std=colour_values(processor, "image_std", in_processor, above=0.0) or plain.std,
        still_pixels=(least or unit * unit, most or VIDEO_TOKENS * unit * unit),
        video_pixels=(unit * unit, VIDEO_TOKENS * unit * unit),
    )


def colour_values(
    content: Mapping[str, Any], field: str, where: str, above: float = -math.inf
) -> tuple[float, ...] | None:
    """Return a field of three numbers, one a channel; ``None`` if missing or empty; ModelError if invalid."""
    values = content.get(field)
    if not values:
        return None
    if (
        not isinstance(values, list)
        or len(values) != 3
        or not all(type(value) in (int, float) and above < value < math.inf for value in values)
    ):
        raise ModelError(
            f"{where}{field} must be three finite numbers, one a colour channel, got {brief(values)}."
        )
    return tuple(values)


def fitted_size(height: int, width: int, unit: int, pixels: tuple[int, int]) -> tuple[int, int]:
    """Return the height and width nearest to an image's own that are multiples of ``unit`` and within ``pixels``.

    Qwen's ``smart_resize`` for one image: each side is rounded; if the area is too large (small), both
    sides are scaled by the same factor and rounded down (up). Narrow images keep at least one unit.

    Raises:
        EpisodeError: One side is more than 200 times the other.
    """
    if max(height, width) > 200 * min(height, width):
        raise EpisodeError(
            f"An image of {width}x{height} is too narrow: one side may be at most 200 times the other."
        )
    least, most = pixels
    rows, columns = (max(1, round(side / unit)) for side in (height, width))
    if rows * columns * unit * unit > most:
        shrink = math.sqrt(height * width / most)
        rows, columns = (max(1, math.floor(side / shrink / unit)) for side in (height, width))
    elif rows * columns * unit * unit < least:
        grow = math.sqrt(least / (height * width))
        rows, columns = (math.ceil(side * grow / unit) for side in (height, width))
    return rows * unit, columns * unit


def patches(frames: Frames, geometry: Geometry) -> Patches:
    """Cut frames into rows of pixels, block by block, in the order the vision encoder takes them.

    Args:
        frames: Complete blocks at a size from ``fitted_size``, (blocks * temporal, height, width, 3).
        geometry: Sizes of patches and blocks.

    Returns:
        One row per patch, colour by colour and frame by frame: (blocks * h * w, 3 * temporal * patch * patch).
        Patches that merge into a token are next to each other.
    """
    n, height, width, colours = frames.shape
    p, m, t = geometry.patch, geometry.merge, geometry.temporal
    mean, std = (np.asarray(v, dtype=np.float32) * np.float32(255) for v in (geometry.mean, geometry.std))
    x = frames.reshape(n // t, t, height // (p * m), m, p, width // (p * m), m, p, colours)
    # Reordered as bytes, a quarter of the floats.
    x = x.transpose(0, 2, 5, 3, 6, 8, 1, 4, 7).reshape(-1, colours, t * p * p)
    rows: Patches = ((x.astype(np.float32) - mean[:, None]) / std[:, None]).reshape(len(x), -1)
    return rows


def block_frames(length: int, temporal: int) -> list[tuple[int, ...]]:
    """Return the frames of each block of a video of this length; the last frame is repeated to fill its block.

    >>> block_frames(3, 2)
    [(0, 1), (2, 2)]
    """
    starts = range(0, length, temporal)
    return [tuple(min(start + i, length - 1) for i in range(temporal)) for start in starts]


def block_time(times: FloatArray, frames: tuple[int, ...]) -> float:
    """Return the timestamp of a block: the middle between its first and its last frame, in seconds."""
    return float(times[frames[0]] + times[frames[-1]]) / 2


def appended_times(times: FloatArray, clip: Clip, size: tuple[int, ...]) -> FloatArray:
    """Return the timestamps of a growing video after frames are appended.

    Raises:
        EpisodeError: They have another size, or are not later than the last frame.
    """
    if size and clip.frames.shape[1:] != size:
        raise EpisodeError(
            f"Frames of shape {clip.frames.shape[1:]} were appended to frames of shape {size}."
        )
    grown = np.concatenate([times, clip.timestamps])
    if np.any(np.diff(grown[max(0, len(times) - 1) :]) <= 0):
        raise EpisodeError(
            "Frames must be appended in the order of their timestamps; one is not later than the last."
        )
    return grown


def time_text(seconds: float) -> str:
    """Return a block's timestamp as the text that precedes it in a Qwen3-VL prompt.

    >>> time_text(0.25)
    '<0.2 seconds>'
    """
    return f"<{seconds:.1f} seconds>"


def image_tokens(token: int, count: int, tokens: VisionTokens) -> list[str | RepeatedToken]:
    """Return the tokens of an image between their start and end tokens."""
    return [RepeatedToken(tokens.start, 1), RepeatedToken(token, count), RepeatedToken(tokens.end, 1)]


def token_ids(parts: Sequence[str | RepeatedToken], encode: Encode) -> list[int]:
    """Encode texts and repeated tokens as token ids; adjacent texts are encoded as one, as in the whole prompt."""
    ids: list[int] = []
    text = ""
    for part in parts:
        if isinstance(part, str):
            text += part
            continue
        ids += encode(text) if text else []
        text = ""
        ids += [part.token] * part.count
    return ids + (encode(text) if text else [])


def positions(ids: IntArray, pad: int, grid: tuple[int, int], start: int) -> tuple[IntArray, int]:
    """Return time, row and column of each token (Qwen3-VL's interleaved MRoPE), and the next position.

    A text token has the same number in all three. The tokens of a block have one time, and rows and columns counted
    from it; the text after a block continues after its longer side.

    Args:
        ids: The tokens.
        pad: Token id of images; each run of ``rows * columns`` is one block.
        grid: Rows and columns of a block.
        start: Position of the first token.
    """
    rows, columns = grid
    across = np.indices(grid).reshape(2, -1)
    block = np.concatenate([np.zeros((1, rows * columns), dtype=np.int64), across])
    parts: list[IntArray] = []
    at = 0
    while at < len(ids):
        if ids[at] == pad:
            parts.append(block + start)
            at, start = at + rows * columns, start + max(grid)
            continue
        stop = at
        while stop < len(ids) and ids[stop] != pad:
            stop += 1
        parts.append(np.tile(np.arange(start, start + stop - at), (3, 1)))
        at, start = stop, start + stop - at
    return (np.concatenate(parts, axis=1) if parts else np.zeros((3, 0), dtype=np.int64)), start
