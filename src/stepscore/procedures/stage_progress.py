"""Progress labels from stages: ProcVLM's and SARM's as published, and a linear one to compare with.

Pure functions of spans, times and measured change. Our method is in ``robust_progress.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from stepscore.episodes import Stage, first_frame_from
from stepscore.errors import EpisodeError, OptionError, UnknownNameError
from stepscore.metrics import procedure_order
from stepscore.types import FloatArray

NO_STAGE = ("done", "done.", "not done", "not done.")
"""ProcVLM's names for frames without a stage."""
NOT_DONE_SCALE = 0.75
"""Factor of ProcVLM's one-shot annotator for unfinished tasks (success_cutoff)."""
_LAST_TAU = 0.999
"""LeRobot's in-stage progress at the end of the last stage: just below the next integer."""


def procvlm_progress(sub_tasks: Sequence[str | None], similarity: ArrayLike) -> FloatArray:
    """Return ProcVLM's progress label of every frame, shape (n,), exactly as published (progress.py, 5a8c6b2).

    Stages k = 1..K are the runs of equal names, without ``done`` and ``not done``; stage k has L_k frames,
    and T = sum L_k. Then

    - weight w_k = clip(K L_k / T, 0.75, 1.25),
    - change d_i = 1.5 - similarity of frame i to frame i-1, and 0 at the first frame of a stage,
    - dp_i = w_k d_i / (sum of d over the stage),
    - p_t = sum_{i < t} dp_i / sum_i dp_i.

    So the last label is 1 only if a frame without a stage follows; a static image earns nearly as much as a
    moving one, since d_i is at least 0.5; and labels never fall.

    Args:
        sub_tasks: The stage's name at every frame; ``None``, empty, ``done`` or ``not done`` for no stage.
        similarity: :func:`~stepscore.procedures.visual_change.phash_similarity` of every frame.
    """
    similar = np.asarray(similarity, dtype=np.float64)
    if similar.shape != (len(sub_tasks),):
        raise OptionError(f"There are {len(sub_tasks)} frames and similarities of shape {similar.shape}.")
    starts = [i for i in range(len(sub_tasks)) if i == 0 or sub_tasks[i] != sub_tasks[i - 1]]
    runs = [(s, e) for s, e in pairwise([*starts, len(sub_tasks)]) if _is_stage(sub_tasks[s])]
    frames = sum(end - start for start, end in runs)
    steps = np.zeros(len(sub_tasks))
    for start, end in runs:
        weight = np.clip(len(runs) * (end - start) / frames, 0.75, 1.25)
        change = 1.5 - similar[start + 1 : end]
        steps[start + 1 : end] = weight * change / change.sum() if len(change) else 0.0
    total = steps.sum()
    before = np.append(0.0, np.cumsum(steps))[:-1]
    return np.minimum(before / total, 1.0) if total > 0 else np.zeros(len(sub_tasks))


def procvlm_sub_tasks(spans: Sequence[Stage], times: ArrayLike, *, done: bool) -> list[str]:
    """Return the stage's name at every frame, as ProcVLM flattens spans (sub_task_utils.py, 5a8c6b2).

    A stage lasts from the end of the previous one, gaps included, to the frame at which it is complete. Later
    frames are ``done``, or the last stage if the task was not done.
    """
    at = np.asarray(times, dtype=np.float64)
    if not spans:
        raise EpisodeError("There are no stages to flatten.")
    names = ["done" if done else spans[-1].name] * len(at)
    first = 0
    for span in sorted(spans, key=lambda span: span.end_s):
        complete = min(len(at) - 1, int(first_frame_from(at, span.end_s)))
        names[first:complete] = [span.name] * (complete - first)
        first = max(first, complete)
    return names


def sarm_stage_tau(
    spans: Sequence[Stage], names: Sequence[str], times: ArrayLike, last_s: float | None = None
) -> FloatArray:
    """Return SARM's target y = k + tau at each time, shape (n,), as LeRobot 0.6 computes it (sarm_utils.py).

    Inside a stage tau = (t - start) / (end - start); at a shared timestamp the earlier stage counts. Before
    the first stage y = 0; after the last, and once the procedure's last stage is complete, K - 1 + 0.999; in
    a gap, the end of the previous stage. With K = 1 spans are ignored and y is linear in time. An unknown
    name, which LeRobot takes for stage 0, is an error.

    Args:
        names: The procedure's K stages, in order.
        last_s: Time of the episode's last frame, for K = 1; the last of ``times`` by default.
    """
    at = np.asarray(times, dtype=np.float64)
    places = {name: place for place, name in enumerate(names)}
    unknown = next((span.name for span in spans if span.name not in places), None)
    if unknown is not None:
        raise UnknownNameError("stage", unknown, names)
    top = len(names) - 1
    if top == 0:
        end = float(at[-1]) if last_s is None else last_s
        return np.minimum(np.clip(at / end, 0.0, 1.0), _LAST_TAU) if end > 0 else np.zeros(len(at))
    target = np.zeros(len(at))
    # From the last to the first, so that of two stages that share a timestamp the earlier is written last.
    for number in range(len(spans) - 1, -1, -1):
        span, place = spans[number], places[spans[number].name]
        inside = (at >= span.start_s) & (at <= span.end_s)
        target[inside] = place + np.clip((at[inside] - span.start_s) / (span.end_s - span.start_s), 0.0, 1.0)
        if number + 1 < len(spans):
            target[(at > span.end_s) & (at < spans[number + 1].start_s)] = place + 1.0
        else:
            target[at > span.end_s] = top + _LAST_TAU
    return np.where(target >= top + 1, top + _LAST_TAU, target)


