"""The progress that annotated stages imply.

Stages are spans ``(name, start_s, end_s)`` in order, without overlap; in a gap the task makes no progress.
Times are seconds from the episode's first frame.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from stepscore.errors import OptionError
from stepscore.metrics.validation import SLACK, series
from stepscore.types import FloatArray

StageSpan = tuple[str, float, float]  # name, start and end in seconds


class _Visit(NamedTuple):
    """Consecutive spans of one stage: its place in the procedure (-1: not in it) and their times."""

    place: int
    starts: FloatArray
    ends: FloatArray


def truth_trace(spans: Sequence[StageSpan], times: ArrayLike, weights: ArrayLike | None = None) -> FloatArray:
    """Return the progress at ``times`` of an episode that did each stage once and succeeded, shape (n,), 0..1.

    Inside stage k of K it is (k + fraction of the stage's time passed) / K, or with weights w summing to 1,
    w_0 + ... + w_{k-1} + fraction * w_k (SARM's potential, LeRobot sarm_utils.py). It is 0 before the first
    stage, 1 after the last, and constant in a gap. A stage without duration is passed at its start. NaN times
    give NaN.

    Args:
        weights: Each stage's share of the task, summing to 1; equal by default. SARM uses a stage's mean
            share of the
        duration over annotated episodes.
    """
    starts, ends = span_edges(spans)
    shares = stage_shares(weights, len(starts))
    at = series(times, "times")[:, None]
    trace = _passed(at, starts, ends) @ shares / shares.sum()
    # Set, not summed: ten shares of 0.1 make 0.9999999999999999.
    trace = np.where(at[:, 0] >= ends[-1], 1.0, np.minimum(trace, 1.0))
    return np.where(np.isnan(at[:, 0]), np.nan, trace)


def stage_truth(
    spans: Sequence[StageSpan],
    procedure: Sequence[str],
    times: ArrayLike,
    *,
    done: bool,
    weights: ArrayLike | None = None,
) -> FloatArray:
    """Return the progress that an episode's stages imply at ``times``, shape (n,), 0..1; NaN if they imply none.

    A stage's interval in the procedure of K stages is from k/K to (k + 1)/K, however often it is done:

    - A stage followed by a later one was completed: it rises through its interval with the share of its time
      passed. So does the last one, if the task was done at the end.
    - A stage followed by an earlier one, or ending an episode that is not done, was not completed: its
      progress is unknown from its start until the next stage begins.
    - A stage revisited after a later one rises from the start of its interval again: later work is undone.
    - A gap after a completed stage has the value at its end. After the last stage of an episode that is done
      the value is
    1. Before the first stage it is 0, or unknown if that is not the procedure's first.
    - A stage that is not in the procedure is unknown, and so is whether the stage before it was completed.

    For a whole procedure, done once and in order, it equals :func:`truth_trace`.

    Args:
        spans: In order of time, without overlap; names may repeat.
        done: Whether the task was done when the episode ended.
        weights: Each stage's share of the task, summing to 1; equal by default.
    """
    if not len(procedure):
        raise OptionError("The procedure has no stages; expected the names of the task's stages in order.")
    visits = _visits(spans, procedure)
    shares = stage_shares(weights, len(procedure))
    points = np.append(0.0, np.cumsum(shares / shares.sum()))
    points[-1] = 1.0
    at = series(times, "times")
    truth = np.where(at <= visits[0].starts[0], 0.0 if visits[0].place == 0 else np.nan, np.nan)
    for number, visit in enumerate(visits):
        following = visits[number + 1] if number + 1 < len(visits) else None
        completed = visit.place >= 0 and (following.place > visit.place if following else done)
        inside = at > visit.starts[0]
        if not completed:
            truth[inside] = np.nan
            continue
        low, high = points[visit.place], points[visit.place + 1]
        length = visit.ends - visit.starts
        weight = length / length.sum() if length.sum() > 0 else np.full(len(length), 1 / len(length))
        share = _passed(at[:, None], visit.starts, visit.ends) @ weight
        # From the first instant: a stage that is come back to has fallen there, one of no duration is passed.
        inside = at >= visit.starts[0]
        truth[inside] = low + (high - low) * np.minimum(share[inside], 1.0)
        truth[at >= visit.ends[-1]] = high
    if done:
        truth[at >= visits[-1].ends[-1]] = 1.0
    return truth


def procedure_order(episodes: Sequence[Sequence[StageSpan]]) -> list[str]:
    """Return the stages' names by the mean rank of their first starts.

    An episode counts only for the stages it reached; ties go to the name that occurs first.
    """
    ranks: dict[str, list[int]] = {}
    for spans in episodes:
        firsts = dict.fromkeys(name for name, *_ in sorted(spans, key=lambda span: span[1]))
        for rank, name in enumerate(firsts):
            ranks.setdefault(name, []).append(rank)
    return sorted(ranks, key=lambda name: sum(ranks[name]) / len(ranks[name]))


def span_edges(spans: Sequence[StageSpan]) -> tuple[FloatArray, FloatArray]:
    """Return starts and ends of the stages; raise OptionError unless finite, in order and without overlap."""
    if not len(spans):
        raise OptionError("There are no stage spans; expected at least one (name, start_s, end_s).")
    starts = np.array([span[1] for span in spans], dtype=np.float64)
    ends = np.array([span[2] for span in spans], dtype=np.float64)
    for k, (name, start, end) in enumerate(spans):
        if not (math.isfinite(start) and math.isfinite(end)) or end < start:
            raise OptionError(
                f"Stage {k} {name!r} runs from {start} to {end} s; expected finite seconds, the end not "
                "before the start."
            )
        # Annotators write the same second as end and start; float noise is not an overlap.
        if k and start < ends[k - 1] - SLACK:
            before = spans[k - 1]
            raise OptionError(
                f"Stage {k} {name!r} starts at {start} s, before stage {k - 1} {before[0]!r} ends at "
                f"{before[2]} s; expected stages in order of time and without overlap."
            )
    return starts, ends


def stage_shares(weights: ArrayLike | None, stages: int) -> FloatArray:
    """Return the stages' shares of the task, all 1 by default; OptionError unless at least 0 with sum 1."""
    if weights is None:
        return np.ones(stages)
    shares = series(weights, "weights")
    if len(shares) != stages:
        raise OptionError(f"There are {len(shares)} weights for {stages} stages; expected one each.")
    if not np.all(shares >= 0) or not math.isclose(shares.sum(), 1.0, abs_tol=1e-6):
        raise OptionError(
            f"The weights {shares.tolist()} sum to {shares.sum():g}; expected shares of at least 0 that sum "
            "to 1. Divide them by their sum."
        )
    return shares


def _passed(at: FloatArray, starts: FloatArray, ends: FloatArray) -> FloatArray:
    """Return the share of each span's time that has passed at each time, shape (n, spans)."""
    length = ends - starts
    passed = np.where(length > 0, (at - starts) / np.where(length > 0, length, 1.0), at >= starts)
    return np.asarray(np.clip(passed, 0, 1))


def _visits(spans: Sequence[StageSpan], procedure: Sequence[str]) -> list[_Visit]:
    """Return the spans as visits to places of the procedure, consecutive ones of one stage joined."""
    starts, ends = span_edges(spans)
    places = {name: place for place, name in enumerate(procedure)}
    firsts = [k for k, span in enumerate(spans) if k == 0 or span[0] != spans[k - 1][0]]
    return [
        _Visit(places.get(spans[first][0], -1), starts[first:end], ends[first:end])
        for first, end in zip(firsts, [*firsts[1:], len(spans)], strict=True)
    ]
