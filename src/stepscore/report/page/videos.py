"""The videos of every episode and view: which file, from which second, at which frame rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from stepscore._progress import track
from stepscore.episodes import View, ViewInfo
from stepscore.episodes.perturbations import RetimedView
from stepscore.episodes.remote import RemoteVideo
from stepscore.episodes.video import VideoView, packet_index
from stepscore.errors import StepScoreError, VideoError
from stepscore.report.page import columns
from stepscore.report.page.episodes import EpisodeIndex
from stepscore.report.page.media_probe import probe
from stepscore.report.page.packing import MAX_CODE, dictionary, pack_codes, pack_floats
from stepscore.report.page.video_hosting import HostedVideo, VideoHost
from stepscore.report.run_sources import RunSources
from stepscore.runs import finite_or_none
from stepscore.types import FloatArray

TIMING_TOLERANCE = 0.1
"""Share of a frame by which frame times may deviate from i / fps and still be described by fps alone."""


@dataclass
class _Row:
    """A row of the VideoTable."""

    episode: int
    view: str
    file: int = -1
    start_s: float = 0.0
    info: ViewInfo | None = None
    times: FloatArray | None = None
    shown: columns.ShownFrames | None = None
    unavailable: str = ""


@dataclass
class _Files:
    """The files hosted so far, each once."""

    host: VideoHost
    hosted: list[HostedVideo] = field(default_factory=list)
    by_path: dict[Path, int] = field(default_factory=dict)

    def number(self, path: Path) -> int:
        if path not in self.by_path:
            self.by_path[path] = self.add(self.host.add_file(path, probe(path)))
        return self.by_path[path]

    def add(self, video: HostedVideo) -> int:
        self.hosted.append(video)
        return len(self.hosted) - 1


def video_tables(
    index: EpisodeIndex, host: VideoHost | None, sources: RunSources
) -> tuple[list[columns.MediaFile], columns.VideoTable]:
    """Return the files, and the part of them that shows each episode; both are empty without a host.

    A video that is not available is a row with the reason.
    """
    if host is None:
        return [], _table([])
    files = _Files(host)
    rows = [
        _row(place, name, view, files)
        for place, episode in track(enumerate(index.rows), "Looking for videos", len(index.rows))
        for name, view in sources.views(episode).items()
    ]
    return [_media(video) for video in files.hosted], _table(rows)


def _media(video: HostedVideo) -> columns.MediaFile:
    codec, mime_type, first_s, plays = video.probe
    return {"src": video.src, "codec": codec, "type": mime_type, "first_s": first_s, "plays": plays}


def view_on_disk(view: View | str) -> View | str:
    """Return a view whose video is on this machine, or why there is none; fetches nothing."""
    if isinstance(view, RemoteVideo):
        return (
            view.on_disk() or f"The video is read by range and not copied to this machine: {view.file.url}."
        )
    return view


def _row(place: int, name: str, found: View | str, files: _Files) -> _Row:
    row, view = _Row(place, name), view_on_disk(found)
    if isinstance(view, str):
        row.unavailable = view
        return row
    try:
        _fill(row, view, files)
    except StepScoreError as error:
        row.unavailable = str(error)
    return row


def _fill(row: _Row, view: View, files: _Files) -> None:
    row.info, times = view.info(), view.timestamps()
    recorded = view.view if isinstance(view, RetimedView) else view
    if isinstance(recorded, VideoView):
        row.file = files.number(recorded.path)
        file_times = packet_index(recorded.path).times
        row.start_s = float(file_times[recorded.info().first_frame] - file_times[0])
        if isinstance(view, RetimedView):
            row.shown = _shown(view, recorded)
    else:
        video = files.host.add_frames(view, f"{row.episode}-{row.view}")
        if video is None:
            row.unavailable = (
                "This camera is recorded as single images, not as a video; --copy-videos encodes them."
            )
        else:
            row.file = files.add(video)
    row.times = _uneven(times, row.info.fps)


def _shown(view: RetimedView, recorded: VideoView) -> columns.ShownFrames:
    """Return which recorded frame is on screen at each frame of a changed video."""
    frames, info = view.frames(), recorded.info()
    if info.n_frames > MAX_CODE:
        raise VideoError(f"{recorded.path.name} has too many frames to show them in another order.")
    times = _uneven(recorded.timestamps(), info.fps)
    return {
        "frames": pack_codes(frames.astype(np.float64)),
        "n_frames": info.n_frames,
        "fps": info.fps,
        "times": None if times is None else pack_floats(times),
    }


def _uneven(times: FloatArray, fps: float) -> FloatArray | None:
    """Return the times of frames that the frame rate alone does not tell; ``None`` where it does."""
    even = np.max(np.abs(times - np.arange(len(times)) / fps)) <= TIMING_TOLERANCE / fps
    return None if even else times


def _table(rows: Sequence[_Row]) -> columns.VideoTable:
    infos = [row.info or ViewInfo(0, np.nan, 0, 0, 0.0) for row in rows]
    return {
        "episode": [row.episode for row in rows],
        "view": dictionary(row.view for row in rows),
        "file": [row.file for row in rows],
        "start_s": [row.start_s for row in rows],
        "n_frames": [info.n_frames for info in infos],
        "fps": [finite_or_none(info.fps) for info in infos],
        "width": [info.width for info in infos],
        "height": [info.height for info in infos],
        "times": {str(n): pack_floats(row.times) for n, row in enumerate(rows) if row.times is not None},
        "shown": {str(n): row.shown for n, row in enumerate(rows) if row.shown is not None},
        "notes": {},
        "unavailable": {str(n): row.unavailable for n, row in enumerate(rows) if row.unavailable},
    }
