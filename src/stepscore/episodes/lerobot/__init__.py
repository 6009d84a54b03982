"""LeRobot datasets, read from their files and written, without LeRobot itself."""

from stepscore.episodes.lerobot.reader import episode_id
from stepscore.episodes.lerobot.signals import read_state

__all__ = ["episode_id", "read_state"]
