"""All data of the page of a board of judges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stepscore._defaults import DEFAULT_REVISION
from stepscore.audit.board import StoredBoard, read_stored_board
from stepscore.errors import RunError
from stepscore.report.page.boards import Pack, estimate_packer
from stepscore.report.page.data import explorer_tables, page_frame
from stepscore.report.page.episodes import index_episodes
from stepscore.report.page.packing import Table
from stepscore.report.page.signals import trace_table
from stepscore.report.page.videos import video_tables
from stepscore.report.run_sources import RunSources


def board_page_data(folder: Path, *, live: bool = False) -> dict[str, Any]:
    """Return everything that the page of a board of judges shows, as JSON values.

    Args:
        folder: The board's folder.
        live: Whether the page is served by ``stepscore view``.

    Raises:
        RunError: The folder does not hold a board.
    """
    stored = read_stored_board(folder / "board.json", RunError)
    methods = Table[str]()
    pack = estimate_packer(methods)
    index = index_episodes(())
    files, videos = video_tables(index, None, RunSources(()))
    return {
        **page_frame(DEFAULT_REVISION, live=live),
        **explorer_tables((), index, pack),
        "title": f"Judges on {stored.benchmark.name}",
        "warnings": [],
        "boards": [],
        "judge_agreement": [],
        "traces": trace_table(None, index, (), None),
        "files": files,
        "videos": videos,
        "posters": [],
        "judge_board": _board(stored, pack),
        "methods": methods.rows,
    }


def _board(stored: StoredBoard, pack: Pack) -> dict[str, Any]:
    """Return the contract's JudgeBoard."""
    names = {metric.name for metric in stored.metrics}
    benchmark = stored.benchmark.model_dump(exclude={"pairs", "questions", "success"})
    tasks = stored.benchmark.tasks
    return {
        "benchmark": benchmark | {"tasks": tasks if isinstance(tasks, int) else len(tasks)},
        "metrics": [metric.model_dump() for metric in stored.metrics],
        "front": stored.front.metric,
        "front_cost": stored.front.cost,
        "rows": [
            {
                **row.model_dump(exclude={"estimates", "options", "missing", "command"}),
                "options": [f"{name}={value}" for name, value in row.options.items()],
                "estimates": {
                    name: pack(one.estimate()) for name, one in row.estimates.items() if name in names
                },
            }
            for row in stored.rows
        ],
        "published": [one.model_dump() for one in stored.published],
    }
