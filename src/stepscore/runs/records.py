"""Rows of the journal: an episode, its judgement and its usage as JSON values, with null for NaN."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stepscore.episodes import Episode, GoalFrame, Labels
from stepscore.errors import OptionError, exits_as_errors
from stepscore.models.calls import Call
from stepscore.runs.protocol import canonical_json
from stepscore.types import FloatArray, Judgement, Usage

Row = dict[str, Any]
RESERVED_COLUMNS = frozenset({"episode_id", "time_s", "progress"})
"""Columns of the ``curves`` table; no channel may have their names."""


def episode_row(episode: Episode) -> Row:
    """Return an episode's row of the ``episodes`` table, from headers and fingerprints; decodes nothing.

    If the video cannot be opened, the fields about its frames are null.
    """
    own = ("source", "source_index", "instruction", "task", "policy", "robot", "dataset", "pair")
    row: Row = {
        **{name: getattr(episode, name) for name in own},
        **dict.fromkeys(("first_frame", "n_frames", "fps", "duration_s", "fingerprint")),
        "views": [{"name": name, "location": view.location()} for name, view in episode.views.items()],
        "success": episode.labels.success,
        "success_mode": episode.success_mode or episode.labels.success_mode,
        "stages": [
            {"name": one.name, "start_s": finite_or_none(one.start_s), "end_s": finite_or_none(one.end_s)}
            for one in episode.labels.stages
        ],
        "subgoals": [
            {name: getattr(goal, name) for name in ("name", "criterion", "mode", "view", "reviewed")}
            | {"label": episode.labels.subgoal(goal.name)}
            for goal in episode.subgoals
        ],
        "metadata": json.dumps(dict(episode.metadata), sort_keys=True, default=str)
        if episode.metadata
        else None,
    }
    if episode.goals:
        row["goals"] = [{"view": name, "location": _location(goal)} for name, goal in episode.goals.items()]
    if labelled := _labelled_progress(episode.labels):
        row["labelled_progress"] = labelled
    try:
        with exits_as_errors():
            row["fingerprint"] = episode.fingerprint
            info = episode.info
    except Exception:  # third-party code may raise anything; the judge meets the same error and reports it
        return row
    if info is not None:
        row |= {
            "first_frame": info.first_frame,
            "n_frames": info.n_frames,
            "fps": finite_or_none(info.fps),
            "duration_s": finite_or_none(info.duration_s),
        }
    return row


def _location(goal: Path | GoalFrame) -> str:
    return str(goal) if isinstance(goal, Path) else goal.location()


def _labelled_progress(labels: Labels) -> Row:
    """Return times and values of labelled progress by name; values outside 0..1 are unknown."""
    by_name: Row = {}
    for name in labels.potentials:
        times, values = labels.progress(name)
        known = np.isfinite(times)
        inside = np.where((values >= 0) & (values <= 1), values, np.nan)
        by_name[name] = {"time_s": times[known].tolist(), "progress": finite_or_none_list(inside[known])}
    return by_name


def input_key(row: Row) -> str:
    """Return a hash of the judge's input; the episode is judged again when it changes."""
    recording = [row["fingerprint"], row["instruction"]]
    goals = [[goal[part] for part in ("name", "criterion", "mode", "view")] for goal in row["subgoals"]]
    views = [view["name"] for view in row["views"]]
    return hashlib.sha256(canonical_json([recording, goals, views]).encode()).hexdigest()[:16]


def judgement_row(judgement: Judgement) -> Row:
    """Return a judgement as JSON values."""
    curve = judgement.curve
    row: Row = {
        "success_score": finite_or_none(judgement.success_score),
        "success_probability": finite_or_none(judgement.success_probability),
        "success_calibrated": judgement.success_calibrated,
        "facts": {name: finite_or_none(value) for name, value in sorted(judgement.facts.items())},
        "error": judgement.error,
    }
    if curve is not None:
        if taken := RESERVED_COLUMNS & curve.channels.keys():
            raise OptionError(f"A channel cannot have the name {min(taken)!r} of another column. Rename it.")
        row["curve"] = {
            "time_s": curve.times.tolist(),
            "progress": finite_or_none_list(curve.progress),
            "channels": {
                name: finite_or_none_list(values) for name, values in sorted(curve.channels.items())
            },
            "calibrated": curve.calibrated,
            "time_source": curve.time_source,
        }
    row["verdicts"] = [
        {
            "subgoal": verdict.subgoal,
            "answer": verdict.answer,
            "score": finite_or_none(verdict.score),
            "when_s": finite_or_none(verdict.when_s),
            "why": verdict.why,
        }
        for verdict in judgement.verdicts
    ]
    return row


def usage_row(usage: Usage, calls: Sequence[Call], seconds: float) -> Row:
    """Return an episode's row of the ``usage`` table; ``seconds`` is the time that judging it took."""
    return {
        "seconds": round(seconds, 6),
        "calls": usage.calls,
        "attempts": usage.attempts,
        "images": usage.images,
        "tokens_in": usage.tokens_in,
        "tokens_out": usage.tokens_out,
        "cost": usage.cost,
        "cached": sum(call.cached for call in calls),
        "latencies_s": [round(latency, 6) for call in calls for latency in call.latencies],
    }


def finite_or_none(value: float) -> float | None:
    """Return the value; ``None`` if it is not finite."""
    return float(value) if math.isfinite(value) else None


def finite_or_none_list(values: FloatArray | Iterable[float]) -> list[float | None]:
    """Return the values, with ``None`` for each that is not finite."""
    return [v if math.isfinite(v) else None for v in map(float, values)]
