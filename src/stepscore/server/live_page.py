"""The page of some runs, kept up to date while they grow.

An open page asks for newer data every few seconds. Measuring a large run takes long, on the machine that may be
judging it: a request that a page makes automatically is measured again only after a pause of :data:`PAUSE` times
the duration of the last measurement.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import secrets
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from stepscore._journals import LeaseObserver
from stepscore._options import DEFAULT_REVISION, SceneChoice
from stepscore._progress import doing
from stepscore.report.page import (
    PageData,
    RunSources,
    ServedParts,
    ServedTraces,
    ServedVideos,
    audit_page_data,
    board_page_data,
    data_text,
    page_data,
    page_kind,
    page_template,
    page_text,
)
from stepscore.runs import Run, is_being_written, open_run

PAUSE = 4
"""Pause between two measurements for open pages, in units of the time that the last one took."""

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


class _RunState(NamedTuple):
    """What changes when a run or an audit does: its journal, its description, and whether it is being written."""

    journal: tuple[int, int]
    info: tuple[tuple[int, int], ...]
    running: bool


class LivePage:
    """The page of some run folders and the videos it refers to.

    Args:
        folders: Run folders to show, or the folder of one audit.
        revision: The OPD revision of the tables.
        done_at: Progress that ``robust`` counts as done; see :func:`stepscore.analysis.measure_episodes`.
        scenes: What intervals and tests speak of; see :func:`stepscore.analysis.measure_episodes`.
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
        scenes: SceneChoice = "auto",
        videos: bool = True,
        template: str | None = None,
        source: str | None = None,
    ) -> None:
        self._folders, self._kind = tuple(folders), page_kind(folders)
        self._leases = [LeaseObserver(folder) for folder in self._folders]
        self._revision, self._done_at, self._scenes, self._source = revision, done_at, scenes, source
        self._template = served_template(page_template() if template is None else template)
        self._host = ServedVideos() if videos else None
        self._traces, self._parts = ServedTraces(), ServedParts()
        self._media: list[Media] = []
        self._lock = threading.Lock()
        self._state: tuple[_RunState, ...] | None = None
        self._data: PageData | None = None
        self._sources = RunSources(())
        self._page: bytes | None = None
        self._build, self._name = 0, secrets.token_hex(4)
        self._next_s = 0.0
        self.csp = content_policy(self._template)

    def page(self) -> bytes:
        """Return the page, rebuilt if a run has changed since; the numbers of videos stay the same.

        Raises:
            StepScoreError: A run cannot be read now; a later call tries again.
        """
        with self._lock:
            data = self._update()
            if self._page is None:
                with doing("Making the page"):
                    self._page = page_text(data, self._template).encode("utf-8", "replace")
            return self._page

    def data(self, version: str) -> bytes | None:
        """Return the page's data as JSON; ``None`` where those of this version are still current.

        Args:
            version: ``version`` of the data that the page has.

        Raises:
            StepScoreError: A run cannot be read now; a later call tries again.
        """
        with self._lock:
            data = self._data
            if data is None or time.monotonic() >= self._next_s:
                data = self._update()
            return None if data["version"] == version else data_text(data).encode("utf-8", "replace")

    def traces(self, number: int) -> bytes | None:
        """Return state and action of the episode with this number as JSON; ``None`` if there is none.

        Raises:
            StepScoreError: Its source cannot be read.
        """
        table = self._traces.table(number, self._sources)
        return None if table is None else data_text(table).encode("utf-8", "replace")

    def part(self, name: str) -> bytes | None:
        """Return a part of a page of many episodes as JSON; ``None`` if there is none of this name."""
        return self._parts.read(name)

    def _update(self) -> PageData:
        state = tuple(map(_run_state, self._folders, self._leases))
        if state == self._state and self._data is not None:
            return self._data
        started = time.monotonic()
        runs, data = self._measure()
        running = {str(folder): one.running for folder, one in zip(self._folders, state, strict=True)}
        for row in data["runs"]:
            row["running"] = running.get(row["path"], False)
        self._build += 1
        data["version"] = f"{self._name}-{self._build}"
        self._data = data
        self._sources = RunSources(runs, self._source)
        self._page, self._state = None, state
        self._update_media()
        now = time.monotonic()
        self._next_s = now + PAUSE * (now - started)
        return data

    def _measure(self) -> tuple[list[Run], PageData]:
        if self._kind == "board":
            return [], board_page_data(self._folders[0], live=True)
        if self._kind == "audit":
            data = audit_page_data(
                self._folders[0],
                self._host,
                revision=self._revision,
                done_at=self._done_at,
                live=True,
                source=self._source,
            )
            return [], data
        runs = [open_run(folder) for folder in self._folders]
        self._parts.begin()
        data = page_data(
            runs,
            self._host,
            revision=self._revision,
            done_at=self._done_at,
            scenes=self._scenes,
            live=True,
            source=self._source,
            traces=self._traces,
            parts=self._parts,
        )
        return runs, data

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


def served_template(template: str) -> str:
    """Return the template for a page that is served: its own policy then allows requests to the server it is from."""
    return template.replace("default-src 'none'; ", "default-src 'none'; connect-src 'self'; ", 1)


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
            "connect-src 'self'",
            f"script-src {' '.join(hashes) or chr(39) + 'none' + chr(39)}",
            "style-src 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "media-src 'self' blob:",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ]
    )


def _run_state(folder: Path, lease: LeaseObserver) -> _RunState:
    journal = folder / "journal.jsonl"
    infos = [_file_state(folder / name) for name in ("run.json", "audit.json", "board.json")]
    return _RunState(_file_state(journal), tuple(infos), is_being_written(journal, lease))


def _file_state(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return -1, -1  # opening the run says what is wrong
    return status.st_size, status.st_mtime_ns
