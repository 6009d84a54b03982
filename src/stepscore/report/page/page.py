"""The report: one page that opens from disk, with its data in it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from stepscore.errors import RunError
from stepscore.report.page.data import page_data
from stepscore.report.page.video_hosting import Copied, Linked, Shelf
from stepscore.runs import Run

PLACEHOLDER = "__STEPSCORE_DATA__"
_MARK = "stepscore-data"
# Inside a script element only "<" can end or open anything; the others are for good measure and old parsers.
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def page_template() -> str:
    """The built page without data; its sources are in ``web/``."""
    asset = files("stepscore.report.page") / "assets" / "page.html"
    try:
        return asset.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise RunError(f"The page's template is missing from this installation: {error.filename}.") from error


def data_text(data: dict[str, Any]) -> str:
    """The data as JSON that is safe inside a script element, whatever its strings hold."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    return text


def page_text(data: dict[str, Any], template: str | None = None) -> str:
    """The whole page.

    Args:
        data: From :func:`stepscore.report.page.data.page_data`.
        template: Another page that holds the placeholder once; by default the built one.
    """
    parts = (page_template() if template is None else template).split(PLACEHOLDER)
    if len(parts) != 2:
        raise RunError(
            f"The page's template holds {PLACEHOLDER} {len(parts) - 1} times; it must hold it once."
        )
    return data_text(data).join(parts)


def write_report(
    runs: Sequence[Run],
    folder: str | Path,
    *,
    videos: bool = True,
    copy_videos: bool = False,
    revision: str = "v1.0",
    template: str | None = None,
) -> Path:
    """Write ``folder``/index.html for some runs; the page's path.

    A page written before is replaced; anything else called index.html is not.

    Args:
        runs: The runs to show.
        folder: Where to write; made if it is not there.
        videos: Whether the page shows videos.
        copy_videos: Copy them beside the page, as H.264 where a browser would not play them; else the page
            refers to them where they lie.
        revision: The OPD revision of the tables.
        template: See :func:`page_text`.
    """
    out = Path(folder)
    page = out / "index.html"
    _check(page)
    shelf: Shelf | None = (Copied(out) if copy_videos else Linked(out)) if videos else None
    text = page_text(page_data(runs, shelf, revision=revision), template)
    temporary = out / ".index.html.tmp"
    try:
        out.mkdir(parents=True, exist_ok=True)
        temporary.write_text(text, encoding="utf-8", errors="replace")
        os.replace(temporary, page)
    except OSError as error:
        raise RunError(f"Cannot write {page}: {error.strerror or error}.") from error
    return page


def _check(page: Path) -> None:
    if page.is_file() and _MARK not in page.read_text(encoding="utf-8", errors="replace"):
        raise RunError(f"{page} is there and is no report of ours. Choose another folder: -o DIR")
