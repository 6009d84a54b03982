"""``stepscore view``: serves the report page live on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from stepscore._options import DEFAULT_REVISION
from stepscore.cli import options
from stepscore.cli.numbers import between
from stepscore.cli.progress import show_progress
from stepscore.cli.tables import err
from stepscore.errors import OptionError


def view(
    runs: options.RunFolders,
    port: Annotated[
        int,
        typer.Option(
            "--port", callback=between(0, 65535), metavar="N", help="Port on 127.0.0.1; 0 chooses a free one."
        ),
    ] = 7474,
    no_videos: Annotated[bool, typer.Option("--no-videos", help="Serve a page without videos.")] = False,
    source: options.RunSource = None,
    revision: options.Revision = DEFAULT_REVISION,
    done_at: options.DoneAt = None,
    scenes: options.Scenes = "auto",
) -> None:
    """Serve the page of runs and update it while they are judged.

    RUN may also be the folder of one audit or of one board of judges.
    """
    from stepscore.server import LivePage, serve

    if source is not None and no_videos:
        raise OptionError("--source names where the videos are, and --no-videos shows none; use one of them.")
    live = LivePage(
        runs, revision=revision, done_at=done_at, scenes=scenes, videos=not no_videos, source=source
    )
    err().print("Measuring …")
    with show_progress("Opening runs"):
        live.page()

    def ready(address: str) -> None:
        typer.echo(address)
        err().print("Only this machine can open it. Press Ctrl+C to stop.")

    serve(live, port, ready)
