"""A camera's frames in a Rerun recording: the packets as they were recorded, or an image each."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepscore.episodes import View
from stepscore.episodes.remote import RemoteVideo
from stepscore.episodes.video import VideoPart, VideoView, cut_video
from stepscore.errors import StepScoreError
from stepscore.report.video import stream_frames
from stepscore.types import FloatArray

if TYPE_CHECKING:
    import rerun as rr

CODECS = ("av1", "h264", "hevc")
"""libav's names of the codecs that Rerun plays from an mp4."""

JPEG_QUALITY = 90


class LoggedVideo(NamedTuple):
    """How many frames were written, with a note about them."""

    frames: int
    note: str = ""


def log_video(
    recording: rr.RecordingStream, place: str, view: View | str, timeline: str, *, encoded: bool
) -> LoggedVideo:
    """Write a camera's frames, each at its timestamp; ``encoded`` copies the packets if Rerun plays their codec."""
    if isinstance(view, str):
        return LoggedVideo(0, f"no video: {view}")
    if isinstance(view, RemoteVideo):
        view = view.on_disk() or view
    try:
        times = view.timestamps()
        part = _part(view) if encoded else ""
        if isinstance(part, VideoPart):
            reason = _log_part(recording, place, part, times, timeline)
            if not reason:
                return LoggedVideo(len(times))
            part = reason
        _log_images(recording, place, view, times, timeline)
    except StepScoreError as error:
        return LoggedVideo(0, f"no video: {error}")
    return LoggedVideo(len(times), f"video as images, since {part}" if part else "")


def _part(view: View) -> VideoPart | str:
    return cut_video(view, CODECS) if isinstance(view, VideoView) else "it is recorded as images"


def _log_part(
    recording: rr.RecordingStream, place: str, part: VideoPart, times: FloatArray, timeline: str
) -> str:
    """Write the packets once, and a reference to its frame at each timestamp; return why not, if it cannot be."""
    import rerun as rr

    video = rr.AssetVideo(contents=part.data, media_type="video/mp4")
    # The clock of the mp4 as Rerun reads it, which ignores edit lists.
    ticks = np.sort(video.read_frame_timestamps_nanos())
    if len(ticks) != part.n_frames:
        return f"Rerun finds {len(ticks)} of its {part.n_frames} frames"
    recording.log(place, video, static=True)
    recording.send_columns(
        place,
        indexes=[rr.TimeColumn(timeline, duration=times)],
        columns=rr.VideoFrameReference.columns_nanos(ticks[part.places]),
    )
    return ""


def _log_images(
    recording: rr.RecordingStream, place: str, view: View, times: FloatArray, timeline: str
) -> None:
    import rerun as rr
    from PIL import Image

    for time, frame in zip(times.tolist(), stream_frames(view), strict=True):
        buffer = io.BytesIO()
        Image.fromarray(frame).save(buffer, "JPEG", quality=JPEG_QUALITY)
        recording.set_time(timeline, duration=time)
        recording.log(place, rr.EncodedImage(contents=buffer.getvalue(), media_type="image/jpeg"))
    recording.reset_time()
