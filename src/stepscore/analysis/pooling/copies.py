"""Trials that are copies of one another: what a deterministic simulator records when a scene is tried again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from stepscore.types import FloatArray

CHANGED = '"changed_from"'
"""Key in the metadata of an episode that a perturbation made from another, as in an audit."""
EpisodeRow = Mapping[str, Any]
EpisodeCurve = tuple[FloatArray, FloatArray]

FEWEST_VALUES = 3
"""Different values of a curve, none of them whole percent, from which on two trials do not share it by chance."""


def copied_trials(
    rows: Sequence[EpisodeRow], curves: Sequence[EpisodeCurve], without: Collection[int] = ()
) -> list[int]:
    """Return the places of trials that copy another trial of the same policy in the same scene.

    Copies have the same recording (fingerprint); or as many frames and the same curve to the last bit, in values too
    fine to be equal by chance, from a judge that gives other episodes of that length other curves. Their labels of
    success do not differ. Of trials whose scene is not stated nothing is known, and a changed episode is no trial.

    Args:
        rows: Episodes with policy, task, instruction, pair, protocol, fingerprint, n_frames, success, error and
            metadata.
        curves: Their curves.
        without: Places that do not count anyway.
    """
    counted = sorted(set(range(len(rows))) - set(without))
    shown = {i: hash((curves[i][0].tobytes(), curves[i][1].tobytes())) for i in counted}
    of_length: dict[Hashable, set[int]] = defaultdict(set)
    for i in counted:
        of_length[rows[i]["protocol"], rows[i]["n_frames"]].add(shown[i])
    alike: dict[Hashable, list[int]] = defaultdict(list)
    for i in counted:
        row = rows[i]
        if row["n_frames"] is None or row["pair"] is None or CHANGED in (row["metadata"] or ""):
            continue
        where = tuple(row[name] for name in ("protocol", "policy", "task", "instruction", "pair", "success"))
        alike[where, "recording", row["fingerprint"]].append(i)
        tells_apart = len(of_length[row["protocol"], row["n_frames"]]) > 1
        if tells_apart and _is_fine(curves[i][1]):
            alike[where, "curve", (row["n_frames"], shown[i])].append(i)
    found: set[int] = set()
    for members in alike.values():
        # The one that was judged stands for all.
        found |= set(members) - {min(members, key=lambda i: (rows[i]["error"] is not None, i))}
    return sorted(found)


def copies_note(n: int) -> str:
    """Return the sentence on copies."""
    copies, do = (
        ("1 trial is a copy of another", "does") if n == 1 else (f"{n} trials are copies of others", "do")
    )
    return f"{copies} of the same policy in the same scene and {do} not count: a copy shows nothing new."


def _is_fine(values: FloatArray) -> bool:
    """Return whether a curve has values that two recordings do not share by chance."""
    known = np.unique(values[~np.isnan(values)])
    return int(np.sum(np.abs(100 * known - np.round(100 * known)) > 1e-6)) >= FEWEST_VALUES
