"""Writing LeRobot datasets."""

from stepscore.episodes.lerobot.writing.reduced import write_reduced
from stepscore.episodes.lerobot.writing.video_encoding import Codec
from stepscore.episodes.lerobot.writing.writer import Recording, write_lerobot

__all__ = ["Codec", "Recording", "write_lerobot", "write_reduced"]