def sarm_progress(
    spans: Sequence[Stage], alphas: Mapping[str, float], times: ArrayLike, last_s: float | None = None
) -> FloatArray:
    """Return SARM's progress label at each time, shape (n,): y = k + tau mapped by the stages' shares.

    phi = P_k + tau (P_{k+1} - P_k), with P_0 = 0, P_{k+1} = P_k + alpha_k and P_K = 1 (LeRobot 0.6,
    normalize_stage_tau). Shares (.1, .3, .6) and y = 1.5 give 0.25.
    """
    return stage_tau_progress(sarm_stage_tau(spans, list(alphas), times, last_s), list(alphas.values()))


def stage_tau_progress(stage_tau: ArrayLike, shares: Sequence[float]) -> FloatArray:
    """Return the progress of y = k + tau by the stages' shares; 1 at and above K, 0 below 0."""
    points = breakpoints(shares)
    y = np.asarray(stage_tau, dtype=np.float64)
    stage = np.clip(np.floor(y), 0, len(shares) - 1).astype(np.int64)
    inside = points[stage] + (y - stage) * (points[stage + 1] - points[stage])
    return np.where(y >= len(shares), 1.0, np.where(y < 0, 0.0, inside))


def breakpoints(shares: Sequence[float]) -> FloatArray:
    """Return the progress at the start of each stage and at the end of the last, shape (K + 1,): 0 .. 1."""
    given = np.asarray(shares, dtype=np.float64)
    if not len(given) or not np.all(given >= 0) or not given.sum() > 0:
        raise OptionError(f"The shares are {given.tolist()}; expected at least 0, and one above it.")
    points = np.append(0.0, np.cumsum(given / given.sum()))
    points[-1] = 1.0
    return points


def linear_progress(times: ArrayLike, last_s: float) -> FloatArray:
    """Return elapsed time over the episode's duration, shape (n,): a label that ignores the task."""
    at = np.asarray(times, dtype=np.float64)
    return np.clip(at / last_s, 0.0, 1.0) if last_s > 0 else np.zeros(len(at))


def _is_stage(name: str | None) -> bool:
    return bool(name) and str(name).lower() not in NO_STAGE


Prior = Literal["paper", "lerobot"]


def temporal_proportions(
    episodes: Sequence[Sequence[Stage]], names: Sequence[str] | None = None, prior: Prior = "paper"
) -> dict[str, float]:
    """Return each stage's share of the task, summing to 1, in the order of the procedure (SARM).

    With L_ik the seconds of stage k in episode i and T_i = sum_k L_ik, two priors are published. They differ
    if an episode lacks a stage: (a 5 s, b 5 s) and (a 10 s) give a = 0.75 by the paper, and a = 0.6 by
    LeRobot's code.

    - ``"paper"``: alpha_k = 1/M sum_i L_ik / T_i over all M episodes (SARM, arXiv 2509.25358, eq. 1). A
      missing stage counts 0; the seconds of a repeated one add up.
    - ``"lerobot"``: the mean of L_ik / T_i over the episodes that contain k, divided by the sum of these
      means (LeRobot 0.6, subtask_annotation.py). The last seconds of a repeated stage count.

    LeRobot's annotator writes whole seconds; here seconds are used as annotated.

    Args:
        episodes: The stages of each episode; those without any are left out.
        names: The procedure; a stage that no episode has gets share 0. By default, stages by when they are
            first done.

    Raises:
        EpisodeError: No episode has stages, or one has a stage that is not in ``names``.
    """
    if prior not in get_args(Prior):
        raise UnknownNameError("prior", prior, get_args(Prior))
    annotated = [spans for spans in episodes if spans]
    order = list(names) if names is not None else procedure_order(annotated)
    if not annotated:
        raise EpisodeError("No episode has stages to take proportions from.")
    shares = [_shares(spans, prior) for spans in annotated]
    unknown = next((name for episode in shares for name in episode if name not in order), None)
    if unknown is not None:
        raise UnknownNameError("stage", unknown, order)
    if prior == "paper":
        alphas = {name: sum(s.get(name, 0.0) for s in shares) / len(shares) for name in order}
    else:
        held = {name: [s[name] for s in shares if name in s] for name in order}
        alphas = {name: sum(values) / len(values) if values else 0.0 for name, values in held.items()}
    total = sum(alphas.values())
    return {name: alpha / total for name, alpha in alphas.items()}


def _shares(spans: Sequence[Stage], prior: Prior) -> Mapping[str, float]:
    """Return each stage's share of the annotated seconds of one episode."""
    total = sum(span.end_s - span.start_s for span in spans)
    seconds: dict[str, float] = {}
    for span in spans:
        earlier = seconds.get(span.name, 0.0) if prior == "paper" else 0.0
        seconds[span.name] = earlier + span.end_s - span.start_s
    return {name: length / total for name, length in seconds.items()}
