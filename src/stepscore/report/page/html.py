"""The report as one HTML file that opens from disk, with its data inlined."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from stepscore._defaults import DEFAULT_REVISION
from stepscore._files import write_text
from stepscore.errors import RunError
from stepscore.report.page.data import page_data
from stepscore.report.page.video_hosting import CopiedVideos, LinkedVideos, VideoHost
from stepscore.runs import Run

PLACEHOLDER = "__STEPSCORE_DATA__"
_DATA_ELEMENT_ID = "stepscore-data"
# Inside a script element only "<" can end or open anything; the others are a precaution for old parsers.
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def page_template() -> str:
    """Return the built page without data; its sources are in ``web/``."""
    asset = files("stepscore.report.page") / "assets" / "page.html"
    try:
        return asset.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise RunError(f"The page's template is missing from this installation: {error.filename}.") from error


def data_text(data: dict[str, Any]) -> str:
    """Return the data as JSON that is safe inside a script element, whatever its strings hold."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    return text


def page_text(data: dict[str, Any], template: str | None = None) -> str:
    """Return the HTML of the whole page.

    Args:
        data: From :func:`stepscore.report.page.data.page_data`.
        template: HTML that holds the placeholder once; default: the built page.
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
    revision: str = DEFAULT_REVISION,
    done_at: float | None = None,
    template: str | None = None,
    source: str | None = None,
) -> Path:
    """Write ``folder``/index.html for some runs and return its path.

    A report written there before is replaced; any other index.html is not.

    Args:
        runs: The runs to show.
        folder: Where to write; created if it does not exist.
        videos: Whether the page shows videos.
        copy_videos: Copy them next to the page, as H.264 where browsers do not play the original; otherwise the
            page links to the original files.
        revision: The OPD revision of the tables.
        done_at: Progress that ``robust`` counts as done; see :func:`stepscore.analysis.measure_episodes`.
        template: See :func:`page_text`.
        source: Where the videos are, instead of where the runs say; may be on the Hub.
    """
    out = Path(folder)
    page = out / "index.html"
    _check(page)
    host: VideoHost | None = (CopiedVideos(out) if copy_videos else LinkedVideos(out)) if videos else None
    text = page_text(page_data(runs, host, revision=revision, done_at=done_at, source=source), template)
    write_text(page, text, errors="replace", make_folder=True)
    return page


def _check(page: Path) -> None:
    if page.is_file() and _DATA_ELEMENT_ID not in page.read_text(encoding="utf-8", errors="replace"):
        raise RunError(f"{page} exists and was not written by StepScore. Choose another folder: -o DIR")
