"""The page of some runs, kept up to date while they grow."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from stepscore._defaults import DEFAULT_REVISION
from stepscore.report.page import ServedVideos, page_data, page_template, page_text
from stepscore.runs import open_run

_SCRIPT = re.compile(r"<script\b([^>]*)>(.*?)</script>", re.DOTALL | re.IGNORECASE)


class Media(NamedTuple):
    """A video that may be served: exactly the file that existed when the page was built.

    Attributes:
        path: Path of the file.
        type: MIME type.
        device: Device number of the file at that time.
        inode: Its inode number at that time.
    """

    path: Path
    type: str
    device: int
    inode: int


class LivePage:
    """The page of some run folders and the videos it refers to.

    Args:
        folders: Run folders to show.
        revision: The OPD revision of the tables.
        done_at: Progress that ``robust`` counts as done; see :func:`stepscore.analysis.measure_episodes`.
        videos: Whether the page shows videos.
        template: HTML that holds the data placeholder once; default: the built page.
        source: Where the videos are, instead of where the runs say.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        *,
        revision: str = DEFAULT_REVISION,
        done_at: float | None = None,
        videos: bool = True,
        template: str | None = None,
        source: str | None = None,
    ) -> None:
        self._folders = tuple(folders)
        self._revision, self._done_at, self._source = revision, done_at, source
        self._template = page_template() if template is None else template
        self._host = ServedVideos() if videos else None
        self._media: list[Media] = []
        self._lock = threading.Lock()
        self._state: tuple[tuple[int, int], ...] | None = None
        self._page = b""
        self.csp = content_policy(self._template)

    def page(self) -> bytes:
        """Return the page, rebuilt if a journal has changed since; the numbers of videos stay the same.

        Raises:
            StepScoreError: A run cannot be read now; a later call tries again.
        """
        with self._lock:
            state = tuple(_state(folder / "journal.jsonl") for folder in self._folders)
            if state != self._state:
                runs = [open_run(folder) for folder in self._folders]
                data = page_data(
                    runs,
                    self._host,
                    revision=self._revision,
                    done_at=self._done_at,
                    live=True,
                    source=self._source,
                )
                text = page_text(data, self._template)
                self._page, self._state = text.encode("utf-8", "replace"), state
                self._update_media()
            return self._page

    def media(self, number: int) -> Media | None:
        """Return the video with this number; ``None`` if there is none."""
        return self._media[number] if number < len(self._media) else None

    def _update_media(self) -> None:
        files = self._host.files if self._host else []
        for path, mime_type in files[len(self._media) :]:
            try:
                status = os.stat(path)
                device, inode = status.st_dev, status.st_ino
            except OSError:  # removed since; its number stays its own
                device, inode = -1, -1
            self._media.append(Media(path, mime_type, device, inode))


def content_policy(template: str) -> str:
    """Return a Content-Security-Policy that allows the template's own scripts only and no other host."""
    hashes = [
        f"'sha256-{base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()}'"
        for attributes, body in _SCRIPT.findall(template)
        if "application/json" not in attributes
    ]
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src {' '.join(hashes) or chr(39) + 'none' + chr(39)}",
            "style-src 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "media-src 'self' blob:",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ]
    )


def _state(journal: Path) -> tuple[int, int]:
    try:
        status = journal.stat()
    except OSError:
        return -1, -1  # opening the run says what is wrong
    return status.st_size, status.st_mtime_ns
