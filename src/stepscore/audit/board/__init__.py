"""The leaderboard: how accurate each judge is on labelled data, and what it costs.

:func:`bench` measures a judge; ``stepscore bench`` is the command.
"""

from stepscore.audit.board.bench import BenchOptions, Opened, bench, open_entries, open_entry
from stepscore.audit.board.benchmark import Benchmark, BenchmarkParts, benchmark_parts, open_benchmark
from stepscore.audit.board.board import (
    FRONT,
    Board,
    add_claims,
    cost_kind,
    front_labels,
    front_metric,
    open_board,
    read_board,
    read_claim,
)
from stepscore.audit.board.board_metrics import METRICS, PUBLISHED, BoardMetric
from stepscore.audit.board.check import RowCheck, check_row
from stepscore.audit.board.entry import Entry, combined, read_entries, split_entry
from stepscore.audit.board.questions import make_questions, write_questions
from stepscore.audit.board.row import BoardRow, Cost, Points
from stepscore.audit.board.schemas import (
    StoredBenchmark,
    StoredBoard,
    StoredRow,
    is_board,
    read_row,
    read_stored_board,
)
from stepscore.audit.board.tables import board_records, board_tables, check_table, published_table
from stepscore.audit.board.topreward import topreward_cells, topreward_entries, topreward_tables

__all__ = [
    "FRONT",
    "METRICS",
    "PUBLISHED",
    "BenchOptions",
    "Benchmark",
    "BenchmarkParts",
    "Board",
    "BoardMetric",
    "BoardRow",
    "Cost",
    "Entry",
    "Opened",
    "Points",
    "RowCheck",
    "StoredBenchmark",
    "StoredBoard",
    "StoredRow",
    "add_claims",
    "bench",
    "benchmark_parts",
    "board_records",
    "board_tables",
    "check_row",
    "check_table",
    "combined",
    "cost_kind",
    "front_labels",
    "front_metric",
    "is_board",
    "make_questions",
    "open_benchmark",
    "open_board",
    "open_entries",
    "open_entry",
    "published_table",
    "read_board",
    "read_claim",
    "read_entries",
    "read_row",
    "read_stored_board",
    "split_entry",
    "topreward_cells",
    "topreward_entries",
    "topreward_tables",
    "write_questions",
]
