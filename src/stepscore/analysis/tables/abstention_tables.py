"""What to accept of a judge's verdicts: reliability, and error against share, as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stepscore._tables import (
    UNKNOWN,
    Column,
    PrintedTable,
    TableRow,
    count_cell,
    estimate_cell,
    number_cell,
    percent_cell,
    text_cell,
)
from stepscore.analysis.against_labels import Abstention
from stepscore.analysis.tables.metric_tables import no_interval_note

NO_PROBABILITY = (
    "No run has a calibrated success probability of a labelled episode. Fit a map with `stepscore calibrate RUN -o "
    "map.json`, and judge other episodes with -J calibration=map.json."
)
RISK = (
    "The surest verdicts first: share of episodes accepted, how sure the least sure of them is (of 0.5..1), and how "
    "many of them are wrong, in percent with 95 % intervals."
)

COLUMNS = (
    Column("accepted", left=True),
    Column("n"),
    Column("at least\nas sure"),
    Column("error", "lower"),
)


def abstention_tables(found: Sequence[Abstention]) -> list[PrintedTable]:
    """Return, for each judge, the error against the share accepted with what to do, then its reliability."""
    if not found:
        cells = (text_cell("unknown"), count_cell(0), text_cell(UNKNOWN), text_cell(UNKNOWN))
        return [PrintedTable("What to accept", COLUMNS, (TableRow(cells, {}),), (NO_PROBABILITY,))]
    return [table for one in found for table in (_risk(one), _reliability(one))]


def abstention_records(found: Sequence[Abstention]) -> list[dict[str, Any]]:
    """Return every number as rows of ``metrics --json``."""
    return [row.to_dict() for one in found for row in one.rows()]


def _risk(one: Abstention) -> PrintedTable:
    rows = []
    for share in one.shares:
        group = {"judge": one.judge, "coverage": f"{share.coverage:.3f}"}
        cells = (
            text_cell(f"{100 * share.coverage:.1f} %"),
            count_cell(share.risk.n),
            number_cell(share.confidence, ".3f", "abstention:confidence"),
            estimate_cell(share.risk, None, "abstention:risk"),
        )
        rows.append(TableRow(cells, group))
    left_out = (
        f"{one.left_out} labelled episodes are left out: the map was fitted on them or on their scene."
        if one.left_out
        else ""
    )
    notes = tuple(text for text in (RISK, no_interval_note(rows), left_out, one.sentence) if text)
    return PrintedTable(f"What to accept of {one.judge}", COLUMNS, tuple(rows), notes)


def _reliability(one: Abstention) -> PrintedTable:
    rows = []
    for each in one.bins:
        place = f"{each.low:.1f}..{each.high:.1f}"
        cells = (
            text_cell(place),
            count_cell(each.labelled.n),
            percent_cell(each.predicted, 1, "abstention:predicted"),
            estimate_cell(each.labelled, None, "abstention:labelled"),
        )
        rows.append(TableRow(cells, {"judge": one.judge, "bin": place}))
    columns = (Column("probability", left=True), Column("n"), Column("predicted"), Column("succeeded"))
    errors = [
        f"{name} {_in_points(estimate)}"
        for name, estimate in (("ECE", one.ece), ("with both outcomes weighed equally", one.balanced_ece))
    ]
    notes = (f"Expected calibration error in points: {'; '.join(errors)}.", no_interval_note(rows))
    return PrintedTable(
        f"Reliability of {one.judge}", columns, tuple(rows), tuple(note for note in notes if note)
    )


def _in_points(estimate: Any) -> str:
    cell = estimate_cell(estimate)
    return f"{cell.text} [{cell.bounds[0]}, {cell.bounds[1]}]" if cell.bounds else cell.text
