"""Controls: rising, frozen and reversed videos, other instructions, changed images."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from benchmarks.embedded.figures import Figure, Units, average
from benchmarks.embedded.measures.success import ScoredVideos, index, pairs_of
from benchmarks.embedded.rows import Scored, sigmoid
from benchmarks.embedded.variants import IMAGE_CHANGES, Matched, opposite_instructions
from stepscore.metrics.order import voc
from stepscore.types import FloatArray

RISE, WORDS, IMAGES = "Progress on successes", "Instruction", "Changed images and the second camera"
PREFIXES = 12
SPRINGS = ("button-press", "button-press-topdown", "handle-press", "handle-pull")
"""Tasks whose video looks much the same reversed: the object springs back."""


def thinned(values: FloatArray, most: int = PREFIXES) -> FloatArray:
    """Return at most ``most`` values, evenly from the first to the last."""
    if len(values) <= most:
        return values
    return np.asarray(values[np.round(np.linspace(0, len(values) - 1, most)).astype(int)])


def rise_figures(rows: Sequence[Scored]) -> list[Figure]:
    """VOC and gain on successes, of the same videos frozen, and the end of reversed ones."""
    done = [row for row in rows if row.variant == "recorded" and row.success == 1 and len(row.times) > 1]
    units = Units.of(done)
    prefixes = float(np.mean([min(len(row.times), PREFIXES) for row in done])) if done else math.nan
    figures = [
        Figure(
            RISE,
            f"VOC over {PREFIXES} prefixes",
            average([voc(thinned(row.own.margins)) for row in done], units),
            0.88,
            baselines={"linear time": 1.0, "constant": math.nan},
            note=f"short videos have fewer prefixes: {prefixes:.1f} in the mean",
        ),
        Figure(
            RISE,
            "gain of P(True), first to last prefix",
            average([row.chances[-1] - row.chances[0] for row in done], units),
            0.8,
            baselines={"linear time": 1.0, "constant": 0.0},
        ),
    ]
    still = [row for row in rows if row.variant == "frozen" and len(row.times) > 1]
    gains = np.array([row.chances[-1] - row.chances[0] for row in still])
    for words, values in (("gain", gains), ("absolute change", np.abs(gains))):
        figures.append(
            Figure(
                RISE,
                f"{words} of P(True), frozen at the first frame",
                average(values, Units.of(still)),
                0.03,
                at_most=True,
                baselines={"linear time": 1.0, "constant": 0.0},
            )
        )
    figures.append(
        Figure(
            RISE,
            "VOC, frozen at the first frame",
            average([voc(thinned(r.own.margins)) for r in still], Units.of(still)),
        )
    )
    back = [row for row in rows if row.variant == "reversed"]
    for words, chosen, target in (
        ("directional tasks", [r for r in back if r.task not in SPRINGS], 0.3),
        ("tasks that spring back", [r for r in back if r.task in SPRINGS], None),
    ):
        ends = average([row.chances[-1] for row in chosen], Units.of(chosen))
        figures.append(
            Figure(RISE, f"P(True) at the end of reversed successes, {words}", ends, target, at_most=True)
        )
    return figures


def instruction_figures(rows: Sequence[Scored]) -> list[Figure]:
    """The right instruction against every other, and against the opposite in the same scene."""
    done = [row for row in rows if row.variant == "recorded" and row.success == 1 and row.others]
    units = Units.of(done)
    best = average([float(row.final > max(row.others.values())) for row in done], units)
    wrong = [float(np.mean(sigmoid(np.array(list(row.others.values()))))) for row in done]
    opposite = opposite_instructions()
    undone = [row for row in done if row.task in opposite]
    against = [float(sigmoid(np.array([row.others[opposite[row.task]]]))[0]) for row in undone]
    others = len(done[0].others) if done else 0
    return [
        Figure(
            WORDS,
            f"the right one beats all {others} others, successes",
            best,
            0.95,
            baselines={"constant": 0.0},
        ),
        Figure(
            WORDS,
            "P(True) of the right one at the end of successes",
            average([r.chances[-1] for r in done], units),
        ),
        Figure(WORDS, "P(True) of the others there", average(wrong, units)),
        Figure(
            WORDS,
            "P(True) of the opposite task in the same scene, successes",
            average(against, Units.of(undone)),
            0.1,
            at_most=True,
        ),
    ]


def image_figures(rows: Sequence[Scored], matched: Matched) -> list[Figure]:
    """Success AUC under changed images, and by the second camera, on matched lengths."""
    by = index(rows)
    recorded = ScoredVideos.of(pairs_of(by, matched.changed_images))
    figures = [
        Figure(IMAGES, "success AUC, images as recorded", recorded.auc(), baselines=recorded.baselines())
    ]
    for name in IMAGE_CHANGES:
        changed = ScoredVideos.of(pairs_of(by, matched.changed_images, f"{name}, recorded", f"{name}, {{}}"))
        figures.append(Figure(IMAGES, f"success AUC, {name}", changed.auc(), 0.93))
    close = pairs_of(by, matched.two_views)
    left = [
        (by[a.id, "left"], by[b.id, f"left {b.variant}" if b.variant != "recorded" else "left"])
        for a, b in close
        if (a.id, "left") in by
    ]
    for words, pairs in (("the main camera, where both saw it", close), ("the second camera", left)):
        figures.append(Figure(IMAGES, f"success AUC, {words}", ScoredVideos.of(pairs).auc()))
    figures.append(Figure(IMAGES, "success AUC, both cameras, log-odds averaged", _fused(close, left).auc()))
    return figures


def _fused(close: Sequence[tuple[Scored, Scored]], left: Sequence[tuple[Scored, Scored]]) -> ScoredVideos:
    first, second = ScoredVideos.of(close), ScoredVideos.of(left)
    return ScoredVideos(first.rows, first.labels, (first.scores + second.scores) / 2)
