"""Find duplicates: episodes judged in several runs, and copies made by a deterministic simulator."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from stepscore.errors import OptionError
from stepscore.runs import Run
from stepscore.types import FloatArray

SAME_CURVE = 1e-3
"""Largest difference between curves that count as equal; batch size and library versions change scores slightly."""

EpisodeRow = Mapping[str, Any]
EpisodeCurve = tuple[FloatArray, FloatArray]


def distinct_runs(runs: Iterable[Run]) -> list[Run]:
    """Return the runs without repeated folders."""
    return list({run.path.resolve(): run for run in reversed(list(runs))}.values())[::-1]


def repeated_episodes(rows: Sequence[EpisodeRow], curves: Sequence[EpisodeCurve]) -> list[int]:
    """Return the indices of episodes that another run judged the same way under the same protocol.

    If an episode failed in one run, the failed row is the repeated one.

    Raises:
        OptionError: Two runs have different curves or success scores for an episode under the same protocol.
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
                "Pass only one of these runs."
            )
    return sorted(repeated)


def _shared_fingerprints(rows: Sequence[EpisodeRow]) -> set[str | None]:
    """Return fingerprints shared by several episodes of one run (files with many episodes, or no video)."""
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


CHANGED = '"changed_from"'
"""Metadata key of an episode made from another by a perturbation."""

FEWEST_VALUES = 3
"""Number of distinct values, other than whole percentages, that rules out a coincidence between two trials."""


def copied_trials(
    rows: Sequence[EpisodeRow], curves: Sequence[EpisodeCurve], without: Collection[int] = ()
) -> list[int]:
    """Return the indices of trials that are copies of another trial of the same policy in the same scene.

    Two trials are copies if they have the same recording (fingerprint), or the same number of frames and
    bitwise identical curves. Identical curves count only if their values are too fine to agree by chance, and
    if the judge gives different curves to other episodes of that length. The success labels of copies do not
    differ. Trials without a scene and perturbed episodes are never copies. ``without`` lists indices to
    ignore.
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
        # Keep the copy that was judged.
        found |= set(members) - {min(members, key=lambda i: (rows[i]["error"] is not None, i))}
    return sorted(found)


def copies_note(n: int) -> str:
    """Return the note on copies."""
    copies, do = (
        ("1 trial is a copy of another", "does") if n == 1 else (f"{n} trials are copies of others", "do")
    )
    return f"{copies} of the same policy in the same scene and {do} not count: a copy shows nothing new."


def _is_fine(values: FloatArray) -> bool:
    """Return whether a curve's values are too fine for two recordings to share by chance."""
    known = np.unique(values[~np.isnan(values)])
    return int(np.sum(np.abs(100 * known - np.round(100 * known)) > 1e-6)) >= FEWEST_VALUES
