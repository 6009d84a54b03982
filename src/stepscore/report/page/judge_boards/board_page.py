"""All data of the page of a board of judges."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from stepscore._defaults import DEFAULT_REVISION
from stepscore.report.page.boards import Pack, estimate_packer
from stepscore.report.page.data import explorer_tables, page_frame
from stepscore.report.page.episodes import index_episodes
from stepscore.report.page.judge_boards.stored_board import StoredBoard, StoredEstimate, read_board
from stepscore.report.page.packing import Table
from stepscore.report.page.signals import trace_table
from stepscore.report.page.videos import video_tables
from stepscore.report.run_sources import RunSources
from stepscore.types import Estimate


def board_page_data(folder: Path, *, live: bool = False) -> dict[str, Any]:
    """Return everything that the page of a board of judges shows, as JSON values.

    Args:
        folder: The board's folder.
        live: Whether the page is served by ``stepscore view``.

    Raises:
        RunError: The folder does not hold a board.
    """
    stored = read_board(folder)
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
    tasks = stored.benchmark.tasks
    return {
        "benchmark": stored.benchmark.model_dump()
        | {"tasks": tasks if isinstance(tasks, int) else len(tasks)},
        "metrics": [metric.model_dump() for metric in stored.metrics],
        "front": stored.front.get("metric", ""),
        "front_cost": stored.front.get("cost", ""),
        "rows": [
            {
                **row.model_dump(exclude={"estimates", "options"}),
                "options": [f"{name}={value}" for name, value in row.options.items()],
                "estimates": {
                    name: pack(_estimate(one)) for name, one in row.estimates.items() if name in names
                },
            }
            for row in stored.rows
        ],
        "published": [one.model_dump() for one in stored.published],
    }


def _estimate(one: StoredEstimate) -> Estimate:
    value, lo, hi, coverage = (
        math.nan if number is None else number for number in (one.value, one.lo, one.hi, one.coverage)
    )
    return Estimate(value, lo, hi, one.n, one.clusters, coverage, one.method)
