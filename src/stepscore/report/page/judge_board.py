"""All data of the page of a board of judges."""

from __future__ import annotations

from pathlib import Path

from stepscore._options import DEFAULT_REVISION
from stepscore.audit.board import StoredBenchmark, StoredBoard, StoredRow, read_stored_board
from stepscore.errors import RunError
from stepscore.report.page import schema
from stepscore.report.page.data import explorer_tables, page_frame
from stepscore.report.page.episodes import index_episodes
from stepscore.report.page.leaderboards import Pack, estimate_packer
from stepscore.report.page.packing import Table
from stepscore.report.page.signals import trace_table
from stepscore.report.page.videos import video_tables
from stepscore.report.run_sources import RunSources


def board_page_data(folder: Path, *, live: bool = False) -> schema.PageData:
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


def _board(stored: StoredBoard, pack: Pack) -> schema.JudgeBoard:
    """Return the board as the page holds it."""
    names = {metric.name for metric in stored.metrics}
    return {
        "benchmark": _benchmark(stored.benchmark),
        "metrics": [
            {"name": one.name, "title": one.title, "better": one.better, "percent": one.percent}
            for one in stored.metrics
        ],
        "front": stored.front.metric,
        "front_cost": stored.front.cost,
        "rows": [_row(row, names, pack) for row in stored.rows],
        "published": [
            {"label": one.label, "source": one.source, "note": one.note, "values": one.values}
            for one in stored.published
        ],
    }


def _benchmark(stored: StoredBenchmark) -> schema.Benchmark:
    tasks = stored.tasks
    return {
        "name": stored.name,
        "description": stored.description,
        "seed": stored.seed,
        "episodes": stored.episodes,
        "tasks": tasks if isinstance(tasks, int) else len(tasks),
        "fingerprint": stored.fingerprint,
    }


def _row(row: StoredRow, names: set[str], pack: Pack) -> schema.JudgeRow:
    cost = row.cost
    return {
        "label": row.label,
        "judge": row.judge,
        "model": row.model,
        "protocol_hash": row.protocol_hash,
        "trivial": row.trivial,
        "reason": row.reason,
        "cost": {
            "videos": cost.videos,
            "calls": cost.calls,
            "images": cost.images,
            "tokens_in": cost.tokens_in,
            "tokens_out": cost.tokens_out,
            "cost": cost.cost,
            "seconds_per_episode": cost.seconds_per_episode,
        },
        "claimed_by": row.claimed_by,
        "pareto": row.pareto,
        "options": [f"{name}={value}" for name, value in row.options.items()],
        "estimates": {name: pack(one.estimate()) for name, one in row.estimates.items() if name in names},
    }
