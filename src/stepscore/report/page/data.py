"""The one value that a report page holds, assembled from runs; ``web/src/contract.ts`` is its type."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from stepscore import __version__
from stepscore.errors import OptionError
from stepscore.metrics.opd import REVISIONS
from stepscore.report.page.boards import Board, board_data, estimate_packer, fingerprint_rules, open_boards
from stepscore.report.page.episodes import episode_table, index_episodes
from stepscore.report.page.judge_agreement import MOST_EPISODES, trust_rows, without_baselines
from stepscore.report.page.judgements import Prompts, judged_tables
from stepscore.report.page.packing import Table
from stepscore.report.page.runs import board_labels, metric_info, run_rows, warning, warnings_of
from stepscore.report.page.video_hosting import Shelf
from stepscore.report.page.videos import video_tables
from stepscore.runs import Run

FORMAT = 1


def page_data(
    runs: Sequence[Run], shelf: Shelf | None = None, *, revision: str = "v1.0", live: bool = False
) -> dict[str, Any]:
    """Everything the page shows of some runs, as JSON values.

    Args:
        runs: One run or several: other judges over the same episodes, other policies, other sources.
        shelf: Where the page finds videos; ``None`` for a page without them.
        revision: The OPD revision of the tables.
        live: Whether a server gives out the page.
    """
    if not runs:
        raise OptionError("A report needs at least one run folder.")
    index = index_episodes(runs)
    boards = open_boards(runs, revision)
    labels = board_labels(boards)
    methods, prompts = Table[str](), Prompts()
    pack = estimate_packer(methods)
    rows = run_rows(boards, pack)
    judged = {
        number: table
        for board in boards
        for number, table in zip(board.numbers, judged_tables(board, index, prompts), strict=True)
    }
    files, videos = video_tables(runs, index, shelf)
    data: dict[str, Any] = {
        "format": FORMAT,
        "made": {"stepscore": __version__, "created": datetime.now(UTC).isoformat(timespec="seconds")},
        "live": live,
        "title": ", ".join(row["name"] for row in rows),
        "revision": revision,
        "live_revisions": [revision, *(name for name in REVISIONS if name != revision)],
        "warnings": warnings_of(boards, labels, rows) + _left_out(boards, runs, rows, judged, videos),
        "metrics": [metric_info(column) for column in boards[0].measures.columns],
        "runs": rows,
        "boards": [board_data(board, label, pack) for board, label in zip(boards, labels, strict=True)],
        "trust": trust_rows(boards, runs, pack),
        "rules": fingerprint_rules(),
        "episodes": episode_table(index),
        "files": files,
        "videos": videos,
        "judged": [judged[number] for number in sorted(judged)],
        "prompt_lines": prompts.lines,
        "prompts": prompts.prompts,
    }
    return data | {"methods": methods.rows}


def _left_out(
    boards: Sequence[Board],
    runs: Sequence[Run],
    rows: Sequence[dict[str, Any]],
    judged: dict[int, Any],
    videos: dict[str, Any],
) -> list[Any]:
    """What is missing from the page, and how to have it."""
    found = []
    for number, table in judged.items():
        if table["calls"]["left_out"]:
            text = (
                f"{rows[number]['name']}: prompts and answers of {table['calls']['left_out']} episodes are "
                f"not on the page, for its size; they are in {runs[number].path / 'calls.parquet'}."
            )
            found.append(warning("left-out", text))
    for board in without_baselines(boards, runs):
        text = (
            f"Over {MOST_EPISODES} episodes no trivial baselines are made beside {board.runs[0].judge}. Judge "
            "them: stepscore judge SOURCE --judge linear-time -o RUN, and give that run to the report, too."
        )
        found.append(warning("left-out", text))
    if videos["why"]:
        reasons = sorted(set(videos["why"].values()))
        text = f"{len(videos['why'])} of {len(videos['episode'])} videos cannot be shown."
        found.append(warning("videos", text, reasons[:10]))
    return found
