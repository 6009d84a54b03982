"""``stepscore report``: writes the report page of some runs, of an audit, or of a board of judges."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stepscore._options import DEFAULT_REVISION
from stepscore.cli import options
from stepscore.cli.local_code import load_metrics
from stepscore.cli.outputs import PAGE, Force, check_output, new_folder
from stepscore.cli.progress import show_progress, with_bar
from stepscore.cli.tables import err
from stepscore.errors import OptionError


def report(
    runs: options.RunFolders,
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", callback=new_folder, metavar="DIR", help="Folder for index.html (and videos/)."
        ),
    ],
    copy_videos: Annotated[
        bool,
        typer.Option("--copy-videos", help="Copy videos next to the page, as H.264 where browsers need it."),
    ] = False,
    no_videos: Annotated[bool, typer.Option("--no-videos", help="Write a page without videos.")] = False,
    source: options.RunSource = None,
    metric_files: options.MetricFiles = None,
    revision: options.Revision = DEFAULT_REVISION,
    done_at: options.DoneAt = None,
    scenes: options.Scenes = "auto",
    validation: options.ValidationFile = None,
    force: Force = False,
) -> None:
    """Write a page with leaderboards, failure modes and an explorer.

    RUN may also be the folder of one audit (what every probe showed, and the episodes behind it) or of one board of
    judges. Without --copy-videos the page links to the original video files.
    """
    from stepscore.report import page_kind, write_audit_report, write_board_report, write_report
    from stepscore.runs import open_run

    if copy_videos and no_videos:
        raise OptionError("--copy-videos and --no-videos cannot be combined; use one of them.")
    if source is not None and no_videos:
        raise OptionError("--source names where the videos are, and --no-videos shows none; use one of them.")
    load_metrics(metric_files)
    check_output(out / "index.html", PAGE, force=force)
    kind = page_kind(runs)
    if kind == "board":
        _name(write_board_report(runs[0], out / "index.html", replace=force))
        return
    if kind == "audit":
        if validation is not None:
            raise OptionError("--validation belongs to runs; the page of an audit shows the audit itself.")
        page = with_bar(write_audit_report, "Measuring the audit")(
            runs[0],
            out / "index.html",
            videos=not no_videos,
            copy_videos=copy_videos,
            revision=revision,
            done_at=done_at,
            source=source,
            replace=force,
        )
        _name(page)
        return
    with show_progress("Opening runs"):
        opened = [open_run(path) for path in runs]
        options.keep_validation(opened, validation)
        err().print(f"Measuring {sum(run.count for run in opened)} judgements …")
        page = write_report(
            opened,
            out,
            videos=not no_videos,
            copy_videos=copy_videos,
            revision=revision,
            done_at=done_at,
            scenes=scenes,
            source=source,
            replace=force,
        )
    _name(page)


def _name(page: Path) -> None:
    from stepscore.report import parts_folder

    parts = parts_folder(page)
    beside = sorted(parts.glob("*.js")) if parts.is_dir() else []
    if beside:
        size = sum(path.stat().st_size for path in beside) / 1e6
        err().print(
            f"Curves are in {len(beside)} files of {size:.0f} MB in {parts}, which the page loads when they are "
            "looked at: move both or neither.",
            soft_wrap=True,
        )
    err().print(f"{page.stat().st_size / 1e6:.1f} MB; open it in a browser:")
    typer.echo(page)
