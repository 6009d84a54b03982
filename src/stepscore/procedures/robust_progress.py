"""Our progress labels: constant while the image is still, and falling when a stage is undone.

Every stage of the procedure has a fixed interval, from P_k to P_{k+1}. Spans give the stage at each time; the
measured visual change moves progress inside its interval:

- A completed stage rises from P_k to P_{k+1} with its share of the change so far, so a frozen image earns
  nothing.
- An uncompleted stage (a lower one follows, or the episode failed in it) approaches m = 0.7 of its interval
  as m (1 - exp(-change / (m usual))), with the usual change of its completed runs: it starts like them but
  never arrives.
- A stage revisited after a later one starts at its end and sinks towards P_k with the change. If it is
  completed again, it sinks for half of the change and rises for the rest.
- A task that was done and then undone within its last stage rises to 1 there and sinks again.
- Between stages progress is constant. The last frame of a success is 1; a failure stays where it stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from stepscore.episodes import Stage, first_frame_from
from stepscore.errors import EpisodeError, OptionError, UnknownNameError
from stepscore.procedures.stage_progress import breakpoints
from stepscore.types import FloatArray

UNFINISHED_SHARE = 0.7
"""Share of its interval that an uncompleted stage approaches."""


class Visit(NamedTuple):
    """One span as frames at a stage of the procedure.

    Attributes:
        end: Index after its last frame.
        undone: Whether a later stage came before it.
        peaked: Whether the task was done inside it, and undone again.
    """

    place: int
    first: int
    end: int
    completed: bool
    undone: bool
    peaked: bool = False


def robust_progress(
    spans: Sequence[Stage],
    shares: Mapping[str, float],
    times: ArrayLike,
    change: ArrayLike,
    *,
    succeeded: bool,
    reached: bool = False,
    usual: Mapping[str, float] | None = None,
) -> FloatArray:
    """Return the progress at every frame, shape (n,), 0..1, by the rules in this module's docstring.

    Args:
        spans: The episode's stages by time; names may repeat.
        shares: Share of each stage of the procedure, in order.
        change: How much the image changed at every frame, at least 0 (``visual_change``).
        succeeded: Whether the task is done at the last frame.
        reached: Whether it was ever done; time without a stage after the procedure's last one then counts as
            done.
        usual: The change of a completed run of each stage, from ``usual_change``. The episode's own completed
            runs fill
        gaps; a stage without either does not move if unfinished.
    """
    at, moved = np.asarray(times, dtype=np.float64), np.asarray(change, dtype=np.float64)
    if moved.shape != at.shape or np.any(~(moved >= 0)):
        raise OptionError(f"change must be {len(at)} numbers of at least 0, one for each frame.")
    names, points = list(shares), breakpoints(list(shares.values()))
    visited = visits(spans, names, at, succeeded=succeeded, reached=reached)
    known = {**_completed_change(visited, moved, names), **(usual or {})}
    progress = np.empty(len(at))
    level, filled, before = float(points[visited[0].place]), 0, visited[0].place
    for visit in visited:
        low, high = float(points[visit.place]), float(points[visit.place + 1])
        progress[filled : visit.first] = level
        level = low if visit.place > before else min(level, high)
        so_far = np.cumsum(moved[visit.first : visit.end])
        path = _path(visit, so_far, (low, level, high), known.get(names[visit.place], np.nan))
        progress[visit.first : visit.end] = path
        level = high if visit.completed else float(path[-1]) if len(path) else level
        filled, before = visit.end, visit.place
    progress[filled:] = 1.0 if succeeded else level
    if succeeded:
        progress[-1] = 1.0
    return np.clip(progress, 0.0, 1.0)


def _path(visit: Visit, so_far: FloatArray, levels: tuple[float, float, float], usual: float) -> FloatArray:
    """Return progress along a visit by the change so far; levels: stage's start, visit's start, stage's end."""
    low, start, high = levels
    total = so_far[-1] if len(so_far) else 0.0
    share = so_far / total if total > 0 else np.zeros(len(so_far))
    if visit.completed and not visit.undone:
        return np.asarray(start + (high - start) * share)
    pace = so_far / usual if usual > 0 else np.zeros(len(so_far))
    if visit.peaked and total > 0:
        # Where inside it the task was done is not known: after the usual change, if that leaves as much.
        peak = min(usual, total / 2) if usual > 0 else total / 2
        risen = start + (high - start) * np.minimum(so_far / peak, 1.0)
        return np.asarray(low + (risen - low) * np.exp(-np.maximum(so_far / peak - 1.0, 0.0)))
    if not visit.completed:
        if visit.undone:
            return np.asarray(low + (start - low) * np.exp(-pace))
        goal = max(start, low + UNFINISHED_SHARE * (high - low))
        return np.asarray(goal + (start - goal) * np.exp(-pace / UNFINISHED_SHARE))
    sunk = low + (start - low) * np.exp(-pace * np.minimum(1.0, 0.5 / np.maximum(share, 0.5)))
    return np.asarray(sunk + (high - sunk) * np.clip(2 * share - 1, 0.0, 1.0))


