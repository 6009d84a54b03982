"""Images of episodes for a domain gate, with the task and camera they are of."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stepscore.episodes import Episode, open_episodes, resize_frames
from stepscore.errors import OptionError
from stepscore.models.qwen3vl import IMAGE_SIDE
from stepscore.types import Frames


@dataclass(frozen=True, eq=False)
class GateImage:
    """A frame of an episode, resized for the gate.

    Attributes:
        pixels: The image, (IMAGE_SIDE, IMAGE_SIDE, 3).
        instruction: The episode's instruction.
        arrangement: Name of one arrangement of a task's objects; images of one are held out together.
        view: The camera.
    """

    pixels: Frames
    instruction: str
    arrangement: str
    view: str

    @property
    def task(self) -> tuple[str, str]:
        """The instruction and the camera: the classes before shared scenes are found."""
        return self.instruction, self.view


def read_images(
    source: str | Path, frames_per_episode: int, max_images: int, rng: np.random.Generator
) -> list[GateImage]:
    """Read images of a dataset's episodes, every view; of some episodes where there would be too many.

    Args:
        source: The dataset.
        frames_per_episode: Of each episode and view: the first frame, and others at random.
        max_images: Images in all, about.
        rng: Random generator, for the episodes and the frames.
    """
    episodes = open_episodes(source)
    if not len(episodes):
        raise OptionError(f"{source} has no episodes.")
    count = max(1, round(max_images / (frames_per_episode * max(1, len(episodes[0].views)))))
    # At random, not every n-th: policies take turns in a dataset, and every n-th could be of the same policy.
    numbers = sorted(rng.permutation(len(episodes))[:count].tolist())
    return [image for n in numbers for image in _episode_images(episodes[n], frames_per_episode, rng)]


def _episode_images(episode: Episode, count: int, rng: np.random.Generator) -> list[GateImage]:
    arrangement = f"{episode.instruction}/{episode.pair or episode.id}"
    images = []
    for view in episode.views:
        last = len(episode.views[view].timestamps()) - 1
        indices = sorted({0, *(int(v) for v in rng.integers(0, last + 1, count - 1))})
        frames = resize_frames(episode.clip(view, indices=indices).frames, (IMAGE_SIDE, IMAGE_SIDE))
        images += [GateImage(frame, episode.instruction, arrangement, view) for frame in frames]
    return images
