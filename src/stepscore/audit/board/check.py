"""Measure a row again to check whether it reproduces."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from stepscore._untrusted import shown
from stepscore.audit.board.bench import BenchOptions, measure_row, open_entry
from stepscore.audit.board.benchmark import Benchmark
from stepscore.audit.board.entry import Entry
from stepscore.audit.board.row import BoardRow, Points
from stepscore.audit.board.safe_row import safe_entry
from stepscore.errors import OptionError
from stepscore.runs import FinishedEpisode

CURVE_TOLERANCE = 1e-4
"""Largest difference of two equal curves: processors and libraries round differently."""
VALUE_TOLERANCE = 1e-3
"""Largest difference of two equal estimates."""


@dataclass(frozen=True)
class RowCheck:
    """A row compared with a new measurement.

    Attributes:
        curve_difference: Largest difference of progress at a point; infinite if the points differ.
        videos_apart: Number of videos that differ.
        problems: Why it does not reproduce; empty if it does.
    """

    claimed: BoardRow
    again: BoardRow
    curve_difference: float
    videos_apart: int
    problems: tuple[str, ...]

    @property
    def reproduces(self) -> bool:
        """Whether it does."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """Return the check as JSON values."""
        names = dict.fromkeys((*self.claimed.estimates, *self.again.estimates))
        return {
            "row": self.claimed.label,
            "reproduces": self.reproduces,
            "problems": list(self.problems),
            "curve_difference": self.curve_difference if math.isfinite(self.curve_difference) else None,
            "videos_apart": self.videos_apart,
            "values": [
                {"metric": name, "claimed": self.claimed.value(name), "again": self.again.value(name)}
                for name in names
            ],
        }


def check_row(
    row: BoardRow,
    benchmark: Benchmark,
    out: Path,
    options: BenchOptions,
    *,
    models: Mapping[str, Mapping[str, Any]] | None = None,
    judges: Sequence[Entry] = (),
    on_start: Callable[[str, int], None] | None = None,
    on_done: Callable[[FinishedEpisode], None] | None = None,
) -> RowCheck:
    """Measure a row again and compare.

    The row is untrusted: unless the caller names them too, it can use no model but ``embedded``, open no file
    and run no code of other packages; see ``safe_row.py``.

    Args:
        out: Folder of the new runs; the cache is not used.
        models: Allowed models, with the caller's own options.
        judges: Judges named by the caller, with options that name models or files.

    Raises:
        OptionError: The row needs something that is not allowed; the message has the option that allows it.
    """
    problems = []
    if row.benchmark["fingerprint"] != benchmark.fingerprint:
        raise OptionError(
            f"Row {shown(row.label)} was measured on other data ({shown(row.benchmark['name'])}, fingerprint "
            f"{row.benchmark['fingerprint']}; here: {benchmark.fingerprint}). Pass the data that it was measured on."
        )
    entry = safe_entry(row, models or {}, judges)
    fresh = replace(options, call_options=replace(options.call_options, cache=False))
    opened = open_entry(entry, options.base_url)
    again = measure_row(benchmark, opened, out, fresh, on_start=on_start, on_done=on_done)
    if again.reason is not None:
        problems.append(f"it cannot be measured here: {again.reason}")
    elif again.protocol_hash != row.protocol_hash:
        problems.append(f"its protocol is {row.protocol_hash}, here it is {again.protocol_hash}")
    distance, apart = compare_curves(row.curves, again.curves)
    if apart:
        problems.append(f"{apart} of {len(row.curves)} videos were judged otherwise")
    problems += [
        f"{name} is {_text(row.value(name))}, measured again {_text(again.value(name))}"
        for name in dict.fromkeys((*row.estimates, *again.estimates))
        if not _same(row.value(name), again.value(name))
    ]
    return RowCheck(row, again, distance, apart, tuple(problems))


def compare_curves(claimed: Mapping[str, Points], again: Mapping[str, Points]) -> tuple[float, int]:
    """Return the largest difference of progress at a point, and the number of videos that differ."""
    largest, apart = 0.0, 0
    for name in claimed.keys() | again.keys():
        difference = _difference(claimed.get(name, Points()), again.get(name, Points()))
        largest = max(largest, difference)
        apart += difference > CURVE_TOLERANCE
    return largest, apart


def _difference(one: Points, other: Points) -> float:
    same_points = len(one.time_s) == len(other.time_s) and all(
        abs(a - b) <= CURVE_TOLERANCE for a, b in zip(one.time_s, other.time_s, strict=True)
    )
    if not same_points or dict(one.verdicts) != dict(other.verdicts):
        return math.inf
    pairs = [*zip(one.progress, other.progress, strict=True), (one.success_score, other.success_score)]
    if any((a is None) != (b is None) for a, b in pairs):
        return math.inf
    return max((abs(a - b) for a, b in pairs if a is not None and b is not None), default=0.0)


def _same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return abs(one - other) <= VALUE_TOLERANCE


def _text(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4f}"