def visits(
    spans: Sequence[Stage],
    names: Sequence[str],
    times: FloatArray,
    *,
    succeeded: bool,
    reached: bool = False,
) -> tuple[Visit, ...]:
    """Return the spans as visits of the procedure's stages, joining consecutive ones of one stage.

    A visit is completed if a later stage follows, if it is the last of a success, or, if the task was
    ``reached``, if it is the procedure's last stage and a gap follows. If the task was reached without a
    completed visit of the last stage, it was reached in the longest of them.
    """
    if not spans:
        raise EpisodeError("There are no stages to take progress from.")
    unknown = next((span.name for span in spans if span.name not in names), None)
    if unknown is not None:
        raise UnknownNameError("stage", unknown, names)
    runs: list[tuple[int, int, int]] = []
    for span in sorted(spans, key=lambda span: span.start_s):
        place = list(names).index(span.name)
        first, end = (int(i) for i in first_frame_from(times, [span.start_s, span.end_s]))
        if runs and runs[-1][0] == place and runs[-1][2] == first:
            runs[-1] = (place, runs[-1][1], end)
        else:
            runs.append((place, first, end))
    visited: list[Visit] = []
    for number, (place, first, end) in enumerate(runs):
        following = runs[number + 1] if number + 1 < len(runs) else None
        advances = following[0] > place if following else succeeded
        is_done = reached and place == len(names) - 1
        rested = is_done and following is not None and end < following[1]
        # After a time in which the task was done, its last stage again is that stage undone.
        undone = number > 0 and (place < runs[number - 1][0] or (is_done and place == runs[number - 1][0]))
        visited.append(Visit(place, first, end, advances or rested, undone))
    last = [visit for visit in visited if visit.place == len(names) - 1]
    if reached and last and not any(visit.completed for visit in last):
        longest = max(last, key=lambda visit: visit.end - visit.first)
        visited[visited.index(longest)] = longest._replace(peaked=True)
    return tuple(visited)


def usual_change(
    episodes: Sequence[Sequence[Visit]], change: Sequence[FloatArray], names: Sequence[str]
) -> dict[str, float]:
    """Return the median change of the completed first runs of each stage, over episodes."""
    changes: dict[str, list[float]] = {}
    for visited, moved in zip(episodes, change, strict=True):
        for name, amount in _completed_change(visited, moved, names).items():
            changes.setdefault(name, []).append(amount)
    return {name: float(np.median(amounts)) for name, amounts in changes.items()}


def _completed_change(visited: Sequence[Visit], change: FloatArray, names: Sequence[str]) -> dict[str, float]:
    """Return the change of the first completed run of each stage that undid nothing."""
    changes: dict[str, float] = {}
    for visit in visited:
        if visit.completed and not visit.undone:
            changes.setdefault(names[visit.place], float(change[visit.first : visit.end].sum()))
    return changes
