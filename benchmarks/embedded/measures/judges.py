"""The other forms it answers: remaining actions and progress, hops, subgoals in three strategies, stages."""

from __future__ import annotations

import hashlib
import math
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.embedded.figures import Figure, Units, average, over_points, plain
from benchmarks.embedded.measures.pair_order import balanced
from benchmarks.embedded.run_judge import JudgeResult, KnownAnswers, run_judge
from benchmarks.embedded.scoring import in_memory
from stepscore.episodes import Episode
from stepscore.episodes.labels.subgoals import Subgoal, TaskSubgoals
from stepscore.judges import Judge
from stepscore.judges.cascade import Cascade
from stepscore.judges.hop import Hop
from stepscore.judges.published.procvlm import ProcVlm
from stepscore.judges.stepeval import StepEval
from stepscore.judges.topreward import TopReward
from stepscore.metrics import boundary_f1, make_pairs
from stepscore.metrics.calibration import mae
from stepscore.models import Model
from stepscore.procedures.annotate import AnnotateOptions, annotate_episodes
from stepscore.runs import CallOptions
from stepscore.sim import get_task
from stepscore.training.embedded.tasks import SIZE, VIEW
from stepscore.training.vlm.data.answer_key import DIRECT, without_steps
from stepscore.types import Curve, FloatArray

GROUP = "Other judges, as measured"
POINTS = 6
"""Points of an episode that procvlm and hop judge."""
FRAMES, MAX_TOKENS = 8, 260
"""Frames of a stepeval request, and the most tokens of a response."""
KINDS = ("success", "stall", "failure")
LEAST_CHANGE = 0.1
"""True change of progress from which on a pair of frames counts for hop."""


def chosen_episodes(episodes: Sequence[Episode], count: int) -> list[Episode]:
    """Choose episodes by the main camera: successes, stalls and failures in turn and, of each, tasks in turn."""
    counts: dict[tuple[str, str], int] = defaultdict(int)
    queues: dict[str, list[tuple[int, Episode]]] = {kind: [] for kind in KINDS}
    for episode in sorted(episodes, key=lambda e: hashlib.sha256(e.id.encode()).digest()):
        kind = _kind(episode)
        queues[kind].append((counts[kind, str(episode.task)], episode))
        counts[kind, str(episode.task)] += 1
    turns = [sorted(queue, key=lambda one: one[0]) for queue in queues.values()]
    mixed = [one[1] for some in zip_longest(*turns) for one in some if one is not None]
    return [episode.with_views([VIEW]) for episode in mixed[:count]]


def judge_figures(episodes: Sequence[Episode], count: int, model: Model, judge: TopReward) -> list[Figure]:
    """Run every judge on ``count`` episodes; no request is sent twice."""
    chosen = [in_memory(episode) for episode in chosen_episodes(episodes, count)]
    known: KnownAnswers = {}
    return [
        *procvlm_figures(chosen, model),
        *hop_figures(chosen, episodes, model),
        *stepeval_figures(chosen, model, known),
        *cascade_figures(chosen, model, judge, known),
        *annotate_figures(chosen, model),
    ]


def units_of(episodes: Sequence[Episode]) -> Units:
    """Return the scenes and tasks of episodes."""
    return Units([e.pair for e in episodes], [str(e.task) for e in episodes])


def procvlm_figures(episodes: Sequence[Episode], model: Model) -> list[Figure]:
    """Error of stated progress with the remaining actions named first, and without."""
    judge = ProcVlm(model, points=POINTS, size=SIZE, max_tokens=160)
    forms: dict[str, dict[str, Any]] = {
        "remaining actions first": {},
        "the percentage at once": {
            "prefill": DIRECT,
            "change": lambda request: replace(request, prompt=without_steps(request.prompt), max_tokens=12),
        },
    }
    figures = []
    for words, how in forms.items():
        curves = [_curve(run_judge(judge, episode, model, **how)) for episode in episodes]
        errors = np.array([_error(curve, e) for curve, e in zip(curves, episodes, strict=True)])
        kinds = np.array([_kind(episode) for episode in episodes])
        for kind in ("all", *KINDS):
            mine = np.flatnonzero(np.isin(kinds, [kind]) | (kind == "all"))
            estimate = average(errors[mine], units_of([episodes[int(i)] for i in mine]))
            figures.append(Figure(GROUP, f"procvlm, MAE of progress, {words}: {kind}", estimate))
        read = [math.nan if c is None else c.coverage for c in curves]
        figures.append(
            Figure(GROUP, f"procvlm, answers that can be read, {words}", average(read, units_of(episodes)))
        )
    return figures


