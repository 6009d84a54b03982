"""The video files, and which part of which file shows an episode."""

from __future__ import annotations

from typing_extensions import TypedDict

from stepscore.report.page.schema.values import Dict, Packed


class MediaFile(TypedDict):
    """A video file."""

    src: str
    """URL, already quoted: relative, file:///..., or media/N."""
    codec: str
    """E.g. "h264", "av1", "hevc", "mpeg4", "vp9"."""
    type: str
    """E.g. "video/mp4", "video/webm"."""
    first_s: float
    """Presentation time of the file's first frame (usually 0)."""
    plays: bool
    """false: browsers do not play it (the page says so, with the remedy --copy-videos)."""


class ShownFrames(TypedDict):
    """The frames of a changed video, which is shown from the recorded one."""

    frames: Packed
    """The recorded frame of each frame."""
    n_frames: int
    """Of the recorded video, from start_s on."""
    fps: float
    times: Packed | None
    """Seconds of each recorded frame, where that is not i / fps."""


class VideoTable(TypedDict):
    """One row per episode and view, sorted by episode, the main view first. Columns of equal length."""

    episode: list[int]
    view: Dict
    file: list[int]
    """Index into files; -1: no file a browser can open (see `unavailable`)."""
    start_s: list[float]
    """Time of the episode's first frame, counted from the file's first frame."""
    n_frames: list[int]
    fps: list[float | None]
    """null: not known (no video, or a single frame)."""
    width: list[int]
    height: list[int]
    times: dict[str, Packed]
    """Seconds of each frame from the episode's first, only for rows whose frames are not at i / fps (to 10 % of a
    frame): row number -> times."""
    shown: dict[str, ShownFrames]
    """Of rows whose frames are those of the file in another order: row number -> which."""
    notes: dict[str, str]
    """Row number -> what to know of the video shown."""
    unavailable: dict[str, str]
    """Row number -> why there is no video."""
