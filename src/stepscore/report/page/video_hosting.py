"""Where a page finds its videos: where they lie, in a folder beside it, or at a server."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import NamedTuple, Protocol
from urllib.parse import quote

from stepscore.episodes import View
from stepscore.episodes.video import VideoView
from stepscore.errors import RunError
from stepscore.report.page.media_probe import Probe, probe
from stepscore.report.video.h264 import stream_frames, write_h264

KEYFRAME_S = 0.5
"""Between keyframes of the videos made for a page: a jump to a moment is to be quick."""


class Placed(NamedTuple):
    """A file as the page refers to it: a quoted URL, and what is there."""

    src: str
    probe: Probe


class Shelf(Protocol):
    """A place for videos."""

    def file(self, path: Path, found: Probe) -> Placed:
        """Put a video file there; called once a file, however many episodes it holds."""

    def pictures(self, view: View, name: str) -> Placed | None:
        """Put a camera there that is no video file; ``None`` where this shelf makes no videos."""


class Linked:
    """Videos stay where they are; the page in ``folder`` refers to them by relative path."""

    def __init__(self, folder: Path) -> None:
        self._folder = os.path.abspath(folder)

    def file(self, path: Path, found: Probe) -> Placed:
        """The way from the page to the file."""
        return Placed(link(path, self._folder), found)

    def pictures(self, view: View, name: str) -> None:
        """Nothing is made."""
        return


class Copied:
    """Videos are copied to ``folder``/videos, as H.264 where a browser would not play them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    def file(self, path: Path, found: Probe) -> Placed:
        """A copy of the file, or an H.264 version with the same frame times."""
        if not found.plays:
            return self._encoded(VideoView(path), path.stem)
        target = self._next(path.stem, path.suffix.lower())
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        except OSError as error:
            raise RunError(f"Cannot copy {path} to {target}: {error.strerror or error}.") from error
        return Placed(f"videos/{target.name}", found)

    def pictures(self, view: View, name: str) -> Placed:
        """An H.264 video of the pictures."""
        return self._encoded(view, name)

    def _encoded(self, view: View, name: str) -> Placed:
        info, target = view.info(), self._next(name, ".mp4")
        write_h264(
            target,
            stream_frames(view),
            view.timestamps(),
            duration_s=info.duration_s,
            fps=info.fps,
            keyframe_s=KEYFRAME_S,
        )
        return Placed(f"videos/{target.name}", probe(target))

    def _next(self, name: str, suffix: str) -> Path:
        self._count += 1
        safe = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[-60:]
        return self._folder / "videos" / f"{self._count:05d}-{safe}{suffix}"


class Served:
    """Videos by number at a server, which knows the files and gives out no others."""

    def __init__(self) -> None:
        self.files: list[tuple[Path, str]] = []
        self._numbers: dict[Path, int] = {}

    def file(self, path: Path, found: Probe) -> Placed:
        """``media/N``; a file keeps its number however often a page is built."""
        number = self._numbers.setdefault(path, len(self.files))
        if number == len(self.files):
            self.files.append((path, found.type))
        return Placed(f"media/{number}", found)

    def pictures(self, view: View, name: str) -> None:
        """Nothing is made."""
        return


def link(path: Path, folder: str) -> str:
    """A quoted relative URL from a folder to a file; a file: URL where there is no relative way (drives)."""
    whole = os.path.abspath(path)
    try:
        return quote(Path(os.path.relpath(whole, folder)).as_posix())
    except ValueError:
        return Path(whole).as_uri()
