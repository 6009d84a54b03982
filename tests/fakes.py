"""Stand-ins for tests that are not about video: a view with frames but no file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stepscore.episodes import Episode
from stepscore.episodes.view import ViewInfo
from stepscore.types import FloatArray, Frames


@dataclass(frozen=True)
class FakeView:
    """``n`` grey frames at ``fps``; frame i has the value i."""

    n: int = 50
    fps: float = 10.0
    mark: str = "fake"

    def info(self) -> ViewInfo:
        return ViewInfo(self.n, self.fps, 8, 6, self.n / self.fps)

    def timestamps(self) -> FloatArray:
        return np.arange(self.n) / self.fps

    def read(self, indices: Sequence[int], size: int | None = None) -> Frames:
        return np.stack([np.full((6, 8, 3), i % 256, np.uint8) for i in indices])

    def digest(self) -> bytes:
        return f"{self.mark} {self.n} {self.fps}".encode()

    def location(self) -> str:
        return self.mark


def episode(name: str = "e", **fields: object) -> Episode:
    """An episode with one fake view called top."""
    values: dict[str, object] = {"id": name, "instruction": "open the drawer", "views": {"top": FakeView()}}
    return Episode(**{**values, **fields})  # type: ignore[arg-type]
