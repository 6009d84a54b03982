"""The board: rows of judges on one benchmark, kept in a folder.

=====================  ==============================================================================
``board.json``         the board, for the page
``rows/NAME.json``     a row with its protocol, command and curves
``claims/NAME.json``   a row measured by others, unchanged
``runs/NAME``          the judge's answers: ``recorded`` episodes and ``changed`` videos
=====================  ==============================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from stepscore._files import write_json
from stepscore._untrusted import shown
from stepscore.audit.board.benchmark import Benchmark
from stepscore.audit.board.board_metrics import BY_NAME, METRICS, PUBLISHED, BoardMetric
from stepscore.audit.board.row import BoardRow
from stepscore.audit.board.schemas import (
    BOARD_FORMAT,
    FILE,
    StoredBoard,
    not_a_board,
    read_row,
    read_stored_board,
)
from stepscore.audit.pareto import pareto_front
from stepscore.errors import ManifestError, OptionError, RunError

FRONT = "success_auc_within_tasks"
"""Default accuracy metric of the Pareto front."""


@dataclass(frozen=True)
class Board:
    """Judges on one benchmark, best first by the front's accuracy metric, baselines last."""

    benchmark: Mapping[str, Any]
    rows: tuple[BoardRow, ...]
    front: BoardMetric

    @property
    def cost_kind(self) -> CostKind:
        """The cost of the Pareto front."""
        return cost_kind(self.rows)

    @property
    def pareto(self) -> set[str]:
        """Labels of the rows on the Pareto front."""
        return front_labels(self.rows, self.front, self.cost_kind)

    @property
    def metrics(self) -> tuple[BoardMetric, ...]:
        """The metrics that at least one row has."""
        return tuple(one for one in METRICS if any(one.name in row.estimates for row in self.rows))

    def to_dict(self) -> dict[str, Any]:
        """Return the board as ``board.json`` has it."""
        front = self.pareto
        return {
            "format": BOARD_FORMAT,
            "benchmark": dict(self.benchmark),
            "metrics": [metric.to_dict() for metric in self.metrics],
            "front": {"metric": self.front.name, "cost": self.cost_kind},
            "rows": [row.on_board(pareto=row.label in front) for row in self.rows],
            "published": [one.to_dict() for one in PUBLISHED],
        }

    def write(self, folder: Path) -> Path:
        """Write ``board.json`` into a folder; return its path."""
        path = folder / FILE
        write_json(path, self.to_dict(), make_folder=True)
        return path


def front_metric(name: str) -> BoardMetric:
    """Return the metric of the front by its name.

    Raises:
        OptionError: The name is unknown.
    """
    if name not in BY_NAME:
        raise OptionError(f"Unknown metric {shown(name)!r}. Valid: {', '.join(BY_NAME)}.")
    return BY_NAME[name]


def open_board(folder: Path, benchmark: Benchmark, front: BoardMetric) -> Board:
    """Return the board of all rows in a folder.

    Raises:
        RunError: A row was measured on other data.
    """
    rows = [read_row(path) for path in sorted((folder / "rows").glob("*.json"))]
    rows += [read_claim(path, benchmark) for path in sorted((folder / "claims").glob("*.json"))]
    for row in rows:
        if row.benchmark["fingerprint"] != benchmark.fingerprint:
            raise RunError(
                f"{shown(folder)} holds rows measured on other data ({row.label} on {row.benchmark['name']}), which "
                "cannot share a table. Choose another folder: -o BOARD"
            )
    return Board(benchmark.described(), _ordered(rows, front), front)


def read_claim(path: Path, benchmark: Benchmark) -> BoardRow:
    """Read a row measured by others, as their claim.

    Raises:
        ManifestError: The file is not a row, or was measured on other data.
    """
    row = read_row(path)
    there, here = row.benchmark["fingerprint"], benchmark.fingerprint
    if there != here:
        raise ManifestError(
            f"{shown(path)} was measured on other data ({shown(row.benchmark['name'])}, fingerprint {there}; here: "
            f"{benchmark.parts.name}, {here}), which cannot share a table."
        )
    return replace(row, claimed_by=row.measured_by or path.name)


def read_board(path: Path) -> Board:
    """Read ``board.json``; its rows lack protocols and curves, which are in the rows' own files.

    Raises:
        ManifestError: The file cannot be read or is invalid; the message names the field.
    """
    read = read_stored_board(path)
    _check_metrics(read, path)
    benchmark = read.benchmark.model_dump(exclude_unset=True)
    rows = [
        row.row(model_options={}, protocol={}, benchmark=benchmark, claimed_by=row.claimed_by)
        for row in read.rows
    ]
    return Board(benchmark, tuple(rows), BY_NAME[read.front.metric])


def _check_metrics(read: StoredBoard, path: Path) -> None:
    """Reject metrics that this version does not know."""
    named = {"front.metric": {read.front.metric}}
    named |= {f"rows.{at}.estimates": set(row.estimates) for at, row in enumerate(read.rows)}
    for field, names in named.items():
        if unknown := sorted(names - set(BY_NAME)):
            raise not_a_board(path, field, f"unknown metric {unknown[0]!r}")


def add_claims(files: Sequence[Path], benchmark: Benchmark, folder: Path) -> None:
    """Copy rows measured by others into a board's folder, after all of them are validated.

    Raises:
        ManifestError: One is not a row, or was measured on other data; none was copied.
    """
    claims = [read_claim(path, benchmark) for path in files]
    for row in claims:
        target = folder / "claims" / f"{row.file_name}.json"
        stored = {**row.to_dict(), "measured_by": row.claimed_by}
        write_json(target, stored, indent=None, make_folder=True)


def _ordered(rows: Sequence[BoardRow], front: BoardMetric) -> tuple[BoardRow, ...]:
    sign = -1.0 if front.better == "higher" else 1.0

    def place(row: BoardRow) -> tuple[bool, bool, float, str]:
        value = row.value(front.name)
        return (row.trivial, value is None, 0.0 if value is None else sign * value, row.label)

    return tuple(sorted(rows, key=place))


CostKind = Literal["money", "tokens", "images"]


def cost_kind(rows: Sequence[BoardRow]) -> CostKind:
    """Return the cost by which all rows can be compared; it never depends on the machine.

    Money if every row that calls a model has a known price, and one is above 0; else tokens if all count
    them; else images, which every judge counts.
    """
    asking = [row.cost for row in rows if row.cost.calls]
    if any(cost.cost for cost in asking) and all(cost.cost is not None for cost in asking):
        return "money"
    return "tokens" if all(cost.tokens for cost in asking) else "images"


_COSTS: Mapping[CostKind, Callable[[BoardRow], float]] = {
    "money": lambda row: row.cost.cost or 0.0,
    "tokens": lambda row: row.cost.tokens,
    "images": lambda row: row.cost.images,
}


def row_cost(row: BoardRow, kind: CostKind) -> float:
    """Return a row's cost per judged video."""
    return _COSTS[kind](row) / max(row.cost.videos, 1)


def front_labels(rows: Sequence[BoardRow], metric: BoardMetric, kind: CostKind) -> set[str]:
    """Return the labels on the Pareto front, by point estimates; claims of others are left out."""
    sign = 1.0 if metric.better == "higher" else -1.0
    known = [
        (row, sign * value)
        for row in rows
        if row.claimed_by is None and (value := row.value(metric.name)) is not None
    ]
    front = pareto_front([value for _, value in known], [(row_cost(row, kind),) for row, _ in known])
    return {known[place][0].label for place in front}
