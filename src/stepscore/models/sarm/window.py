"""SARM's window of observations: the episode's first frame, then frames around the current one.

A window has slots. Slot 0 is the anchor, the episode's first frame. Slots 1..n hold frames ``gap_s`` seconds
apart: up to the current frame (causal), or on both sides of it (bidirectional). A slot whose time lies outside the
episode is padding: it is masked in attention and in every loss. In training further slots may follow, in which the
video is played backwards (rewind).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stepscore.episodes import TIME_TOLERANCE_S, frame_at
from stepscore.errors import OptionError
from stepscore.types import FloatArray, IntArray

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Window:
    """The frames of one window.

    Attributes:
        frames: Frames after the anchor (n).
        gap_s: Seconds between two of them.
        causal: Whether the last of them is the current frame, or the middle one.
        rewind: Further slots for a rewound video; used only in training.
    """

    frames: int = 8
    gap_s: float = 1.0
    causal: bool = True
    rewind: int = 4

    def __post_init__(self) -> None:
        if self.frames < 1 or self.rewind < 0:
            raise OptionError(
                f"A window needs at least 1 frame and 0 rewind slots, got {self.frames} and {self.rewind}."
            )
        if not 0 < self.gap_s < np.inf:
            raise OptionError(f"The gap of a window must be above 0 s and finite, got {self.gap_s} s.")

    @property
    def slots(self) -> int:
        """Slots in all: anchor, frames, rewind."""
        return 1 + self.frames + self.rewind

    @property
    def current_slot(self) -> int:
        """The slot of the current frame, whose stage and progress are predicted."""
        return self.frames if self.causal else 1 + self.frames // 2

    @property
    def reach_s(self) -> float:
        """Seconds before the current frame that a window reaches back, the anchor aside."""
        return (self.current_slot - 1) * self.gap_s

    def frames_at(self, times: FloatArray, scored: IntArray) -> tuple[IntArray, Flags]:
        """Return the frame in each slot of the windows around some frames, and which slots are not padding.

        A slot shows the last frame recorded by its time. Both arrays have shape (scored, 1 + frames); a padded slot
        names frame 0.

        Args:
            times: Seconds of all frames, strictly increasing.
            scored: The current frame of each window.
        """
        offsets = (np.arange(1, self.frames + 1) - self.current_slot) * self.gap_s
        wanted = times[scored][:, None] + offsets
        shown = frame_at(times, wanted)
        inside = (wanted >= times[0] - TIME_TOLERANCE_S) & (wanted <= times[-1] + TIME_TOLERANCE_S)
        anchor = np.zeros((len(scored), 1), dtype=np.int64)
        frames = np.concatenate([anchor, np.where(inside, shown, 0)], axis=1).astype(np.int64)
        return frames, np.concatenate([np.ones_like(anchor, dtype=np.bool_), inside], axis=1)
