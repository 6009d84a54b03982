"""Compute the numbers of a row from the judge's runs over a benchmark."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stepscore.analysis import (
    EpisodeMetrics,
    curves_by_episode,
    finer_ranking,
    judge_agreement,
    measure_episodes,
    score_ranking,
    verdict_rows,
)
from stepscore.analysis.against_labels import curve_agreement, judged_stages, level_estimate
from stepscore.audit.board.benchmark import Benchmark
from stepscore.audit.board.board_metrics import METRICS, WHY_MISSING
from stepscore.audit.board.question_scores import score_questions
from stepscore.audit.board.row import Cost, Points
from stepscore.audit.judge_answers import judged_episodes
from stepscore.audit.pairs import score_pairs
from stepscore.episodes import Episode
from stepscore.metrics import balanced_accuracy, f1
from stepscore.metrics.stats import statistic_estimate
from stepscore.models.calls import Price
from stepscore.runs import Run, finite_or_none
from stepscore.types import Estimate

CURVES = {
    "progress_mae": "judge:progress MAE",
    "progress_ccc": "judge:progress CCC",
    "progress_tau": "judge:progress tau",
    "progress_epr": "judge:progress EPR",
    "stage_error": "judge:stage error",
    "boundary_f1": "judge:boundary F1",
}
"""Board metrics by the name that ``metrics --show judge`` gives them."""

ALWAYS_YES = ("constant", "linear-time")
"""Judges that answer yes to every subgoal: a clock takes everything for done at the end."""


def row_estimates(
    benchmark: Benchmark,
    recorded: Run,
    changed: Run | None,
    videos: tuple[Mapping[str, Episode], Mapping[str, Episode]],
) -> tuple[dict[str, Estimate], dict[str, str]]:
    """Return the estimates of a row by metric, and why the others are missing.

    Args:
        changed: The run over the videos of pairs and questions.
        videos: Videos of pairs and of questions, by their ids.
    """
    metrics = measure_episodes(recorded)
    found = {**_success(recorded, metrics), **_curves(recorded, metrics), **_subgoals(recorded)}
    runs = [run for run in (recorded, changed) if run is not None]
    if benchmark.pairs:
        found |= _pairs(benchmark, runs, videos[0])
    if benchmark.questions:
        said = {name: points for run in runs for name, points in said_by(run).items()}
        stages = {name: values.tolist() for run in runs for (_, name), values in judged_stages(run).items()}
        answered = score_questions(benchmark.questions, videos[1], said, stages)
        found |= {f"question_{kind}": estimate for kind, estimate in answered.items()}
    known = {
        metric.name: found[metric.name] for metric in METRICS if metric.name in found and found[metric.name].n
    }
    return known, _missing(benchmark, found, known)


def _missing(
    benchmark: Benchmark, found: Mapping[str, Estimate], known: Mapping[str, Estimate]
) -> dict[str, str]:
    why = {}
    for metric in METRICS:
        if metric.name in known:
            continue
        if metric.name.startswith("pairs") and not benchmark.pairs:
            why[metric.name] = "the benchmark has no pairs"
        elif metric.name.startswith("question") and metric.name not in found:
            why[metric.name] = "the benchmark has no such questions"
        else:
            why[metric.name] = f"{WHY_MISSING[metric.needs]}, or the labels for it are not there"
    return why


def _success(run: Run, metrics: EpisodeMetrics) -> dict[str, Estimate]:
    """Return the ranking by success score (else by last progress) and the agreement of verdicts."""
    rows = [*score_ranking(run.judge, metrics, {}), *finer_ranking(run.judge, metrics, {})]
    ranked = {row.metric.removeprefix("judge:AUC of "): row.estimate for row in rows}
    by = next((name for name in ("success score", "last progress") if name in ranked), "")
    names = {
        "success_auc": by,
        "success_auc_within_tasks": f"{by} within tasks" if f"{by} within tasks" in ranked else by,
        "success_auc_length_matched": "last progress, length-matched",
    }
    found = {name: ranked[score] for name, score in names.items() if score in ranked}
    agreements = judge_agreement(run).agreements
    success = next((one for one in agreements if one.question == "success"), None)
    if success is not None:
        found |= {"success_balanced_accuracy": success.balanced, "success_f1": success.f1}
    return found


def _curves(run: Run, metrics: EpisodeMetrics) -> dict[str, Estimate]:
    rows = {row.metric: row.estimate for row in curve_agreement(run.judge, metrics, (), judged_stages(run))}
    found = {name: rows[metric] for name, metric in CURVES.items() if metric in rows}
    successes = metrics.select(metrics.values["success_label"] == 1)
    if len(successes):
        found["voc"] = level_estimate(successes.values["VOC"], _resampling(successes.episodes))
    return found


def _resampling(episodes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what to resample: scenes, else episodes, within tasks."""
    return {
        "clusters": [episode["pair"] or episode["episode_id"] for episode in episodes],
        "strata": [str(episode["task"] or episode["instruction"]) for episode in episodes],
    }


