"""Where a page finds its videos: in their original place, in a folder next to it, or on a server."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import NamedTuple, Protocol
from urllib.parse import quote

from stepscore.episodes import View
from stepscore.episodes.video import VideoView, open_video, packet_index, video_stream
from stepscore.errors import RunError
from stepscore.report.video import stream_frames, write_h264

KEYFRAME_INTERVAL_S = 0.5
"""Seconds between keyframes of the videos encoded for a page; a short interval makes seeking quick."""


class HostedVideo(NamedTuple):
    """A video file as the page refers to it: a quoted URL, relative if possible, and how the file plays."""

    src: str
    probe: Probe


class VideoHost(Protocol):
    """A place from which a page loads its videos."""

    def add_file(self, path: Path, probed: Probe) -> HostedVideo:
        """Host a video file; called once for each file, however many episodes it holds."""

    def add_frames(self, view: View, name: str) -> HostedVideo | None:
        """Host a camera that is not recorded as a video file; ``None`` if this host encodes no videos."""


class LinkedVideos:
    """Videos that stay where they are; the page in ``folder`` refers to them by relative path."""

    def __init__(self, folder: Path) -> None:
        self._folder = os.path.abspath(folder)

    def add_file(self, path: Path, probed: Probe) -> HostedVideo:
        """Return the relative URL from the page to the file."""
        return HostedVideo(relative_url(path, self._folder), probed)

    def add_frames(self, view: View, name: str) -> None:
        """Encode nothing."""
        return


class CopiedVideos:
    """Videos copied to ``folder``/videos, re-encoded as H.264 where browsers do not play the original."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    def add_file(self, path: Path, probed: Probe) -> HostedVideo:
        """Copy the file, or write an H.264 version with the same frame times."""
        if not probed.plays:
            return self._encode(VideoView(path), path.stem)
        target = self._next_path(path.stem, path.suffix.lower())
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        except OSError as error:
            raise RunError(f"Cannot copy {path} to {target}: {error.strerror or error}.") from error
        return HostedVideo(f"videos/{target.name}", probed)

    def add_frames(self, view: View, name: str) -> HostedVideo:
        """Write the camera's frames as an H.264 video."""
        return self._encode(view, name)

    def _encode(self, view: View, name: str) -> HostedVideo:
        info, target = view.info(), self._next_path(name, ".mp4")
        write_h264(
            target,
            stream_frames(view),
            view.timestamps(),
            duration_s=info.duration_s,
            fps=info.fps,
            keyframe_s=KEYFRAME_INTERVAL_S,
        )
        return HostedVideo(f"videos/{target.name}", probe(target))

    def _next_path(self, name: str, suffix: str) -> Path:
        self._count += 1
        safe = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[-60:]
        return self._folder / "videos" / f"{self._count:05d}-{safe}{suffix}"


class ServedVideos:
    """Videos that a server hands out by number: path and MIME type of each, and no other files."""

    def __init__(self) -> None:
        self.files: list[tuple[Path, str]] = []
        self._numbers: dict[Path, int] = {}

    def add_file(self, path: Path, probed: Probe) -> HostedVideo:
        """Return ``media/N``; a file keeps its number however often a page is built."""
        number = self._numbers.setdefault(path, len(self.files))
        if number == len(self.files):
            self.files.append((path, probed.type))
        return HostedVideo(f"media/{number}", probed)

    def add_frames(self, view: View, name: str) -> None:
        """Encode nothing."""
        return


def relative_url(path: Path, folder: str) -> str:
    """Return the quoted relative URL from a folder to a file; a file: URL if they are on different drives."""
    absolute = os.path.abspath(path)
    try:
        return quote(Path(os.path.relpath(absolute, folder)).as_posix())
    except ValueError:
        return Path(absolute).as_uri()


PLAYED = {"h264": ("yuv420p", "yuvj420p"), "av1": (), "vp8": (), "vp9": ()}
"""Codecs that browsers play, with the pixel formats they play them in (empty: any)."""

_TYPES = {"mp4": "video/mp4", "mov": "video/mp4", "webm": "video/webm", "m4v": "video/mp4"}


class Probe(NamedTuple):
    """The properties of a video file that decide how a browser plays it; ``plays`` without re-encoding."""

    codec: str
    type: str
    first_s: float
    plays: bool


def probe(path: Path) -> Probe:
    """Read a video file's codec, type and first time without decoding frames; VideoError if it is unreadable."""
    with open_video(path) as container:
        context = video_stream(container, path).codec_context
        codec, pixels = context.codec.canonical_name, context.pix_fmt
    kind = _TYPES.get(path.suffix.lower().removeprefix("."), "")
    allowed = PLAYED.get(codec)
    plays = bool(kind) and allowed is not None and (not allowed or pixels in allowed)
    return Probe(codec, kind or "application/octet-stream", float(packet_index(path).times[0]), plays)