def _kind(episode: Episode) -> str:
    if episode.labels.success:
        return "success"
    return "stall" if episode.policy == "freeze" else "failure"


def _curve(found: JudgeResult) -> Curve | None:
    return None if found.judgement is None else found.judgement.curve


def _truth(episode: Episode, times: FloatArray) -> FloatArray:
    return np.interp(times, *episode.labels.progress())


def _error(curve: Curve | None, episode: Episode) -> float:
    return math.nan if curve is None else mae(curve.progress, _truth(episode, curve.times))


def hop_figures(episodes: Sequence[Episode], all_episodes: Sequence[Episode], model: Model) -> list[Figure]:
    """Which of two frames is further along, by hops of each mode and fused, on as many falls as rises.

    The goal image is the last frame of a success in the same scene. Episodes without one do not enter, nor those
    whose goal looks like their start: hop judges them in one mode alone.
    """
    done = {e.pair: e for e in all_episodes if e.labels.success}
    judge = Hop(model, mode="fused", points=POINTS, size=SIZE, max_tokens=16)
    changes: dict[str, list[FloatArray]] = defaultdict(list)
    kept: list[Episode] = []
    unread = []
    with tempfile.TemporaryDirectory() as folder:
        for number, episode in enumerate(e for e in episodes if e.pair in done):
            goal = _last_frame(done[episode.pair], Path(folder) / f"{number}.png")
            found = run_judge(judge, replace(episode, goals={VIEW: goal}), model).judgement
            if found is None or found.curve is None or not found.facts["goal_used"]:
                continue
            kept.append(episode)
            unread.append(found.facts["unread"] / (3 * len(found.curve)))
            series = {**found.curve.channels, "fused": found.curve.progress}
            truth = _truth(episode, found.curve.times)
            for mode in ("incremental", "forward", "backward", "fused"):
                values = series.get(mode, np.full(len(truth), np.nan))
                pairs = make_pairs(found.curve.times, truth, values)
                known = (np.abs(pairs.true_delta) >= LEAST_CHANGE) & ~np.isnan(pairs.judged_delta)
                changes[mode].append(np.column_stack([pairs.true_delta, pairs.judged_delta])[known])
    figures = []
    for mode, found_pairs in changes.items():
        right = [np.where(c[:, 1] == 0, 0.5, (c[:, 0] * c[:, 1] > 0).astype(float)) for c in found_pairs]
        rises = [(c[:, 0] > 0).astype(float) for c in found_pairs]
        estimate = over_points(balanced, (right, rises), units_of(kept), resamples=300)
        note = f"{sum(map(len, right))} pairs with a true change of {LEAST_CHANGE:g} or more"
        figures.append(
            Figure(
                GROUP,
                f"hop, balanced accuracy on pairs, {mode}",
                estimate,
                baselines={"linear time": 0.5},
                note=note,
            )
        )
    figures.append(Figure(GROUP, "hop, answers that cannot be read", average(unread, units_of(kept))))
    return figures


def _last_frame(episode: Episode, path: Path) -> Path:
    from PIL import Image

    view = episode.views[VIEW]
    Image.fromarray(view.read([view.info().n_frames - 1])[0]).save(path)
    return path


def stepeval_figures(episodes: Sequence[Episode], model: Model, known: KnownAnswers) -> list[Figure]:
    """Verdicts on subgoals at the end, by strategy: right answers among those given, and calls."""
    options: Mapping[str, dict[str, Any]] = {
        "all-at-once, in words": {"strategy": "all-at-once"},
        "per-subgoal, in words": {"strategy": "per-subgoal"},
        "sequential, in words": {"strategy": "sequential"},
        "per-subgoal, by tokens": {"strategy": "per-subgoal", "answer": "tokens"},
        "sequential, by tokens": {"strategy": "sequential", "answer": "tokens"},
        "as statements": {"strategy": "per-subgoal", "answer": "statement", "frames": 2 * FRAMES},
    }
    figures = []
    for words, how in options.items():
        judge = StepEval(model, **{"frames": FRAMES, "size": SIZE, "max_tokens": MAX_TOKENS, **how})
        found = [run_judge(judge, episode, model, known=known) for episode in episodes]
        sides = [_verdicts(f, e) for f, e in zip(found, episodes, strict=True)]
        right, true = [s[0] for s in sides], [s[1] for s in sides]
        known_verdicts = [~np.isnan(r) for r in right]
        columns = (
            [r[k] for r, k in zip(right, known_verdicts, strict=True)],
            [t[k] for t, k in zip(true, known_verdicts, strict=True)],
        )
        estimate = over_points(balanced, columns, units_of(episodes), resamples=300)
        total = sum(map(len, true))
        answered = sum(int(k.sum()) for k in known_verdicts) / total if total else math.nan
        calls = np.mean([f.calls for f in found])
        note = f"{calls:.1f} calls an episode, {answered:.0%} of {total} verdicts known"
        figures.append(
            Figure(
                GROUP,
                f"stepeval, balanced accuracy, {words}",
                replace(estimate, coverage=answered),
                note=note,
            )
        )
    return figures