def _subgoals(run: Run) -> dict[str, Estimate]:
    """Return the agreement over all subgoals of all episodes; scenes, else episodes, are resampled."""
    answers: dict[tuple[str, str], dict[str, float]] = {}
    episodes: dict[str, Mapping[str, Any]] = {}
    for episode, names, source, values in verdict_rows(run):
        episodes[episode["episode_id"]] = episode
        for name, value in zip(names, values, strict=True):
            answers.setdefault((episode["episode_id"], name), {})[source] = float(value)
    keys = sorted(key for key, known in answers.items() if "label" in known)
    labels = np.array([answers[key]["label"] for key in keys])
    yes = run.judge in ALWAYS_YES
    said = np.array([1.0 if yes else answers[key].get("judge", math.nan) for key in keys])
    if not len(keys) or np.isnan(said).all():
        return {}
    resampling = _resampling([episodes[name] for name, _ in keys])
    return {
        "subgoal_balanced_accuracy": statistic_estimate(balanced_accuracy, (said, labels), **resampling),
        "subgoal_f1": statistic_estimate(f1, (said, labels), **resampling),
    }


def _pairs(benchmark: Benchmark, runs: list[Run], videos: Mapping[str, Episode]) -> dict[str, Estimate]:
    judged = {name: one for run in runs for name, one in judged_episodes(run).items()}
    spans = {one.span: one for one in score_pairs(runs[0].judge, benchmark.pairs, videos, judged).spans}
    found = {"pairs_accuracy": spans["all"].accuracy, "pairs_auroc": spans["all"].auroc}
    return found | {f"pairs_{span}": one.accuracy for span, one in spans.items() if span != "all"}


def said_by(run: Run) -> dict[str, Points]:
    """Return the judge's answers by id of the video."""
    verdicts: dict[str, dict[str, str]] = {}
    for row in run.verdicts().select(["episode_id", "subgoal", "answer"]).to_pylist():
        verdicts.setdefault(row["episode_id"], {})[row["subgoal"]] = row["answer"]
    if run.judge in ALWAYS_YES:
        for row in run.episodes().select(["episode_id", "subgoals"]).to_pylist():
            verdicts[row["episode_id"]] = {goal["name"]: "yes" for goal in row["subgoals"]}
    curves = dict(curves_by_episode(run.curves(), "progress"))
    said = {}
    for row in run.judgements().select(["episode_id", "success_score"]).to_pylist():
        times, progress = curves.get(row["episode_id"], (np.zeros(0), np.zeros(0)))
        said[row["episode_id"]] = Points(
            tuple(times.tolist()),
            tuple(finite_or_none(value) for value in progress.tolist()),
            row["success_score"],
            verdicts.get(row["episode_id"], {}),
        )
    return said


def runs_cost(runs: Sequence[Run], prices: Sequence[Price | None]) -> Cost:
    """Return the cost of all runs of one judge; cached answers count as if they had been requested."""
    rows = [row for run in runs for row in run.usage().to_pylist()]
    uncached = [row["seconds"] for row in rows if not row["cached"] and row["seconds"] is not None]
    return Cost(
        videos=len(rows),
        calls=sum(row["calls"] or 0 for row in rows),
        images=sum(row["images"] or 0 for row in rows),
        tokens_in=sum(row["tokens_in"] or 0 for row in rows),
        tokens_out=sum(row["tokens_out"] or 0 for row in rows),
        cost=_money(runs, prices),
        seconds_per_episode=round(float(np.mean(uncached)), 4) if uncached else None,
    )


def _money(runs: Sequence[Run], prices: Sequence[Price | None]) -> float | None:
    known = [price for price in prices if price is not None]
    if len(known) < len(prices):
        return None
    if all(price.free for price in known):
        return 0.0
    if len(set(known)) > 1:  # of several models at several prices: what the calls say themselves
        costs = [row["cost"] for run in runs for row in run.usage().to_pylist() if row["calls"]]
        return None if None in costs else float(sum(costs))
    calls = [row for run in runs for row in run.calls().select(["tokens_in", "tokens_out"]).to_pylist()]
    return float(sum(known[0].cost(row["tokens_in"] or 0, row["tokens_out"] or 0) for row in calls))
