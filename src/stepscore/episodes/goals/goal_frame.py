"""A goal image that is a frame of another episode, read on demand."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from stepscore.episodes.view import View
from stepscore.types import Frames


@dataclass(frozen=True)
class GoalFrame:
    """The last frame of a view of another episode.

    Attributes:
        episode_id: The episode that it is of.
        view: The camera.
    """

    episode_id: str
    view: View

    def digest(self) -> bytes:
        """Return bytes that identify the image: those of the whole view, which are cheap to read."""
        return hashlib.sha256(b"last frame\0" + self.view.digest()).digest()

    def read(self, size: int | None = None) -> Frames:
        """Read the image, (h, w, 3), with its longer side ``size`` pixels."""
        image: Frames = self.view.read([len(self.view.timestamps()) - 1], size)[0]
        return image

    def location(self) -> str:
        """Return where it is, for messages and tables."""
        return f"last frame of {self.episode_id} ({self.view.location()})"
