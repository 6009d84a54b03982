"""The report as one HTML file that opens from disk, with its data inlined."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from stepscore._files import write_text
from stepscore._options import DEFAULT_REVISION, SceneChoice
from stepscore._progress import doing
from stepscore.errors import RunError
from stepscore.report.page.audits import audit_page_data
from stepscore.report.page.data import page_data
from stepscore.report.page.judge_board import board_page_data
from stepscore.report.page.paging import FileParts, parts_folder, remove_parts
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


def data_text(data: Mapping[str, object]) -> str:
    """Return the data as JSON that is safe inside a script element, whatever its strings hold."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    return text


def page_text(data: Mapping[str, object], template: str | None = None) -> str:
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
    scenes: SceneChoice = "auto",
    template: str | None = None,
    source: str | None = None,
    replace: bool = False,
) -> Path:
    """Write ``folder``/index.html for some runs and return its path.

    A page of more than about 15 MB of data is written with a folder ``index-data`` beside it, whose files it loads
    when an episode is looked at. A report written there before is replaced; any other index.html is not.

    Args:
        runs: The runs to show.
        folder: Where to write; created if it does not exist.
        videos: Whether the page shows videos.
        copy_videos: Copy them next to the page, as H.264 where browsers do not play the original; otherwise the
            page links to the original files.
        revision: The OPD revision of the tables.
        done_at: Progress that ``robust`` counts as done; see :func:`stepscore.analysis.measure_episodes`.
        scenes: What intervals and tests speak of: ``fixed``, the scenes that were tried; ``sample``, scenes like
            them; ``auto``, the scenes that were tried where they are fewer than ten with repeated trials.
        template: See :func:`page_text`.
        source: Where the videos are, instead of where the runs say; may be on the Hub.
        replace: Replace an index.html that StepScore did not write, too.
    """
    page = _checked(Path(folder) / "index.html", replace=replace)
    host = _host(page.parent, videos=videos, copy_videos=copy_videos)
    parts = FileParts(parts_folder(page))
    data = page_data(
        runs, host, revision=revision, done_at=done_at, scenes=scenes, source=source, parts=parts
    )
    with doing("Writing the page"):
        data["parts"] = parts_folder(page).name if data["paged"] else None
        text = page_text(data, template)
        if data["paged"]:
            return _write(page, _loading_parts(text))
        remove_parts(parts_folder(page))
        return _write(page, text)


def write_audit_report(
    audit: str | Path,
    page: str | Path,
    *,
    videos: bool = True,
    copy_videos: bool = False,
    revision: str = DEFAULT_REVISION,
    done_at: float | None = None,
    source: str | None = None,
    replace: bool = False,
) -> Path:
    """Write the page of an audit to a file and return its path.

    Args:
        audit: The audit's folder, as ``stepscore audit`` writes it.
        page: The file; a page written there before is replaced, any other file is not.
        videos: Whether the page shows videos.
        copy_videos: As in :func:`write_report`.
        revision: As in :func:`write_report`.
        done_at: As in :func:`write_report`.
        source: As in :func:`write_report`.
        replace: As in :func:`write_report`.
    """
    page = _checked(Path(page), replace=replace)
    host = _host(page.parent, videos=videos, copy_videos=copy_videos)
    data = audit_page_data(Path(audit), host, revision=revision, done_at=done_at, source=source)
    return _write(page, page_text(data))


def write_board_report(board: str | Path, page: str | Path, *, replace: bool = False) -> Path:
    """Write the page of a board of judges to a file and return its path.

    Args:
        board: The board's folder, as ``stepscore bench`` writes it.
        page: The file; a page written there before is replaced, any other file is not.
        replace: As in :func:`write_report`.
    """
    page = _checked(Path(page), replace=replace)
    return _write(page, page_text(board_page_data(Path(board))))


def _loading_parts(text: str) -> str:
    """Return a page whose policy allows the scripts in the folder of its parts."""
    return text.replace("script-src 'sha256-", "script-src 'self' file: 'sha256-", 1)


def _host(folder: Path, *, videos: bool, copy_videos: bool) -> VideoHost | None:
    return (CopiedVideos(folder) if copy_videos else LinkedVideos(folder)) if videos else None


def _write(page: Path, text: str) -> Path:
    write_text(page, text, errors="replace", make_folder=True)
    return page


def _checked(page: Path, *, replace: bool) -> Path:
    if (
        not replace
        and page.is_file()
        and _DATA_ELEMENT_ID not in page.read_text(encoding="utf-8", errors="replace")
    ):
        raise RunError(f"{page} exists and was not written by StepScore. Choose another folder: -o DIR")
    return page
