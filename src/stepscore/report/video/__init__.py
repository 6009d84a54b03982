"""Videos: frames written as H.264, and an episode's video with its curve growing underneath."""

from stepscore.report.video.h264 import stream_frames, write_h264
from stepscore.report.video.overlay import write_overlay

__all__ = ["stream_frames", "write_h264", "write_overlay"]
