"""The four questions of :mod:`stepscore.analysis.findings.trust`, one function each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from stepscore.analysis.agreement import Agreement, agreement
from stepscore.analysis.episode_metrics import EpisodeMetrics, task_of
from stepscore.analysis.findings.phrases import percent, plural, points
from stepscore.analysis.ranking import finer_ranking, score_ranking
from stepscore.analysis.subgoals import verdict_rows
from stepscore.analysis.table_rows import EpisodeRow
from stepscore.metrics.stats import compare_paired
from stepscore.runs import Run
from stepscore.types import Estimate, FloatArray

Answer = Literal["yes", "no", "unknown"]
Aspect = Literal["success", "progress", "order", "subgoals"]

ALPHA = 0.05
FEWEST_OF_EACH = 5
"""Fewest labelled successes, and failures, for a conclusion about success, order or subgoals."""
ENOUGH_RIGHT = 0.75
"""Balanced accuracy, or share of ordered pairs, of a good judge: half-way from chance to perfect."""
SMALL_ERROR = 0.15
"""Largest mean distance of a good curve to labelled progress."""
CLOCK = "linear-time"


@dataclass(frozen=True)
class TrustAspect:
    """Whether to trust a judge with one thing.

    Attributes:
        sentence: The finding, as the rest of a sentence about the judge.
        estimates: The numbers behind it; those of the baseline begin with ``baseline``.
        n: Number of episodes, or of verdicts on subgoals.
    """

    aspect: Aspect
    answer: Answer
    sentence: str
    estimates: Mapping[str, Estimate] = field(default_factory=dict)
    n: int = 0

    @property
    def headline(self) -> str:
        """Return the answer in a few words: ``Yes, for success``."""
        return {"yes": "Yes, for", "no": "Not for", "unknown": "Unknown for"}[self.answer] + f" {self.aspect}"


def success_trust(judge: str, metrics: EpisodeMetrics, clock: EpisodeMetrics) -> TrustAspect | None:
    """Return whether its verdicts agree with the success labels; ``None`` without episodes."""
    answers, labels = metrics.values["success_judge"], metrics.values["success_label"]
    if np.all(np.isnan(answers)):
        return TrustAspect("success", "unknown", "it gives no verdict on success") if len(metrics) else None
    few = _too_few(labels[~np.isnan(answers)])
    if few:
        return TrustAspect("success", "unknown", few)
    found = agreement(judge, "success", answers, labels, metrics.episodes, {})
    _, said, _ = _side_by_side(metrics, clock, "success_judge")
    # The clock is asked what the judge has answered, and calls every episode done at its end.
    base = np.where(np.isnan(answers), math.nan, np.where(np.isnan(said), 1.0, said))
    against = agreement(CLOCK, "success", base, labels, metrics.episodes, {})
    p = _beats_always_yes(answers, labels, metrics.episodes)
    return _answered("success", found, against, p, "the labels of success", "rollout")


def subgoals_trust(runs: Sequence[Run], metrics: EpisodeMetrics) -> TrustAspect | None:
    """Return whether its verdicts on all subgoals agree with the labels; ``None`` without verdicts."""
    known = {(row["run"], row["episode_id"]) for row in metrics.episodes}
    pairs: dict[tuple[str, str, str], list[float]] = {}
    rows: dict[tuple[str, str, str], EpisodeRow] = {}
    judged = False
    for run in runs:
        for episode, goals, source, values in verdict_rows(run):
            judged = judged or source == "judge"
            if (str(run.path), episode["episode_id"]) not in known:
                continue
            for goal, value in zip(goals, values, strict=True):
                key = str(run.path), str(episode["episode_id"]), goal
                pairs.setdefault(key, [math.nan, math.nan])[source == "label"] = float(value)
                # Subgoals of one episode are not independent: without a scene, the episode is the unit.
                rows[key] = {**episode, "pair": episode["pair"] or episode["episode_id"]}
    if not judged:
        return None
    answers, labels = np.array(list(pairs.values())).reshape(-1, 2).T
    few = _too_few(labels[~np.isnan(answers)], ("reached subgoal", "missed subgoal"))
    if few:
        return TrustAspect("subgoals", "unknown", few)
    members = list(rows.values())
    found = agreement(runs[0].judge, "subgoals", answers, labels, members, {})
    yes = np.where(np.isnan(answers), math.nan, 1.0)
    base = agreement("constant", "subgoals", yes, labels, members, {})
    p = _beats_always_yes(answers, labels, members)
    return _answered("subgoals", found, base, p, "the labels", "subgoal")


def _answered(
    aspect: Aspect, found: Agreement, base: Agreement, p: float, against: str, noun: str
) -> TrustAspect:
    """Return the answer for verdicts, compared with yes to everything."""
    right, base_right = (one.table.tp + one.table.tn for one in (found, base))
    n, other = found.table.n, "a clock" if aspect == "success" else "yes to everything"
    answer = _decide(p, better=found.balanced.value > 0.5, good=found.balanced.value >= ENOUGH_RIGHT)
    sentence = f"agrees with {against} on {right:,} of {plural(n, noun)}, {other} on {base_right:,}"
    if (answer == "no") == (right > base_right):
        # Where one outcome is rare, all answers together hide what is done about it.
        sentence = f"{_by_outcome(found, aspect)}, {other} on {base.table.tp:,} and {base.table.tn:,}"
    elif answer == "no":
        sentence += f" ({_by_outcome(found, aspect)})"
    if answer == "unknown":
        sentence += ": too few to show that it does better"
    if found.table.unknown:
        sentence += f"; {found.table.unknown:,} more have no verdict"
    estimates = {
        "accuracy": found.accuracy,
        "balanced accuracy": found.balanced,
        "baseline accuracy": base.accuracy,
    }
    return TrustAspect(aspect, answer, sentence, estimates, n)


def _by_outcome(found: Agreement, aspect: Aspect) -> str:
    true, false = ("success", "failure") if aspect == "success" else ("reached subgoal", "missed one")
    tp, fp, fn, tn = found.table.tp, found.table.fp, found.table.fn, found.table.tn
    return f"right on {tp:,} of {plural(tp + fn, true)} and {tn:,} of {plural(tn + fp, false)}"


def progress_trust(metrics: EpisodeMetrics, clock: EpisodeMetrics) -> TrustAspect | None:
    """Return whether its curves are close to the labelled progress; ``None`` without curves."""
    if not any(len(values) for _, values in metrics.curves):
        return None
    if not any(row["truth"].source is not None for row in metrics.episodes):
        return TrustAspect("progress", "unknown", "no labelled progress or stages to compare its curves with")
    judged, clocked, rows = _side_by_side(metrics, clock, "stage_MAE")
    known = ~np.isnan(judged) & ~np.isnan(clocked)
    if known.sum() < FEWEST_OF_EACH:
        return TrustAspect(
            "progress", "unknown", f"labelled progress of only {plural(int(known.sum()), 'curve')}"
        )
    metrics, clock = metrics.of_the_judge(), clock.of_the_judge()
    everyone, every_clock = np.ones(len(metrics), dtype=bool), np.ones(len(clock), dtype=bool)
    estimates = {
        "stage_MAE": metrics.estimate("stage_MAE", everyone),
        "stage_CCC": metrics.estimate("stage_CCC", everyone),
        "baseline stage_MAE": clock.estimate("stage_MAE", every_clock),
        "baseline stage_CCC": clock.estimate("stage_CCC", every_clock),
    }
    error, base = float(np.mean(judged[known])), float(np.mean(clocked[known]))
    p = _paired_p(judged, clocked, rows)
    answer = _decide(p, better=error < base, good=error <= SMALL_ERROR)
    sentence = f"off by {points(error)} points of 100 on average, a clock by {points(base)}"
    if answer == "unknown":
        sentence += ": too few curves to show that it does better"
    return TrustAspect("progress", answer, sentence, estimates, int(known.sum()))


def _side_by_side(
    metrics: EpisodeMetrics, clock: EpisodeMetrics, name: str
) -> tuple[FloatArray, FloatArray, list[EpisodeRow]]:
    """Return one metric of the judge and of the clock, by episode."""
    by_id = {row["episode_id"]: clock.values[name][i] for i, row in enumerate(clock.episodes)}
    clocked = [by_id.get(f"{row['source']}:{row['episode_id']}", math.nan) for row in metrics.episodes]
    return metrics.values[name], np.array(clocked, dtype=np.float64), list(metrics.episodes)


def order_trust(judge: str, metrics: EpisodeMetrics) -> TrustAspect | None:
    """Return whether it orders episodes by its last progress, else its success score; ``None`` without either."""
    last = np.array(
        [values[-1] if len(values) else math.nan for _, values in metrics.curves], dtype=np.float64
    )
    given = [math.nan if row["success_score"] is None else row["success_score"] for row in metrics.episodes]
    name, scores = ("last progress", last) if np.any(~np.isnan(last)) else ("success score", np.array(given))
    if np.all(np.isnan(scores)):
        return None
    labels = np.where(np.isnan(scores), math.nan, metrics.values["success_label"])
    few = _too_few(labels)
    if few:
        return TrustAspect("order", "unknown", few)
    ranked = {
        row.metric: row.estimate
        for row in (*score_ranking(judge, metrics, {}, [name]), *finer_ranking(judge, metrics, {}, [name]))
    }
    found = ranked.get(f"judge:AUC of {name} within tasks", ranked[f"judge:AUC of {name}"])
    wins = _pairs_won(scores, labels, [task_of(row) for row in metrics.episodes])
    if math.isnan(found.value) or np.all(np.isnan(wins)):
        return TrustAspect("order", "unknown", "no task has both a labelled success and a labelled failure")
    p = _paired_p(wins, np.where(np.isnan(wins), math.nan, 0.5), metrics.episodes)
    answer = _decide(p, better=found.value > 0.5, good=found.value >= ENOUGH_RIGHT)
    sentence = (
        f"scores a success above a failure of its task in {percent(found.value)} of pairs, a clock in 50 %"
    )
    if answer == "unknown":
        sentence += ": too few to show that it does better"
    matched = ranked.get("judge:AUC of last progress, length-matched")
    estimates = {f"AUC of {name}": found} | (
        {"AUC of last progress, length-matched": matched} if matched else {}
    )
    return TrustAspect("order", answer, sentence, estimates, found.n)


def _pairs_won(scores: FloatArray, labels: FloatArray, tasks: Sequence[str]) -> FloatArray:
    """Return per episode the share of opposite episodes of its task that it is ordered correctly against.

    Ties count one half; NaN without opposites. The mean over successes, or failures, is the AUC (DeLong et
    al. 1988).
    """
    won = np.full(len(scores), math.nan)
    codes = np.array(tasks)
    for i in np.flatnonzero(~np.isnan(scores) & ~np.isnan(labels)):
        others = scores[(codes == codes[i]) & (labels == 1 - labels[i]) & ~np.isnan(scores)]
        if len(others):
            sign = 1.0 if labels[i] else -1.0
            won[i] = float(np.mean(0.5 + 0.5 * np.sign(sign * (scores[i] - others))))
    return won


def _too_few(labels: FloatArray, nouns: tuple[str, str] = ("success", "failure")) -> str:
    """Return why there are too few labels, with ``nouns`` for labels of 1 and 0; empty if there are enough."""
    yes, no = int(np.sum(labels == 1)), int(np.sum(labels == 0))
    if not yes + no:
        return "no labels to compare it with"
    if min(yes, no) >= FEWEST_OF_EACH:
        return ""
    return (
        f"labels of {plural(yes, nouns[0])} and {plural(no, nouns[1])}: {FEWEST_OF_EACH} of each are needed"
    )


def _beats_always_yes(answers: FloatArray, labels: FloatArray, rows: Sequence[EpisodeRow]) -> float:
    """Return the p-value of beating yes to everything, with true and false labels weighed equally.

    Unweighted, a judge that always answers no would win if most labels are false.
    """
    known = ~np.isnan(answers) & ~np.isnan(labels)
    share = np.where(labels == 1, np.sum(labels[known] == 1), np.sum(labels[known] == 0)) / known.sum()
    right, yes = (answers == labels) / (2 * share), (labels == 1) / (2 * share)
    return _paired_p(np.where(known, right, math.nan), np.where(known, yes, math.nan), rows)


def _paired_p(a: FloatArray, b: FloatArray, rows: Sequence[EpisodeRow]) -> float:
    tasks, scenes = [task_of(row) for row in rows], [row["pair"] for row in rows]
    return compare_paired(a, b, strata=tasks, clusters=scenes).p_value


def _decide(p_value: float, *, better: bool, good: bool) -> Answer:
    if not better:
        return "no"
    if math.isnan(p_value) or p_value >= ALPHA:
        return "unknown"
    return "yes" if good else "no"
