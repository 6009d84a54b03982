"""Write docs/measurements/board.md from the committed boards beside this file.

    python -m benchmarks.board.page              # rewrite it
    python -m benchmarks.board.page --take BOARD --topreward TOPREWARD    # take new boards first

`board.json` is of `stepscore bench OUT --entries benchmarks/board/entries.yaml -o BOARD`, `topreward.json` of
`stepscore bench OUT --preset topreward --models embedded -o TOPREWARD`, OUT of `python -m benchmarks.board.make OUT`.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
from pathlib import Path
from typing import Any

from stepscore._tables import markdown_table
from stepscore.audit.board import board_tables, published_table, read_board, topreward_tables
from stepscore.audit.board.topreward import TableCell
from stepscore.types import Estimate

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs/measurements/board.md"
BOARD, TOPREWARD = HERE / "board.json", HERE / "topreward.json"
ABOUT = (
    "# Every judge on one board\n\n"
    "What [`stepscore bench`](../methods/board.md) finds about every judge of this project "
    "on one simulated benchmark.\n\n"
)


def page() -> str:
    """Return the page as the committed boards have it."""
    board = read_board(BOARD)
    about = board.benchmark
    cells = [_cell(row) for row in json.loads(TOPREWARD.read_text(encoding="utf-8"))]
    parts = [
        "## Every judge\n",
        "```\npython -m benchmarks.board.make OUT\n"
        "stepscore bench OUT --entries benchmarks/board/entries.yaml -o BOARD -E cache=false\n```\n",
        f"{about['description']} {about['episodes']} episodes, {about['pairs']} pairs and {about['questions']} "
        f"questions of seed {about['seed']}, on which nothing was trained or fitted; fingerprint "
        f"`{about['fingerprint']}`. The same numbers as JSON, with coverage and method of every interval, are in "
        "`benchmarks/board/board.json`. `sarm` is the checkpoint of `python -m benchmarks.audit.judges WORK`, "
        "trained on other scenes of the same tasks; seconds were measured on two busy processors.\n",
        *map(markdown_table, board_tables(board)),
        "## Published figures\n",
        markdown_table(published_table()),
        "## TOPReward's own tables\n",
        "```\nstepscore bench OUT --preset topreward --models embedded -o TOPREWARD\n```\n",
        "One set of tables for each model of `--models`, also written to `TOPREWARD/topreward.json`. VOC is by "
        "dataset, or by task if there is only one dataset.\n",
        *map(markdown_table, topreward_tables(cells)),
    ]
    return ABOUT + "\n".join(parts)


def _cell(row: dict[str, Any]) -> TableCell:
    value, lo, hi, coverage = (
        math.nan if row[name] is None else float(row[name]) for name in ("value", "lo", "hi", "coverage")
    )
    estimate = Estimate(value, lo, hi, row["n"], row["clusters"], coverage, row["method"])
    group = row["group"]
    return TableCell(
        group["model"],
        group["table"],
        group["row"],
        row["metric"],
        estimate if row["n"] else None,
        row["reason"],
        row["published"],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Write docs/measurements/board.md.")
    parser.add_argument("--take", type=Path, help="board folder to take board.json from")
    parser.add_argument("--topreward", type=Path, help="board folder to take topreward.json from")
    given = parser.parse_args()
    for folder, target in ((given.take, BOARD), (given.topreward, TOPREWARD)):
        if folder is not None:
            shutil.copy(folder / target.name, target)
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
