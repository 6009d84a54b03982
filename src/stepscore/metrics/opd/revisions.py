"""OPD, the outcome-process-diagnosis metrics of one progress curve, in four revisions.

::

    MC25..MC100  1 if the curve ever reached .25, .5, .75, 1                       up
    MC           the furthest of those milestones reached (0, .25, .5, .75, 1)     up
    MP           highest progress                                                  up
    PPL          final progress weighted by how direct the path to it was          up
    CRA          mean distance below the best so far (regret)                      down
    STR          share of steps, or of time, without progress (stagnation)         down
    coverage     share of samples whose progress is known

Revisions, all for samples p_1..p_T without frame 0, with p_0 = 0 prepended, L = sum |p_t - p_(t-1)|
and M_t = max(0, p_1..p_t):

======== ========================== ==================== ============================== ================
name     PPL                        CRA                  STR                            source
======== ========================== ==================== ============================== ================
paper    p_T (p_T - p_0) / L        sum(M - p) / (T + 1) share of |p_t - p_(t-1)| < .005 the published text
v1.0     p_T^2 / L                  sum(M - p) / T       same                           published code v1.0
v1.5     clip(MP^2 / L, 0, 1)       sum(M - p) / (T MP)  same                           published code v1.5
robust   of time, see :mod:`stepscore.metrics.opd.robust`: nothing prepended, insensitive to sampling and small noise
======== ========================== ==================== ============================== ================

Source of the first three: PRM-as-a-Judge, site text, code v1.0 and code v1.5.0. A path of no length has
PPL 0. In ``paper`` and ``v1.0`` a step of exactly .005 counts as movement: |p_t - p_(t-1)| is compared after
rounding to nine decimals, since the published values were computed before they were rounded to three, and float
noise decided there. ``v1.5`` compares as its source does.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from stepscore._options import DEFAULT_REVISION
from stepscore.errors import OptionError, UnknownNameError
from stepscore.metrics.opd.completion import checked_done_at, milestones
from stepscore.metrics.opd.robust import checked_times, robust_prefixes
from stepscore.metrics.opd.v15 import v15_prefixes
from stepscore.types import FloatArray

REVISIONS = ("paper", "v1.0", "v1.5", "robust")
"""The names that ``revision`` takes."""

OPD_KEYS = ("MC", "MC25", "MC50", "MC75", "MC100", "MP", "PPL", "CRA", "STR", "coverage")
OPD_V15_KEYS = (*OPD_KEYS[:-1], "DRR", "FNS", "SQS", "coverage")
"""The keys of :func:`compute_opd`, in v1.5 and (without DRR, FNS and SQS: ``OPD_KEYS``) in the other revisions."""

_STILL = 0.005 - 0.5e-9  # |d| < .005 after rounding to nine decimals
_NO_PATH = 1e-9


def compute_opd(
    progress: ArrayLike,
    revision: str = DEFAULT_REVISION,
    times: ArrayLike | None = None,
    *,
    smoothing: Literal["published"] | None = None,
    success_probability: ArrayLike | None = None,
    done_at: float | None = None,
) -> dict[str, float]:
    """Compute the OPD metrics of one curve, each in 0..1 for progress in 0..1.

    Return MC, MC25, MC50, MC75, MC100, MP, PPL, CRA, STR and coverage; v1.5 adds DRR, FNS (NaN for a success)
    and SQS (NaN for a failure). Without samples, every value is NaN.

    Args:
        progress: Shape (T,). One NaN (unknown) makes every metric NaN but ``coverage``, the known share.
            ``paper`` and
        ``v1.0`` accept values outside 0..1 (the ``raw`` channel), ``v1.5`` clips them, ``robust`` rejects
            them.
        revision: See the module's table.
        times: Seconds, strictly increasing. The published revisions only use them to drop a sample at time 0,
            which they
        do not score; ``robust`` assumes evenly spaced samples without them.
        smoothing: ``"published"`` cleans the curve as the v1.5 toolkit does by default; v1.5 only.
        success_probability: For ``robust``: the probability at each sample that the task is done, shape (T,),
            NaN where
        unknown, which makes MC, MC100, CRA and STR NaN.
        done_at: For ``robust`` without it: the progress that counts as done; .99 by default.
    """
    curve, clock = _checked(progress, times)
    if curve.ndim != 1:
        raise OptionError(
            f"compute_opd takes one curve, not an array of shape {curve.shape}; see opd_prefixes."
        )
    options = _checked_options(curve, revision, smoothing, success_probability, done_at)
    prefixes = _prefixes(curve, clock, options, last_only=True)
    return {name: float(values[-1]) if values.size else math.nan for name, values in prefixes.items()}


def opd_prefixes(
    progress: ArrayLike,
    revision: str = DEFAULT_REVISION,
    times: ArrayLike | None = None,
    *,
    smoothing: Literal["published"] | None = None,
    success_probability: ArrayLike | None = None,
    done_at: float | None = None,
) -> dict[str, FloatArray]:
    """Compute the OPD metrics of every prefix of a curve (T,), or of many (n, T), in one linear pass.

    Entry t is ``compute_opd`` of the first t + 1 samples, with the same arguments. A sample dropped at time 0
    leaves NaN; from the first unknown sample on, all but ``coverage`` is NaN.
    """
    curve, clock = _checked(progress, times)
    options = _checked_options(curve, revision, smoothing, success_probability, done_at)
    return _prefixes(curve, clock, options, last_only=False)


class _Options(NamedTuple):
    """How curves are measured; ``probability`` has their shape."""

    revision: str
    smoothed: bool
    probability: FloatArray | None
    done_at: float | None


def _checked_options(
    curve: FloatArray,
    revision: str,
    smoothing: str | None,
    success_probability: ArrayLike | None,
    done_at: float | None,
) -> _Options:
    if revision not in REVISIONS:
        raise UnknownNameError("OPD revision", revision, REVISIONS)
    if smoothing not in (None, "published") or (smoothing and revision != "v1.5"):
        raise OptionError(
            f"smoothing={smoothing!r} with revision {revision!r}; allowed: None, or 'published' with 'v1.5'."
        )
    if revision != "robust" and (done_at is not None or success_probability is not None):
        given = "done_at" if done_at is not None else "success_probability"
        raise OptionError(f"{given} with revision {revision!r}; only 'robust' uses it.")
    probability = None
    if success_probability is not None:
        probability = _numbers(success_probability, "success_probability")
        if probability.shape != curve.shape:
            raise OptionError(
                f"success_probability has shape {probability.shape}, progress {curve.shape}; give one per sample."
            )
        if np.any((probability < 0) | (probability > 1)):
            raise OptionError(
                "success_probability holds a value outside 0..1; give probabilities, NaN where unknown."
            )
    return _Options(
        revision, smoothing is not None, probability, None if done_at is None else checked_done_at(done_at)
    )


def _numbers(values: ArrayLike, name: str) -> FloatArray:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise OptionError(f"{name} must be numbers, with NaN for unknown; {error}.") from error


def _checked(progress: ArrayLike, times: ArrayLike | None) -> tuple[FloatArray, FloatArray | None]:
    curve = _numbers(progress, "progress")
    if curve.ndim not in (1, 2):
        raise OptionError(f"progress has shape {curve.shape}; give one curve (T,) or many (n, T).")
    return curve, None if times is None else checked_times(times, curve.shape[-1])


def _prefixes(
    curve: FloatArray, clock: FloatArray | None, options: _Options, *, last_only: bool
) -> dict[str, FloatArray]:
    """Compute all prefixes, or with ``last_only`` at least the last one."""
    if options.revision != "robust" and clock is not None and clock.size and clock[0] == 0:
        rest = _prefixes(curve[..., 1:], None, options, last_only=last_only)
        gap = np.full((*curve.shape[:-1], 1), math.nan)
        return {name: np.concatenate([gap, values], axis=-1) for name, values in rest.items()}
    if np.isfinite(curve).all():
        values = _values(curve, clock, options, last_only=last_only)
        values["coverage"] = np.ones(values["MP"].shape)
        return values
    return _with_unknown(curve, clock, options, last_only=last_only)


def _with_unknown(
    curve: FloatArray, clock: FloatArray | None, options: _Options, *, last_only: bool
) -> dict[str, FloatArray]:
    if np.isinf(curve).any():
        raise OptionError("progress holds an infinite value; give finite numbers, and NaN where unknown.")
    unknown = np.isnan(curve)
    spoiled = np.logical_or.accumulate(unknown, axis=-1)
    coverage = np.cumsum(~unknown, axis=-1) / np.arange(1, curve.shape[-1] + 1)
    # A prefix does not depend on what follows it, so any number may stand for the unknown ones.
    values = _values(np.where(unknown, 0.0, curve), clock, options, last_only=last_only)
    if last_only:
        spoiled, coverage = spoiled[..., -1:], coverage[..., -1:]
        values = {name: array[..., -1:] for name, array in values.items()}
    values = {name: np.where(spoiled, math.nan, array) for name, array in values.items()}
    values["coverage"] = coverage
    return values


def _values(
    curve: FloatArray, clock: FloatArray | None, options: _Options, *, last_only: bool
) -> dict[str, FloatArray]:
    if options.revision == "robust":
        return robust_prefixes(
            curve,
            clock,
            success_probability=options.probability,
            done_at=options.done_at,
            last_only=last_only,
        )
    if options.revision == "v1.5":
        return v15_prefixes(curve, smoothed=options.smoothed)
    return _plain_prefixes(curve, extra=1 if options.revision == "paper" else 0)


def _plain_prefixes(curve: FloatArray, extra: int) -> dict[str, FloatArray]:
    """Compute v1.0; with ``extra`` = 1 the prepended p_0 counts among the terms of CRA, as in the paper."""
    count = np.arange(1.0, curve.shape[-1] + 1)
    step = curve.copy()
    step[..., 1:] -= curve[..., :-1]
    np.abs(step, out=step)
    path = np.add.accumulate(step, axis=-1)
    best = np.maximum.accumulate(curve, axis=-1)
    regret = np.add.accumulate(np.maximum(best, 0.0) - curve, axis=-1)
    values = milestones(best)
    values["PPL"] = curve * curve / np.maximum(path, _NO_PATH)
    values["CRA"] = regret / (count + extra if extra else count)
    values["STR"] = np.add.accumulate((step < _STILL).astype(np.float64), axis=-1) / count
    return values
