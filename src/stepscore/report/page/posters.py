"""Frames of the worst failures as small JPEGs inside the page, visible without the videos."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from typing import Any

import numpy as np

from stepscore.episodes import View
from stepscore.errors import StepScoreError
from stepscore.report.page.packing import Table
from stepscore.report.page.videos import view_on_disk
from stepscore.report.run_sources import RunSources
from stepscore.types import Frames

MAX_POSTERS = 24
"""Frames on one page, at most; with :data:`SIZE` and :data:`QUALITY` they take about a third of a megabyte."""
SIZE = 240
"""Pixels of the longer side."""
QUALITY = 70


class Posters:
    """The frames that a page shows of its failures, each once; none without ``sources``."""

    def __init__(self, sources: RunSources | None) -> None:
        self._sources = sources
        self._table = Table[str]()
        self._numbers: dict[tuple[str, str, float | None], int] = {}

    @property
    def images(self) -> list[str]:
        """Return the JPEGs, in base64."""
        return self._table.rows

    def number(self, row: Mapping[str, Any], time_s: float | None) -> int:
        """Return the index of an episode's frame (default: the last); -1 if there is none."""
        key = str(row["source"]), str(row["episode_id"]), time_s
        if key not in self._numbers:
            self._numbers[key] = self._add(row, time_s)
        return self._numbers[key]

    def _add(self, row: Mapping[str, Any], time_s: float | None) -> int:
        if self._sources is None or len(self.images) >= MAX_POSTERS:
            return -1
        for found in self._sources.views(row).values():
            view = view_on_disk(found)
            if isinstance(view, str):
                continue
            try:
                return self._table.number(_jpeg(_frame(view, time_s)))
            except StepScoreError:
                continue  # the explorer says why a video cannot be shown
        return -1


def _frame(view: View, time_s: float | None) -> Frames:
    """Return the frame on screen at a time."""
    times = view.timestamps()
    at = len(times) - 1
    if time_s is not None:
        at = int(np.clip(np.searchsorted(times, time_s + 1e-6, side="right") - 1, 0, at))
    frame: Frames = view.read([at], SIZE)[0]
    return frame


def _jpeg(frame: Frames) -> str:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(frame).save(file, "JPEG", quality=QUALITY, optimize=True)
    return base64.b64encode(file.getvalue()).decode()
