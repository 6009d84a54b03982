"""Judges on pairs, as a table for people."""

from __future__ import annotations

from collections.abc import Sequence

from stepscore._tables import (
    Column,
    PrintedTable,
    TableRow,
    count_cell,
    estimate_cell,
    text_cell,
)
from stepscore.audit.pairs.pair import SPANS
from stepscore.audit.pairs.score import RESOLVED, PairResult

NOTE = (
    "Share of right signs in percent, a tie one half, with 95 % intervals that resample scenes; half of the pairs "
    "fall back, so that the clock has 50. AUROC in percent."
)


SCORED = {
    "curve": "Scored by the curve over the whole video",
    "compare": "Scored by direct comparison of the two frames",
}


def pair_table(results: Sequence[PairResult]) -> PrintedTable:
    """Return every judge and span."""
    rows = []
    for result in results:
        for score in result.spans:
            named = score.named()
            cells = (
                text_cell(f"{result.judge}: {score.span}"),
                *(estimate_cell(e, score.accuracy.n, f"pairs:{name}") for name, e in named.items()),
                count_cell(score.accuracy.n, "n"),
            )
            rows.append(TableRow(cells, {"judge": result.judge, "span": score.span}))
    columns = (
        Column("judge and span", left=True),
        Column("accuracy", "higher"),
        Column("advances", "higher"),
        Column("regressions", "higher"),
        Column("AUROC", "higher"),
        Column("ties", "lower"),
        Column("n"),
    )
    spans = ", ".join(f"{name} from {lo:g}" for name, (lo, _) in SPANS.items())
    resolved = [
        f"{r.judge} resolves {'nothing' if r.resolved is None else f'{r.resolved} changes'}" for r in results
    ]
    says = f"{'; '.join(resolved)} (accuracy of {100 * RESOLVED:.0f} by the interval's lower end)."
    how = f"{SCORED[results[0].by]}. " if results else ""
    return PrintedTable("Pairs", columns, tuple(rows), (f"{how}{NOTE}", f"True change: {spans}.", says))
