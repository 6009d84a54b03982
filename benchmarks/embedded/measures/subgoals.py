"""Subgoals: is each statement about the video so far judged true when it is, and only then?"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.embedded.figures import Figure, Units, over_points
from benchmarks.embedded.rows import Scored
from stepscore.metrics.stats import mean_estimate
from stepscore.types import Estimate, FloatArray

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
    yes = margins > 0
    return float((yes[true].mean() + (~yes[~true]).mean()) / 2)


def by_subgoal(rows: Sequence[Scored]) -> dict[tuple[str, str], list[tuple[Scored, FloatArray, FloatArray]]]:
    """Of each subgoal of each task, the episodes with log-odds and truth at the prefixes where it is known."""
    found: dict[tuple[str, str], list[tuple[Scored, FloatArray, FloatArray]]] = defaultdict(list)
    for row in rows:
        for name, statement in row.subgoals.items():
            known = ~np.isnan(statement.truth)
            found[row.task, name].append((row, statement.margins[known], statement.truth[known]))
    return found


def subgoal_figures(rows: Sequence[Scored]) -> list[Figure]:
    """Balanced accuracy over prefixes of each subgoal; their mean and the worst; at the episode's end."""
    recorded = by_subgoal([row for row in rows if row.variant == "recorded"])
    each, ends = {}, {}
    for (task, name), found in recorded.items():
        truth = np.concatenate([t for _, _, t in found])
        if min(truth.sum(), len(truth) - truth.sum()) < LEAST:
            continue
        units = Units.of([row for row, _, _ in found])
        columns = ([m for _, m, _ in found], [t for _, _, t in found])
        estimate = over_points(fast_balanced, columns, units, resamples=200)
        each[task, name] = Figure(GROUP, f"balanced accuracy, {task}: {name}", estimate, 0.75)
        last = [(m[-1], t[-1]) for _, m, t in found if len(t)]
        ends[task, name] = fast_balanced(*np.array(last).T)
    if not each:
        return []
    worst = min(each.values(), key=lambda figure: figure.estimate.value)
    mean = _over_subgoals({key: figure.estimate.value for key, figure in each.items()})
    return [
        Figure(GROUP, "balanced accuracy, mean of subgoals", mean, 0.92, baselines={"constant": 0.5}),
        Figure(GROUP, "balanced accuracy, worst subgoal", worst.estimate, 0.75, note=worst.name),
        Figure(GROUP, "balanced accuracy at the end, mean of subgoals", _over_subgoals(ends)),
        *hidden_figures(rows),
        *sorted(each.values(), key=lambda figure: figure.name),
    ]


def _over_subgoals(values: Mapping[tuple[str, str], float]) -> Estimate:
    """Mean over subgoals, those of a task together; n counts subgoals."""
    return mean_estimate(list(values.values()), clusters=[task for task, _ in values])


@dataclass(frozen=True)
class Views:
    """Log-odds of a subgoal by two cameras in one episode, and the truth."""

    row: Scored
    weak: FloatArray
    other: FloatArray
    truth: FloatArray

    @property
    def both(self) -> FloatArray:
        """Log-odds averaged."""
        return (self.weak + self.other) / 2


def hidden_figures(rows: Sequence[Scored]) -> list[Figure]:
    """Subgoals that one camera shows badly, judged by it, by the other, and by both (log-odds averaged)."""
    figures = []
    for weak, other, words in (("recorded", "left", "main"), ("left", "recorded", "second")):
        found = hidden_in(rows, weak, other)
        if not found:
            continue
        label = f"balanced accuracy, subgoals that the {words} camera shows worst, "
        units, truth = Units.of([one.row for one in found]), [one.truth for one in found]
        by_camera = {
            "by it alone": [one.weak for one in found],
            "by the other camera": [one.other for one in found],
            "by both": [one.both for one in found],
        }
        for how, margins in by_camera.items():
            estimate = over_points(fast_balanced, (margins, truth), units, resamples=300)
            figures.append(Figure(GROUP, label + how, estimate))
        columns = (by_camera["by both"], by_camera["by it alone"], truth)
        gained = over_points(_gain, columns, units, resamples=300)
        figures.append(Figure(GROUP, label + "gain by the second view", gained, 0.0))
    return figures


def _gain(both: FloatArray, alone: FloatArray, truth: FloatArray) -> float:
    return fast_balanced(both, truth) - fast_balanced(alone, truth)


def hidden_in(rows: Sequence[Scored], weak: str, other: str) -> list[Views]:
    """Episodes under the subgoals that the camera of the variant ``weak`` shows worst.

    Which these are is found on every second scene and measured on the others, and the other way round, so that
    none is chosen by the very prefixes it is measured on.
    """
    views = {variant: {r.id: r for r in rows if r.variant == variant} for variant in (weak, other)}
    shared = [i for i in views[weak] if i in views[other]]
    scenes = sorted({str(views[weak][i].pair) for i in shared})
    side = {scene: number % 2 for number, scene in enumerate(scenes)}
    found = []
    for chosen_on in (0, 1):
        choose = [views[weak][i] for i in shared if side[str(views[weak][i].pair)] == chosen_on]
        measure = [i for i in shared if side[str(views[weak][i].pair)] != chosen_on]
        for task, name in worst_subgoals(choose):
            for i in measure:
                a, b = views[weak][i], views[other][i]
                if a.task == task and name in a.subgoals and name in b.subgoals:
                    x, y = a.subgoals[name], b.subgoals[name]
                    known = ~np.isnan(x.truth)
                    found.append(Views(a, x.margins[known], y.margins[known], x.truth[known]))
    return found


def worst_subgoals(rows: Sequence[Scored]) -> list[tuple[str, str]]:
    """The subgoals of lowest balanced accuracy, by task and name."""
    found = {}
    for key, episodes in by_subgoal(rows).items():
        truth = np.concatenate([t for _, _, t in episodes])
        if min(truth.sum(), len(truth) - truth.sum()) >= LEAST:
            found[key] = fast_balanced(np.concatenate([m for _, m, _ in episodes]), truth)
    return sorted(found, key=lambda key: (found[key], key))[:HIDDEN]