def _verdicts(found: JudgeResult, episode: Episode) -> tuple[FloatArray, FloatArray]:
    """Of each subgoal of known truth: whether the verdict is right (NaN for unknown), and the truth."""
    answers = {v.subgoal: v.answer for v in found.judgement.verdicts} if found.judgement is not None else {}
    truth = {s.name: episode.labels.subgoal(s.name) for s in episode.subgoals}
    known = {name: true for name, true in truth.items() if true is not None}
    right = [
        math.nan if answers.get(n, "unknown") == "unknown" else float((answers[n] == "yes") == t)
        for n, t in known.items()
    ]
    return np.array(right, dtype=np.float64), np.array(list(known.values()), dtype=np.float64)


def cascade_figures(
    episodes: Sequence[Episode], model: Model, judge: TopReward, known: KnownAnswers
) -> list[Figure]:
    """Success by a cheap judge (one call), an expensive one (a call a subgoal), and both in a cascade."""
    expensive = StepEval(
        model, strategy="per-subgoal", answer="tokens", frames=FRAMES, size=SIZE, max_tokens=MAX_TOKENS
    )
    judges: dict[str, Judge] = {
        "topreward alone": judge,
        "stepeval alone": expensive,
        "cascade": Cascade(judge, expensive),
    }
    units, truth = units_of(episodes), np.array([float(bool(e.labels.success)) for e in episodes])
    figures: dict[str, Figure] = {}
    calls: dict[str, float] = {}
    for words, one in judges.items():
        found = [run_judge(one, episode, model, known=known) for episode in episodes]
        scores = np.array([math.nan if f.judgement is None else f.judgement.success_score for f in found])
        right = np.where(np.isnan(scores), np.nan, (scores >= 0.5) == (truth > 0.5))
        calls[words] = float(np.mean([f.calls for f in found])) if found else math.nan
        note = f"{calls[words]:.2f} calls an episode"
        figures[words] = Figure(GROUP, f"success accuracy, {words}", average(right, units), note=note)
    saved = 1 - calls["cascade"] / calls["stepeval alone"] if calls["stepeval alone"] else math.nan
    cost = figures["cascade"].estimate.value - figures["stepeval alone"].estimate.value
    return [
        *figures.values(),
        Figure(
            GROUP,
            "cascade, share of the expensive judge's calls saved",
            plain(saved, len(episodes)),
            note=f"at an accuracy {abs(cost):.3f} {'below' if cost < 0 else 'above'} the expensive judge's",
        ),
    ]


def annotate_figures(episodes: Sequence[Episode], model: Model) -> list[Figure]:
    """Stage boundaries found against the simulator's, to half a second; episodes without stages find none."""
    vocabulary = {
        str(e.task): TaskSubgoals(tuple(Subgoal(m.stage) for m in get_task(str(e.task)).milestones))
        for e in episodes
    }
    with tempfile.TemporaryDirectory() as folder:
        made = annotate_episodes(
            episodes,
            model,
            Path(folder),
            vocabulary=vocabulary,
            options=AnnotateOptions(fps=10.0, max_frames=FRAMES, size=SIZE, max_tokens=400),
            call_options=CallOptions(cache=False),
        )
    pairs = [
        (_boundaries(e.labels.stages), _boundaries(a.stages)) for e, a in zip(episodes, made, strict=True)
    ]
    known = [(e, true, found) for e, (true, found) in zip(episodes, pairs, strict=True) if true]
    scores = [boundary_f1(true, found).f1 for _, true, found in known]
    usable = sum(annotation.error is None for annotation in made)
    even = [boundary_f1(true, _even(e, len(true))).f1 for e, true, _ in known]
    return [
        Figure(
            GROUP,
            "annotate, boundary F1 at 0.5 s",
            average(scores, units_of([e for e, _, _ in known])),
            baselines={"linear time": float(np.mean(even)) if even else math.nan},
            note=f"{usable} of {len(made)} answers can be used; linear time: as many boundaries, evenly spaced",
        )
    ]


def _boundaries(stages: Sequence[Any]) -> list[float]:
    return [stage.start_s for stage in stages[1:]]


def _even(episode: Episode, count: int) -> list[float]:
    assert episode.info is not None
    return [float(t) for t in np.linspace(0.0, episode.info.duration_s, count + 2)[1:-1]]
