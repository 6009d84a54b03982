"""Frames made by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stepscore.curation.frames import EpisodeFrames, RunFrames


def frames_of(
    *curves: Sequence[float],
    success: Sequence[bool | None] | None = None,
    tasks: Sequence[str] | None = None,
    fps: float = 10.0,
) -> RunFrames:
    """One episode a curve, a point a frame."""
    episodes, first = [], 0
    for number, curve in enumerate(curves):
        values = np.asarray(curve, dtype=np.float64)
        episodes.append(
            EpisodeFrames(
                id=f"episode_{number:06d}",
                number=number,
                first_index=first,
                n_frames=len(values),
                fps=fps,
                task=tasks[number] if tasks else "push",
                success=success[number] if success else None,
                times=np.arange(len(values)) / fps,
                values=values,
            )
        )
        first += len(values)
    return RunFrames(tuple(episodes))
