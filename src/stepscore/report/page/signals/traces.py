"""State and action of episodes, drawn over time below the judged curve.

A page on disk holds those of the first episodes, up to :data:`MAX_BYTES`, each in the few points that its shape
needs. A served page requests those of the episode on screen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stepscore.episodes import Signal
from stepscore.errors import SourceError, StepScoreError
from stepscore.report.page import columns
from stepscore.report.page.episodes import EpisodeIndex
from stepscore.report.page.packing import Table, pack_codes, pack_floats, pack_range
from stepscore.report.page.signals.truth import straight_points
from stepscore.report.run_sources import RunSources
from stepscore.types import FloatArray

TOLERANCE = 0.005
"""Most by which a drawn line differs from what was recorded, as a share of the dimension's range in the episode."""

MAX_POINTS = 240
"""Points of an episode on a written page; where its shape needs more, those furthest off a straight line are kept."""

MAX_SERVED_POINTS = 2000
"""Points of an episode on a page that is served."""

MAX_DIMENSIONS = 64
"""Dimensions of an episode on a page, of all its signals together."""

MAX_BYTES = 1_500_000
"""Bytes of traces on a written page; beyond it, episodes are left out."""

MAX_REASONS = 200
"""Episodes for which the page says why they have no traces."""

MAX_NAME = 100
"""Characters of a signal's name that are kept."""

_CODES = 65_534
_BYTES_PER_POINT = 2 * 4 / 3

Layout = tuple[tuple[str, tuple[str, ...], int], ...]
"""Of each signal its name, the dimensions that are drawn, and how many more it has."""


@dataclass(frozen=True)
class Trace:
    """The signals of one episode in the points that are drawn.

    Attributes:
        episode: Its place on the page.
        layout: Signals and dimensions.
        times: Seconds, (points,).
        values: (points, dimensions); NaN if unknown.
        steps: How many steps were recorded.
    """

    episode: int
    layout: Layout
    times: FloatArray
    values: FloatArray
    steps: int

    @property
    def bytes(self) -> float:
        """About how many bytes it takes on the page."""
        points, dimensions = self.values.shape
        return float(_BYTES_PER_POINT * points * (dimensions + 1) + 24 * dimensions)


@dataclass
class ServedTraces:
    """Episodes whose traces a server hands out by number; an episode keeps its number while the page grows."""

    rows: list[Mapping[str, Any]] = field(default_factory=list)
    _numbers: dict[tuple[str, str], int] = field(default_factory=dict)

    def number(self, row: Mapping[str, Any]) -> int:
        """Return the number of an episode's row."""
        number = self._numbers.setdefault((row["source"], row["episode_id"]), len(self.rows))
        if number == len(self.rows):
            self.rows.append(row)
        self.rows[number] = row
        return number

    def table(self, number: int, sources: RunSources) -> columns.TraceTable | None:
        """Return the traces of one episode as the only row; ``None`` for an unknown number."""
        if number >= len(self.rows):
            return None
        found = trace_of(0, sources.signals(self.rows[number]), MAX_SERVED_POINTS, 0.0)
        return packed_traces([found] if found is not None else [])


def trace_table(
    sources: RunSources | None, index: EpisodeIndex, first: Iterable[int], served: ServedTraces | None
) -> columns.TraceTable:
    """Return the traces of a page, ``first`` in front; ``served`` hands them out on demand instead."""
    if sources is None:
        return packed_traces([])
    if served is not None:
        numbers = [served.number(row) if row["views"] else -1 for row in index.rows]
        return {**packed_traces([]), "served": numbers}
    kept: list[Trace] = []
    reasons: dict[str, str] = {}
    left_out: list[int] = []
    used = 0.0
    for place in dict.fromkeys([*first, *range(len(index.rows))]):
        if used >= MAX_BYTES and sources.records_signals(index.rows[place]):
            left_out.append(place)
            continue
        try:
            trace = trace_of(place, sources.signals(index.rows[place]))
        except SourceError:  # as its videos say
            continue
        except StepScoreError as error:
            if len(reasons) < MAX_REASONS:
                reasons[str(place)] = str(error)
            continue
        if trace is not None:
            kept.append(trace)
            used += trace.bytes
    kept.sort(key=lambda trace: trace.episode)
    return {**packed_traces(kept), "left_out": sorted(left_out), "unavailable": reasons}


def trace_of(
    place: int, signals: Sequence[Signal], most: int = MAX_POINTS, tolerance: float = TOLERANCE
) -> Trace | None:
    """Return the trace of an episode's signals recorded at every step; ``None`` if there are none."""
    signals = [one for one in signals if np.array_equal(one.times, signals[0].times)]
    room = MAX_DIMENSIONS
    layout: list[tuple[str, tuple[str, ...], int]] = []
    columns: list[FloatArray] = []
    for signal in signals:
        n = min(room, len(signal.dimensions))
        room -= n
        layout.append((signal.name[:MAX_NAME], signal.dimensions[:n], len(signal.dimensions) - n))
        columns.append(signal.values[:, :n])
    if not columns or not len(signals[0].times):
        return None
    values = np.concatenate(columns, axis=1)
    values = np.where(np.isfinite(values), values, np.nan)
    times = signals[0].times
    points = straight_points(times, _shares(values, *_range(values)), tolerance, most)
    return Trace(place, tuple(layout), times[points], values[points], len(times))


def packed_traces(traces: Sequence[Trace]) -> columns.TraceTable:
    """Return the traces of these episodes as columns."""
    layouts = Table[Layout]()
    numbers = [layouts.number(trace.layout) for trace in traces]
    ranges = [_range(trace.values) for trace in traces]
    none: FloatArray = np.empty(0)
    codes = [_codes(trace.values, *limits) for trace, limits in zip(traces, ranges, strict=True)]
    return {
        "layouts": [
            [
                {"signal": name, "dimensions": list(dimensions), "left_out": more}
                for name, dimensions, more in layout
            ]
            for layout in layouts.rows
        ],
        "episode": [trace.episode for trace in traces],
        "layout": numbers,
        "length": [len(trace.times) for trace in traces],
        "steps": [trace.steps for trace in traces],
        "times": pack_range(np.concatenate([none, *(trace.times for trace in traces)])),
        "low": pack_floats(np.concatenate([none, *(low for low, _ in ranges)])),
        "high": pack_floats(np.concatenate([none, *(high for _, high in ranges)])),
        "values": pack_codes(np.concatenate([none, *codes])),
        "left_out": [],
        "unavailable": {},
        "served": None,
    }


def _range(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the least and the greatest known value of each dimension; NaN if none is known."""
    low = np.min(values, axis=0, initial=np.inf, where=np.isfinite(values))
    high = np.max(values, axis=0, initial=-np.inf, where=np.isfinite(values))
    known = low <= high
    return np.where(known, low, np.nan), np.where(known, high, np.nan)


def _shares(values: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return each dimension as a share of its range; 0 where it is constant, NaN if it is unknown."""
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        return np.where(high > low, (values - low) / (high - low), np.where(np.isnan(values), np.nan, 0.0))


def _codes(values: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return the dimensions one after the other, each over its own range as 0.._CODES; NaN if unknown."""
    return np.asarray(np.round(_shares(values, low, high) * _CODES).T.ravel(), dtype=np.float64)
