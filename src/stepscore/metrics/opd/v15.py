"""OPD as the code of PRM-as-a-Judge v1.5.0 computes it, for every prefix of a curve in one pass.

On a curve clipped to 0..1, with p_0 = 0 prepended::

    PPL = clip(MP^2 / L, 0, 1)      CRA = sum(M - p) / (T MP), 0 where MP = 0      STR as in v1.0
    DRR = clip((max_(t >= t*) p_t - p_(t*) + 1e-6) / (d + 1e-6), 0, 1), the share of the deepest drop d that
          was recovered, t* the first sample of that drop; 1 where no drop exceeds 1e-12
    FNS = .5 MP + .3 MC75 + .2 MC50            nearness to success, of failures (MP < .99), else NaN
    SQS = .5 PPL + .3 (1 - CRA) + .2 (1 - STR) quality of success, of successes (MP >= .99), else NaN

The published toolkit cleans a curve first. Division by 100 where any |value| exceeds 1.5 and clipping to
0..1 always happen (the whole curve decides, so a prefix of a curve in percent is read as percent);
``smoothed`` adds its two other filters: a value more than .35 from the median of its two neighbours on either
side is replaced by that median, then a window of (.1, .2, .4, .2, .1), renormalised at the ends.

A step counts as still by the source's own float comparison, |p_t - p_(t-1)| < .005 without rounding, so that STR and
SQS are the source's at exact ties too. Of a smoothed curve that is not certain: the source divides its window by
a ``sum`` whose last digit depends on the version of Python, and a step of exactly .005 may fall on either side.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepscore.metrics.opd.completion import milestones
from stepscore.types import FloatArray, IntArray

BoolArray = NDArray[np.bool_]

_STILL = 0.005  # compared as the published code does: a difference of .005 is decided by its float rounding
_NO_PATH = 1e-9
_NO_DROP = 1e-12
_DRR_SLACK = 1e-6
_SUCCESS = 0.99
_SPIKE = 0.35
_PERCENT = 1.5
_WINDOW = (0.1, 0.2, 0.4, 0.2, 0.1)
_REACH = 2  # samples the window takes from either side
_TAIL = 2 * _REACH  # last samples of a prefix whose cleaned value depends on where the prefix ends


class _PrefixState(NamedTuple):
    """Running statistics of each prefix, enough to add a sample."""

    last: FloatArray
    path: FloatArray
    best: FloatArray
    regret: FloatArray
    still: FloatArray
    drop: FloatArray
    trough: FloatArray
    since: FloatArray  # highest value from the trough of the deepest drop on


def v15_prefixes(curve: FloatArray, *, smoothed: bool) -> dict[str, FloatArray]:
    """Compute every metric of the module for each prefix of finite curves (..., T)."""
    scale = np.abs(curve).max(axis=-1, keepdims=True, initial=0.0) > _PERCENT
    clipped = np.clip(np.where(scale, curve / 100, curve), 0.0, 1.0)
    count = np.arange(1.0, curve.shape[-1] + 1)
    return _metrics(_scan_smoothed(clipped) if smoothed else _scan(clipped), count)


def _metrics(state: _PrefixState, count: FloatArray) -> dict[str, FloatArray]:
    values = milestones(state.best)
    positive = state.best > 0
    ppl = np.clip(state.best**2 / np.maximum(state.path, _NO_PATH), 0.0, 1.0)
    cra = np.where(positive, state.regret / count / np.where(positive, state.best, 1.0), 0.0)
    stagnation = state.still / count
    recovered = (state.since - state.trough + _DRR_SLACK) / (state.drop + _DRR_SLACK)
    success = state.best >= _SUCCESS
    nearness = 0.5 * state.best + 0.3 * values["MC75"] + 0.2 * values["MC50"]
    quality = np.clip(0.5 * ppl + 0.3 * (1 - cra) + 0.2 * (1 - stagnation), 0.0, 1.0)
    values |= {"PPL": ppl, "CRA": cra, "STR": stagnation}
    values["DRR"] = np.where(state.drop <= _NO_DROP, 1.0, np.clip(recovered, 0.0, 1.0))
    values["FNS"] = np.where(success, math.nan, nearness)
    values["SQS"] = np.where(success, quality, math.nan)
    return values


def _scan(p: FloatArray) -> _PrefixState:
    step = p.copy()
    step[..., 1:] -= p[..., :-1]
    step = np.abs(step)
    best = np.maximum.accumulate(p, axis=-1)
    below = best - p
    drop = np.maximum.accumulate(below, axis=-1)
    deeper = np.zeros(p.shape, dtype=bool)
    deeper[..., 1:] = drop[..., 1:] > drop[..., :-1]
    trough_at = np.maximum.accumulate(np.where(deeper, np.arange(p.shape[-1]), 0), axis=-1)
    return _PrefixState(
        last=p,
        path=np.add.accumulate(step, axis=-1),
        best=best,
        regret=np.add.accumulate(below, axis=-1),
        still=np.add.accumulate(step < _STILL, axis=-1, dtype=np.float64),
        drop=drop,
        trough=np.take_along_axis(p, trough_at, axis=-1),
        since=_highest_since(p, trough_at),
    )


def _highest_since(p: FloatArray, start: IntArray) -> FloatArray:
    """Return max(p[start_t..t]) for every t; start never falls, so ranks offset by it restart a running maximum."""
    length = p.shape[-1]
    order = np.argsort(p, axis=-1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.broadcast_to(np.arange(length), p.shape), axis=-1)
    highest = np.maximum.accumulate(start * length + rank, axis=-1) - start * length
    return np.take_along_axis(np.take_along_axis(p, order, axis=-1), highest, axis=-1)


def _add(state: _PrefixState, value: FloatArray, there: BoolArray) -> _PrefixState:
    """Add one more sample to each prefix that has one."""
    step = np.abs(value - state.last)
    best = np.maximum(state.best, value)
    below = best - value
    deeper = below > state.drop
    longer = _PrefixState(
        last=value,
        path=state.path + step,
        best=best,
        regret=state.regret + below,
        still=state.still + (step < _STILL),
        drop=np.where(deeper, below, state.drop),
        trough=np.where(deeper, value, state.trough),
        since=np.where(deeper, value, np.maximum(state.since, value)),
    )
    return _PrefixState(*(np.where(there, new, old) for new, old in zip(longer, state, strict=True)))


def _scan_smoothed(p: FloatArray) -> _PrefixState:
    """Scan the prefixes of the smoothed curve, each smoothed separately.

    Only the last four samples of a prefix depend on where it ends, so each prefix is the scan of the samples
    before them plus its own four.
    """
    clean = _without_spikes(p)
    settled = _scan(_smooth([_shifted(clean, -offset) for offset in range(-_REACH, _REACH + 1)]))
    state = _PrefixState(*(_shifted(values, _TAIL)[0] for values in settled))
    index = np.arange(p.shape[-1])
    for back in range(_TAIL - 1, -1, -1):
        # The window around `back` samples before the end; the last two samples of a prefix are never spikes.
        window = []
        for offset in range(back + _REACH, back - _REACH - 1, -1):
            values, there = _shifted(clean if offset >= _REACH else p, max(offset, 0))
            window.append((values, there & (offset >= 0)))
        state = _add(state, _smooth(window), np.broadcast_to(index >= back, p.shape))
    return state


def _without_spikes(p: FloatArray) -> FloatArray:
    clean = p.copy()
    if p.shape[-1] > 2 * _REACH:
        sides = [p[..., :-4], p[..., 1:-3], p[..., 3:-1], p[..., 4:]]
        middle, median = p[..., 2:-2], np.median(sides, axis=0)
        clean[..., 2:-2] = np.where(np.abs(middle - median) > _SPIKE, median, middle)
    return clean


def _shifted(values: FloatArray, by: int) -> tuple[FloatArray, BoolArray]:
    """Return values[t - by] at entry t, 0 if it does not exist, and whether it exists."""
    source = np.arange(values.shape[-1]) - by
    there = (source >= 0) & (source < values.shape[-1])
    return np.where(there, values[..., np.where(there, source, 0)], 0.0), there


def _smooth(window: list[tuple[FloatArray, BoolArray]]) -> FloatArray:
    total, weight = np.zeros(window[0][0].shape), np.zeros(window[0][0].shape)
    for share, (values, there) in zip(_WINDOW, window, strict=True):
        total += share * values * there
        weight += share * there
    smooth: FloatArray = np.clip(total / np.where(weight > 0, weight, 1.0), 0.0, 1.0)
    return smooth
