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

from stepscore.report.page import Served, page_data, page_template, page_text
from stepscore.runs import open_run

_SCRIPT = re.compile(r"<script\b([^>]*)>(.*?)</script>", re.DOTALL | re.IGNORECASE)


class Media(NamedTuple):
    """A video that may be given out: the very file that was there when the page was built."""

    path: Path
    type: str
    device: int
    inode: int


class LivePage:
    """The page of some run folders and the videos it refers to.

    Args:
        folders: Run folders.
        revision: The OPD revision of the tables.
        videos: Whether the page shows videos.
        template: Another page that holds the placeholder; by default the built one.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        *,
        revision: str = "v1.0",
        videos: bool = True,
        template: str | None = None,
    ) -> None:
        self._folders = tuple(folders)
        self._revision = revision
        self._template = page_template() if template is None else template
        self._shelf = Served() if videos else None
        self._media: list[Media] = []
        self._lock = threading.Lock()
        self._state: tuple[tuple[int, int], ...] | None = None
        self._page = b""
        self.csp = content_policy(self._template)

    def page(self) -> bytes:
        """The page, built anew when a journal has changed since; numbers of videos stay."""
        with self._lock:
            state = tuple(_state(folder / "journal.jsonl") for folder in self._folders)
            if state != self._state:
                runs = [open_run(folder) for folder in self._folders]
                data = page_data(runs, self._shelf, revision=self._revision, live=True)
                text = page_text(data, self._template)
                self._page, self._state = text.encode("utf-8", "replace"), state
                self._note_media()
            return self._page

    def media(self, number: int) -> Media | None:
        """The video with this number; ``None`` where there is none."""
        return self._media[number] if number < len(self._media) else None

    def _note_media(self) -> None:
        files = self._shelf.files if self._shelf else []
        for path, kind in files[len(self._media) :]:
            found = os.stat(path)
            self._media.append(Media(path, kind, found.st_dev, found.st_ino))


def content_policy(template: str) -> str:
    """A Content-Security-Policy under which only the template's own scripts run, and no host is asked."""
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
    found = journal.stat()
    return found.st_size, found.st_mtime_ns
