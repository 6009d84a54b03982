"""The judgements of a run in pages of about :data:`POINTS` points, written one after the other.

What lists, filters and the overview need of every episode stays in the page itself. A page has the curves, verdicts,
stages and numbers of its rows; a column has one metric of all rows, for sorting; the sample has curves of rows spread
over the run, for the plot of many.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepscore._progress import doing, track
from stepscore.report.page import columns
from stepscore.report.page.episodes import number_or_none
from stepscore.report.page.packing import (
    Table,
    dictionary,
    pack_flags,
    pack_floats,
    pack_progress,
    pack_range,
    pack_rows,
    pack_times,
)
from stepscore.report.page.paging.parts import Parts
from stepscore.types import FloatArray

POINTS = 40_000
"""Points of a page, about: a third of a megabyte."""

MAX_ROWS = 1000
"""Rows of a page, at most."""

SAMPLE = 1500
"""Rows of the sample, at most."""

ALWAYS = ("success_label", "success_judge")
"""Metrics of every row that are on the page itself: lists and filters name them."""


@dataclass(frozen=True)
class RunRows:
    """The judgements of one run, in the order of the page's episodes.

    Attributes:
        name: Of the run, for the names of its parts.
        episodes: Rows of the episodes.
        curves: Times and progress of each.
        channels: Channel's name to the values of each row.
        values: Metric to one number a row.
        verdicts: Rows of the run's ``verdicts`` table, each with ``row``, ascending.
        done_channel: The channel that decides when a curve is done, which is kept for measuring.
    """

    name: str
    episodes: Sequence[Mapping[str, Any]]
    curves: Sequence[tuple[FloatArray, FloatArray]]
    channels: Mapping[str, Sequence[FloatArray]]
    values: Mapping[str, FloatArray]
    verdicts: Sequence[Mapping[str, Any]]
    done_channel: str | None


def paged_judgements(rows: RunRows, stages: Table[str], parts: Parts) -> columns.PagedRows:
    """Write the pages of a run and return what the page itself keeps of them."""
    lengths = [len(times) for times, _ in rows.curves]
    firsts = _firsts(lengths)
    verdict_rows = [verdict["row"] for verdict in rows.verdicts]
    pages = []
    spans = list(enumerate(zip(firsts, [*firsts[1:], len(lengths)], strict=True)))
    for number, (first, end) in track(spans, "Writing parts of the page", len(spans)):
        page = _page(rows, range(first, end), stages, verdict_rows)
        pages.append(parts.write(f"{rows.name}-page-{number}", page))
    sample = np.unique(
        np.linspace(0, len(lengths) - 1, min(SAMPLE, len(lengths))).round().astype(int)
    ).tolist()
    with doing("Writing what the page sorts and filters by"):
        return {
            "firsts": firsts,
            "pages": pages,
            "columns": {
                name: parts.write(f"{rows.name}-column-{number}", {"column": pack_floats(column)})
                for number, (name, column) in enumerate(rows.values.items())
                if name not in ALWAYS
            },
            "verdicts": parts.write(f"{rows.name}-verdicts", _answers(rows)) if rows.verdicts else None,
            "sample": {
                "rows": sample,
                "part": parts.write(f"{rows.name}-sample", _page(rows, sample, stages, verdict_rows)),
            },
            "last_progress": pack_progress(np.round([_last(values) for _, values in rows.curves], 4)),
            "channels": list(rows.channels),
        }


def always_kept(values: Mapping[str, FloatArray]) -> dict[str, columns.Packed]:
    """Return the metrics that the page itself keeps of every row."""
    return {name: pack_flags(values[name]) for name in ALWAYS if name in values}


def _firsts(lengths: Sequence[int]) -> list[int]:
    """Return the first row of every page."""
    firsts, points = [0], 0
    for row, length in enumerate(lengths):
        if row > firsts[-1] and (points + length > POINTS or row - firsts[-1] >= MAX_ROWS):
            firsts.append(row)
            points = 0
        points += length
    return firsts


def _page(
    rows: RunRows, chosen: Sequence[int] | range, stages: Table[str], verdict_rows: Sequence[int]
) -> columns.PagePart:
    """Return some rows as a part."""
    none: FloatArray = np.empty(0)
    curves = [rows.curves[i] for i in chosen]
    lengths = [len(times) for times, _ in curves]
    rates = np.array([rows.episodes[i]["fps"] or np.nan for i in chosen], dtype=np.float64)
    times, rate = pack_times(np.concatenate([none, *(times for times, _ in curves)]), rates, lengths)
    return {
        "values": {name: pack_floats(column[list(chosen)]) for name, column in rows.values.items()},
        "curves": {
            "length": lengths,
            "times": times,
            "rate": rate,
            "progress": pack_progress(np.concatenate([none, *(values for _, values in curves)])),
            "channels": {
                name: (pack_progress if name == rows.done_channel else pack_range)(
                    np.concatenate([none, *(values[i] for i in chosen)])
                )
                for name, values in rows.channels.items()
            },
        },
        "verdicts": _verdicts(rows, chosen, verdict_rows),
        "stages": [
            columns.StageSpan(
                place,
                stages.number(one["name"]),
                number_or_none(one["start_s"]),
                number_or_none(one["end_s"]),
            )
            for place, i in enumerate(chosen)
            for one in rows.episodes[i]["stages"]
        ],
    }


def _verdicts(
    rows: RunRows, chosen: Sequence[int] | range, verdict_rows: Sequence[int]
) -> columns.VerdictTable:
    found = [
        (place, rows.verdicts[at])
        for place, i in enumerate(chosen)
        for at in range(bisect_left(verdict_rows, i), bisect_left(verdict_rows, i + 1))
    ]
    return verdict_table([place for place, _ in found], [verdict for _, verdict in found])


def verdict_table(places: Sequence[int], verdicts: Sequence[Mapping[str, Any]]) -> columns.VerdictTable:
    """Return some verdicts as columns, with the rows that they belong to."""
    return {
        "row": list(places),
        "subgoal": dictionary(row["subgoal"] for row in verdicts),
        "answer": _letters(verdicts),
        "score": pack_floats([np.nan if row["score"] is None else row["score"] for row in verdicts]),
        "when_s": pack_floats([np.nan if row["when_s"] is None else row["when_s"] for row in verdicts]),
        "why": dictionary(row["why"] for row in verdicts),
    }


def _answers(rows: RunRows) -> columns.AnswerPart:
    """Return every verdict's row, subgoal and answer, for filters."""
    return {
        "row": pack_rows([verdict["row"] for verdict in rows.verdicts]),
        "subgoal": dictionary(verdict["subgoal"] for verdict in rows.verdicts),
        "answer": _letters(rows.verdicts),
    }


def _letters(verdicts: Sequence[Mapping[str, Any]]) -> str:
    return "".join({"yes": "y", "no": "n"}.get(row["answer"], "?") for row in verdicts)


def _last(values: FloatArray) -> float:
    known = values[np.isfinite(values)]
    return float(known[-1]) if len(known) else np.nan
