"""Judges on pairs, as a table for people."""

from __future__ import annotations

import math
from collections.abc import Sequence

from stepscore._tables import (
    UNKNOWN,
    Cell,
    Column,
    PrintedTable,
    TableRow,
    count_cell,
    estimate_cell,
    text_cell,
)
from stepscore.audit.pairs.consistency import Consistency
from stepscore.audit.pairs.pair import SPANS
from stepscore.audit.pairs.resolution import Resolution
from stepscore.audit.pairs.score import RESOLVED, Measure, PairResult

NOTE = (
    "Share of right signs in percent, a tie one half, with 95 % intervals that resample scenes; half of the pairs "
    "fall back, so that the clock has 50. AUROC in percent."
)


SCORED = {
    "curve": "Scored by the curve over the whole video",
    "compare": "Scored by direct comparison of the two frames",
}


def pair_table(results: Sequence[PairResult]) -> PrintedTable:
    """Return a row for every judge and span."""
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


TRIVIAL_NOTE = (
    "Measured on the judge's own answers, without labels; 95 % intervals resample scenes. Every scalar curve has M1 "
    "to M5 by construction, so they only say something about a judge that compares frames. One that always answers 0 "
    "has most of them too."
)


def resolution_table(found: Resolution) -> PrintedTable | None:
    """Return accuracy by size of the true hop; ``None`` if no size is known."""
    if not found.bins:
        return None
    rows = []
    for accuracy, ties in zip(found.bins[::2], found.bins[1::2], strict=True):
        cells = (
            text_cell(accuracy.group["hop"]),
            estimate_cell(accuracy.estimate, accuracy.estimate.n, accuracy.metric),
            estimate_cell(ties.estimate, accuracy.estimate.n, ties.metric),
            count_cell(accuracy.estimate.n, "n"),
        )
        rows.append(TableRow(cells, {"judge": found.judge, **accuracy.group}))
    columns = (
        Column("true hop", left=True),
        Column("accuracy", "higher"),
        Column("ties", "lower"),
        Column("n"),
    )
    levels, step = (one.estimate for one in found.answers)
    every = f", at least {step.value:.3g} apart" if math.isfinite(step.value) else ""
    notes = (
        f"The smallest hop with an accuracy of {100 * RESOLVED:.0f} is {_hop(found.resolved)} (R2), "
        f"by the interval's lower end {_hop(found.surely_resolved)}.",
        f"{levels.value:.0f} distinct answers to {levels.n} pairs{every} (R3).",
    )
    return PrintedTable(f"Resolution of {found.judge} (R1)", columns, tuple(rows), notes)


def consistency_table(found: Consistency) -> PrintedTable:
    """Return the numbers that show whether a judge is consistent."""
    rows = [
        TableRow(
            (
                text_cell(one.title),
                text_cell(one.code),
                _plain_cell(one),
                text_cell(one.ideal or UNKNOWN),
                count_cell(one.estimate.n, "n"),
            ),
            {"judge": found.judge, "metric": one.metric, **one.group},
        )
        for one in found.measures
    ]
    columns = (
        Column("measure", left=True),
        Column("code", left=True),
        Column("value"),
        Column("perfect"),
        Column("n"),
    )
    return PrintedTable(f"Consistency of {found.judge}", columns, tuple(rows), (TRIVIAL_NOTE,))


def _hop(lo: float | None) -> str:
    return "none" if lo is None else f"{lo:g}"


def _plain_cell(one: Measure) -> Cell:
    """Return a number as it is, with its interval."""
    e = one.estimate
    known = math.isfinite(e.lo) and math.isfinite(e.hi)
    return Cell(
        f"{e.value:z.3f}" if math.isfinite(e.value) else UNKNOWN,
        (f"{e.lo:z.3f}", f"{e.hi:z.3f}") if known else None,
        metric=one.metric,
        value=e.value,
        lo=e.lo,
        hi=e.hi,
        bare=math.isfinite(e.value) and not known,
    )
