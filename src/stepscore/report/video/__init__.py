"""Videos: frames written as H.264 or GIF, an episode's video with its curve below it, and a clip for a slide."""

from stepscore.report.video.clip import CLIP_FORMATS, write_clip
from stepscore.report.video.h264 import stream_frames, write_h264
from stepscore.report.video.overlay import write_overlay
from stepscore.report.video.spans import clip_span

__all__ = ["CLIP_FORMATS", "clip_span", "stream_frames", "write_clip", "write_h264", "write_overlay"]
