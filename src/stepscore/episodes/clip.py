"""Clip: frames with their timestamps."""

from __future__ import annotations

from dataclasses import dataclass

from stepscore.types import FloatArray, Frames, IntArray


@dataclass(frozen=True)
class Clip:
    """Frames of one view with their timestamps and indices in the episode.

    Attributes:
        frames: RGB images, shape (n, h, w, 3), uint8.
        timestamps: Seconds from the episode's first frame, shape (n,).
        indices: Frame indices counted from the episode's first frame, shape (n,).
    """

    frames: Frames
    timestamps: FloatArray
    indices: IntArray

    def __post_init__(self) -> None:
        n = len(self.frames)
        if self.frames.ndim != 4 or self.frames.shape[-1] != 3 or self.frames.dtype != "uint8":
            raise ValueError(
                f"Clip frames are {self.frames.shape} {self.frames.dtype}; expected (n, h, w, 3) uint8."
            )
        if self.timestamps.shape != (n,) or self.indices.shape != (n,):
            raise ValueError(
                f"Clip has {n} frames, {len(self.timestamps)} times and {len(self.indices)} indices."
            )

    def __len__(self) -> int:
        return len(self.frames)

    def __repr__(self) -> str:
        if not len(self):
            return "Clip(0 frames)"
        n, height, width, _ = self.frames.shape
        first, last = self.timestamps[[0, -1]]
        span = f"{first:.2f}-{last:.2f} s, indices {self.indices.min()}-{self.indices.max()}"
        return f"Clip({n} {'frame' if n == 1 else 'frames'}, {width}x{height}, {span})"
