"""Subgoals: is each statement about the film so far judged true when it is, and only then?"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from stepscore.types import FloatArray

from .figures import Figure, Units, over_points, plain
from .rows import Scored

GROUP = "Subgoal verdicts"
HIDDEN = 8
"""So many subgoals are taken for hidden in one view: those on which it does worst."""
LEAST = 5
"""Prefixes of either answer that a subgoal needs to have a figure."""


def fast_balanced(margins: FloatArray, truth: FloatArray) -> float:
    """Mean of the accuracy on true and on false statements at P = 0.5; NaN where either is absent."""
    true = truth > 0.5
    if true.all() or not true.any():
        return math.nan
    said = margins > 0
    return float((said[true].mean() + (~said[~true]).mean()) / 2)


Said = tuple[FloatArray, FloatArray]


def by_subgoal(rows: Sequence[Scored]) -> dict[tuple[str, str], list[tuple[Scored, FloatArray, FloatArray]]]:
    """Of each subgoal of each task, the episodes with log-odds and truth at the prefixes where it is known."""
    found: dict[tuple[str, str], list[tuple[Scored, FloatArray, FloatArray]]] = defaultdict(list)
    for row in rows:
        for name, said in row.subgoals.items():
            known = ~np.isnan(said.truth)
            found[row.task, name].append((row, said.margins[known], said.truth[known]))
    return found


def subgoal_figures(rows: Sequence[Scored]) -> list[Figure]:
    """Balanced accuracy over prefixes of each subgoal; their mean and the worst; at the episode's end."""
    recorded = [row for row in rows if row.variant == "recorded"]
    each = []
    for (task, name), found in by_subgoal(recorded).items():
        truth = np.concatenate([t for _, _, t in found])
        if min(truth.sum(), len(truth) - truth.sum()) < LEAST:
            continue
        units = Units.of([row for row, _, _ in found])
        columns = ([m for _, m, _ in found], [t for _, _, t in found])
        estimate = over_points(fast_balanced, columns, units, resamples=200)
        each.append(Figure(GROUP, f"balanced accuracy, {task}: {name}", estimate, 0.75))
    if not each:
        return []
    values = np.array([figure.estimate.value for figure in each])
    worst = min(each, key=lambda figure: figure.estimate.value)
    ends = [[(m[-1:], t[-1:]) for _, m, t in found if len(t)] for found in by_subgoal(recorded).values()]
    at_end = [fast_balanced(*(np.concatenate(c) for c in zip(*said, strict=True))) for said in ends if said]
    known = [value for value in at_end if not math.isnan(value)]
    mean = plain(float(values.mean()), len(values), "mean over subgoals; n counts them")
    return [
        Figure(GROUP, "balanced accuracy, mean of subgoals", mean, 0.92, baselines={"constant": 0.5}),
        Figure(GROUP, "balanced accuracy, worst subgoal", worst.estimate, 0.75, note=worst.name),
        Figure(
            GROUP,
            "balanced accuracy at the end, mean of subgoals",
            plain(float(np.mean(known)) if known else math.nan, len(known)),
        ),
        *hidden_figures(rows),
        *sorted(each, key=lambda figure: figure.name),
    ]


def hidden_figures(rows: Sequence[Scored]) -> list[Figure]:
    """Subgoals that one camera shows badly, judged by it, by the other, and by both (log-odds averaged).

    Which subgoals a camera shows badly is found on every second scene and measured on the others, and the
    other way round, so that none is chosen by the very prefixes it is measured on.
    """
    views = {
        variant: {row.id: row for row in rows if row.variant == variant} for variant in ("recorded", "left")
    }
    shared = [i for i in views["recorded"] if i in views["left"]]
    scenes = sorted({str(views["recorded"][i].pair) for i in shared})
    figures = []
    for weak, other, words in (("recorded", "left", "main"), ("left", "recorded", "second")):
        kept: dict[str, list[Said]] = {"weak": [], "other": [], "both": []}
        units: list[Scored] = []
        for side in (0, 1):
            sides = {scene: number % 2 for number, scene in enumerate(scenes)}
            choose = [i for i in shared if sides[str(views["recorded"][i].pair)] == side]
            measure = [i for i in shared if i not in set(choose)]
            for task, name in worst_subgoals([views[weak][i] for i in choose]):
                for i in measure:
                    a, b = views[weak][i], views[other][i]
                    if a.task != task or name not in a.subgoals or name not in b.subgoals:
                        continue
                    x, y = a.subgoals[name], b.subgoals[name]
                    known = ~np.isnan(x.truth)
                    kept["weak"].append((x.margins[known], x.truth[known]))
                    kept["other"].append((y.margins[known], x.truth[known]))
                    kept["both"].append(((x.margins[known] + y.margins[known]) / 2, x.truth[known]))
                    units.append(a)
        names = {"weak": "by it alone", "other": "by the other camera", "both": "by both"}
        for key, how in names.items():
            columns = ([m for m, _ in kept[key]], [t for _, t in kept[key]])
            estimate = (
                over_points(fast_balanced, columns, Units.of(units), resamples=300)
                if units
                else plain(math.nan, 0)
            )
            label = f"balanced accuracy, subgoals that the {words} camera shows worst, {how}"
            figures.append(Figure(GROUP, label, estimate))
    return figures


def worst_subgoals(rows: Sequence[Scored]) -> list[tuple[str, str]]:
    """The subgoals of lowest balanced accuracy, by task and name."""
    found = {}
    for key, said in by_subgoal(rows).items():
        truth = np.concatenate([t for _, _, t in said])
        if min(truth.sum(), len(truth) - truth.sum()) >= LEAST:
            found[key] = fast_balanced(np.concatenate([m for _, m, _ in said]), truth)
    return sorted(found, key=lambda key: (found[key], key))[:HIDDEN]
