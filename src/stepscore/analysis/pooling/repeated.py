"""Episodes that stand in several runs with the same judgement: they are one observation, not two."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from stepscore.errors import OptionError
from stepscore.runs import Run
from stepscore.types import FloatArray

SAME_CURVE = 1e-3
"""Largest distance of two curves that count as the same: another batch size or library moves a model's scores."""

EpisodeRow = Mapping[str, Any]
EpisodeCurve = tuple[FloatArray, FloatArray]


def distinct_runs(runs: Iterable[Run]) -> list[Run]:
    """Return the runs without those of a folder that was given before."""
    return list({run.path.resolve(): run for run in reversed(list(runs))}.values())[::-1]


def repeated_episodes(rows: Sequence[EpisodeRow], curves: Sequence[EpisodeCurve]) -> list[int]:
    """Return the places of episodes that another run holds as well, judged alike under the same protocol.

    Of an episode that failed in one run and was judged in the other, the failed row is the repeated one.

    Args:
        rows: Episodes with fingerprint, instruction, protocol, success score, error and run folder.
        curves: Their curves.

    Raises:
        OptionError: An episode has another curve or success score under the same protocol in another run.
    """
    shared = _shared_fingerprints(rows)
    kept: dict[Hashable, list[int]] = defaultdict(list)
    repeated = []
    for i, row in enumerate(rows):
        key = _identity(row, shared)
        j = next((j for j in kept[key] if rows[j]["run"] != row["run"]), None)
        if j is None:
            kept[key].append(i)
        elif row["error"] is not None:
            repeated.append(i)
        elif rows[j]["error"] is not None:
            kept[key][kept[key].index(j)] = i
            repeated.append(j)
        elif _alike((row, curves[i]), (rows[j], curves[j])):
            repeated.append(i)
        else:
            raise OptionError(
                f"Episode {row['episode_id']} has two judgements of {row['judge']} under one protocol "
                f"({row['protocol']}), in {rows[j]['run']} and in {row['run']}, and they differ. "
                "One episode cannot count as two, and which is right is unknown: give one of the runs."
            )
    return sorted(repeated)


def _shared_fingerprints(rows: Sequence[EpisodeRow]) -> set[str | None]:
    """Return fingerprints that several episodes of one run have: those of files that hold many, or of no video."""
    counts = Counter((row["run"], row["fingerprint"]) for row in rows)
    return {None, *(fingerprint for (_, fingerprint), n in counts.items() if n > 1)}


def _identity(row: EpisodeRow, shared: set[str | None]) -> Hashable:
    recording: Hashable = row["fingerprint"]
    if row["fingerprint"] in shared or row["n_frames"] is None:
        recording = row["fingerprint"], row["source"], row["episode_id"]
    return recording, row["instruction"], row["protocol"]


def _alike(a: tuple[EpisodeRow, EpisodeCurve], b: tuple[EpisodeRow, EpisodeCurve]) -> bool:
    scores = [
        np.array([np.nan if row["success_score"] is None else row["success_score"]]) for row, _ in (a, b)
    ]
    pairs = [*zip(a[1], b[1], strict=True), (scores[0], scores[1])]
    return all(
        len(x) == len(y) and np.allclose(x, y, rtol=0.0, atol=SAME_CURVE, equal_nan=True) for x, y in pairs
    )
