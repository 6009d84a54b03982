"""How well the judges in words work on the embedded judge, beside a clock: procvlm, hop and gvl.

    python -m benchmarks.embedded.words DATASET -o ROWS.jsonl [--checkpoint FOLDER] [--episodes 325] [--variants 65]

DATASET is simulated rollouts that served nothing else. ROWS keeps a line for each episode, so that a stopped
evaluation is resumed; another checkpoint needs another file. The gate is off: what is measured is the answers.
Prints each figure with its interval over episodes, scenes as clusters; unknown counts as wrong where an answer is
right or wrong.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.embedded.run_judge import ChangeRequest, run_judge
from benchmarks.embedded.testset import read_any
from stepscore.episodes import Episode, sample_frames
from stepscore.episodes.perturbations import freeze
from stepscore.judges import Ask, Gvl, Hop, Judge, ProcVlm
from stepscore.judges.common import STATED_TIME
from stepscore.judges.common.parsing import normalize_text, parse_remaining_actions
from stepscore.metrics import roc_auc, voc
from stepscore.metrics.stats import mean_estimate, rate_estimate, statistic_estimate
from stepscore.models import Answer, Generate, Model, Request, Response, get_model
from stepscore.models.media import media_decoder
from stepscore.training.sync_runner import run_sync
from stepscore.training.vlm.data.answer_key import EpisodeTruth, frame_times, hop_between
from stepscore.types import Estimate, FloatArray, Judgement

POINTS, GVL_FRAMES, PAIRS = 8, 8, 6
"""Points of procvlm and hop, frames of gvl, and pairs of frames for hop's sign, of each episode."""
SPANS = ((0.03, 0.1), (0.1, 0.3), (0.3, 1.01))
"""Ranges of the difference in progress between two frames of a pair."""
LATE_S, PACE = 5.0, 2.0
"""Seconds by which timestamps are shifted, and the factor by which they are stretched."""
Row = dict[str, Any]


def with_times(change: Callable[[float], str]) -> ChangeRequest:
    """Return a change of the timestamps beside a question's images, as judges write them."""

    def changed(request: Generate) -> Generate:
        (turn,) = request.prompt.turns
        parts = tuple(
            STATED_TIME.sub(lambda match: change(float(match[1])), part) if isinstance(part, str) else part
            for part in turn.parts
        )
        return replace(request, prompt=replace(request.prompt, turns=(replace(turn, parts=parts),)))

    return changed


CHANGES: Mapping[str, ChangeRequest] = {
    "doubled": with_times(lambda s: f", {PACE * s:.2f} s"),
    "shifted": with_times(lambda s: f", {LATE_S + s:.2f} s"),
    "absent": with_times(lambda s: ""),
}


def episode_row(episode: Episode, model: Model, seed: int, *, variants: bool) -> Row:
    """Return what the judges state of an episode, and what is true.

    Args:
        episode: The episode, with labels and subgoals.
        model: The model that answers.
        seed: Random seed of hop's pairs.
        variants: Also with other timestamps, and frozen at its first frame.
    """
    truth = EpisodeTruth(episode)
    row: Row = {
        "id": episode.id,
        "policy": episode.policy,
        "task": str(episode.task),
        "pair": episode.pair,
        "success": bool(episode.labels.success),
    }
    procvlm = ProcVlm(model, points=POINTS)
    judgement, row["first_step"] = _steps(procvlm, episode, model, truth)
    row["procvlm"] = _curve(judgement, truth)
    for name, judged in (("hop", Hop(model, points=POINTS)), ("gvl", Gvl(model, frames=GVL_FRAMES))):
        row[name] = _curve(run_judge(judged, episode, model).judgement, truth)
    row["pairs"] = _pairs(Hop(model), episode, model, truth, seed)
    if variants:
        changed = {
            name: run_judge(procvlm, episode, model, change=change).judgement
            for name, change in CHANGES.items()
        }
        row["changed"] = {name: _curve(judgement, truth)["stated"] for name, judgement in changed.items()}
        still = freeze(episode)
        asked: dict[str, Judge] = {"procvlm": procvlm, "gvl": Gvl(model, frames=GVL_FRAMES)}
        for name, judge in asked.items():
            row[f"{name}_frozen"] = _curve(run_judge(judge, still, model).judgement, truth)["stated"]
    return row


def _curve(judgement: Judgement | None, truth: EpisodeTruth) -> dict[str, list[float | None]]:
    """Return the points of a curve, labelled progress at each, and a clock's: the share of the time passed."""
    if judgement is None or judgement.curve is None:
        return {"stated": [], "true": [], "clock": []}
    times = judgement.curve.times
    return {
        "stated": _known(judgement.curve.progress),
        "true": _known(truth.progress_at(times)),
        "clock": _known(times / max(float(truth.times[-1]), 1e-9)),
    }


def _known(values: FloatArray) -> list[float | None]:
    return [None if math.isnan(value) else float(value) for value in values]


def _asker(
    episode: Episode,
    model: Model,
    on_answer: Callable[[Request, Response], None] = lambda request, answer: None,
) -> Ask:
    """Return the function by which a judge asks the model about an episode."""
    answers = model

    async def ask(request: Request, model: Model | None = None) -> Any:
        answer = await (model or answers).answer(request.resolved(media_decoder(episode)))
        on_answer(request, answer)
        return answer

    return ask


def _steps(
    judge: ProcVlm, episode: Episode, model: Model, truth: EpisodeTruth
) -> tuple[Judgement, list[bool]]:
    """Return the judgement, and at each point whether the first remaining step named is the right one.

    That none is left counts as a step.
    """
    right: list[bool] = []

    def compare(request: Request, answer: Response) -> None:
        assert isinstance(request, Generate)
        assert isinstance(answer, Answer)
        left = truth.remaining(frame_times(request.prompt, truth)[-1])
        named = parse_remaining_actions(answer.text)
        wanted = normalize_text(left[0]) if left else ""
        right.append(named is not None and (normalize_text(named[0]) if named else "") == wanted)

    return run_sync(judge.judge(episode, _asker(episode, model, compare))), right


def _pairs(
    judge: Hop, episode: Episode, model: Model, truth: EpisodeTruth, seed: int
) -> list[tuple[float, float, float | None]]:
    """Return for pairs of frames, each as likely, span, true hop and stated hop, in both orders."""
    rng, times = np.random.default_rng(seed), truth.times
    if len(times) < 3:
        return []
    found = []
    progress = truth.progress_at(times)
    for _ in range(PAIRS):
        one, other = sorted(rng.choice(np.arange(1, len(times)), 2, replace=False).tolist())
        sampled = sample_frames(episode, indices=[0, one, other])
        stated = run_sync(judge.compare(episode, sampled, [(1, 2), (2, 1)], _asker(episode, model)))
        for (before, after), hop in zip(((one, other), (other, one)), stated.tolist(), strict=True):
            span = float(progress[after] - progress[before])
            true = hop_between(float(progress[before]), float(progress[after]))
            found.append((span, true, None if math.isnan(hop) else hop))
    return found


def figures(rows: Sequence[Row]) -> list[tuple[str, Estimate]]:
    """Return every figure with its name."""
    made: list[tuple[str, Estimate]] = []
    success = np.array([row["success"] for row in rows], dtype=float)
    for judge in ("procvlm", "hop", "gvl"):
        errors = [_error(row[judge], "stated") for row in rows]
        made += _means(f"{judge}: MAE", rows, errors)
        made += _means(f"{judge}: MAE, successes", rows, errors, lambda row: row["success"])
        made += _means(f"{judge}: MAE, failures", rows, errors, lambda row: not row["success"])
        made += _means(f"{judge}: MAE, undo and retreat", rows, errors, _is_undone)
        known = np.array([np.mean([v is not None for v in row[judge]["stated"] or [None]]) for row in rows])
        made += [(f"{judge}: values known", mean_estimate(known, **_groups(rows)))]
        ends = np.array([_last(row[judge]["stated"]) for row in rows])
        made += [(f"{judge}: AUC", statistic_estimate(roc_auc, (ends, success), **_groups(rows)))]
    clock = [_error(row["procvlm"], "clock") for row in rows]
    made += _means("clock: MAE", rows, clock)
    made += _means("clock: MAE, undo and retreat", rows, clock, _is_undone)
    made += _means("procvlm: first remaining step", rows, [_mean(row["first_step"]) for row in rows])
    made += _means(
        "gvl: VOC, successes", rows, [_voc(row["gvl"]) for row in rows], lambda row: row["success"]
    )
    for low, high in SPANS:
        signs = [_signs(row["pairs"], low, high) for row in rows]
        made += _means(f"hop: sign, {low:g} to {min(high, 1):g}", rows, signs)
    varied = [row for row in rows if "changed" in row]
    for name in CHANGES:
        moved = [_moved(row["procvlm"]["stated"], row["changed"][name]) for row in varied]
        made += _means(f"procvlm: change with timestamps {name}", varied, moved)
    for judge in ("procvlm", "gvl"):
        spread = [_spread(row[f"{judge}_frozen"]) for row in varied]
        made += _means(f"{judge}: spread on a frozen video", varied, spread)
    return made


def _is_undone(row: Row) -> bool:
    return str(row["policy"]) in ("undo", "retreat")


def _groups(rows: Sequence[Row]) -> dict[str, Any]:
    return {"clusters": [row["pair"] for row in rows], "strata": [row["task"] for row in rows]}


def _means(
    name: str, rows: Sequence[Row], values: Sequence[float], keep: Callable[[Row], bool] = lambda row: True
) -> list[tuple[str, Estimate]]:
    chosen = [(row, value) for row, value in zip(rows, values, strict=True) if keep(row)]
    if not chosen:
        return []
    kept = [row for row, _ in chosen]
    estimate = rate_estimate if {value for _, value in chosen} <= {0.0, 1.0} else mean_estimate
    return [(name, estimate(np.array([value for _, value in chosen]), **_groups(kept)))]


def _error(curve: Mapping[str, Sequence[float | None]], of: str) -> float:
    pairs = [(a, b) for a, b in zip(curve[of], curve["true"], strict=True) if a is not None and b is not None]
    return _mean([abs(a - b) for a, b in pairs])


def _voc(curve: Mapping[str, Sequence[float | None]]) -> float:
    known = [value for value in curve["stated"] if value is not None]
    return voc(known) if len(known) > 2 else math.nan


def _signs(pairs: Sequence[tuple[float, float, float | None]], low: float, high: float) -> float:
    """Return the share of pairs whose stated sign is right; an unknown one is wrong."""
    spans = [(span, stated) for span, _, stated in pairs if low <= abs(span) < high]
    return _mean([stated is not None and stated * span > 0 for span, stated in spans])


def _moved(stated: Sequence[float | None], changed: Sequence[float | None]) -> float:
    both = zip(stated, changed, strict=False)
    return _mean([abs(a - b) for a, b in both if a is not None and b is not None])


def _spread(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return max(known) - min(known) if known else math.nan


def _last(values: Sequence[float | None]) -> float:
    return math.nan if not values or values[-1] is None else float(values[-1])


def _mean(values: Sequence[float] | Sequence[bool]) -> float:
    return float(np.mean(values)) if len(values) else math.nan


def chosen_episodes(dataset: Path, most: int) -> list[Episode]:
    """Return the first episodes of a dataset of each task, with policies and tasks taking turns."""
    parts = sorted(dataset.glob("round-*/part-*")) or [dataset]
    episodes = [replace(e, views={"close": e.views["close"]}) for part in parts for e in read_any(part)]
    turns: dict[tuple[str, str], int] = {}
    ranked: list[tuple[int, int, Episode]] = []
    for episode in episodes:
        key = (str(episode.task), str(episode.policy))
        turns[key] = turns.get(key, 0) + 1
        ranked.append((turns[key], len(ranked), episode))
    return [episode for _, _, episode in sorted(ranked, key=lambda one: one[:2])[:most]]


def main() -> None:
    """Judge what is not in the file yet, and print the figures; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("-o", dest="out", type=Path, required=True, help="a line of JSON for each episode")
    parser.add_argument("--checkpoint", help="a folder of weights; by default those of the package")
    parser.add_argument("--episodes", type=int, default=325)
    parser.add_argument("--variants", type=int, default=65)
    given = parser.parse_args()
    options: dict[str, Any] = {} if given.checkpoint is None else {"checkpoint": given.checkpoint}
    model = get_model("embedded", gate=False, **options)
    episodes = chosen_episodes(given.dataset, given.episodes)
    text = given.out.read_text(encoding="utf-8") if given.out.is_file() else ""
    rows = [json.loads(line) for line in text.splitlines()]
    done = {row["id"] for row in rows}
    every = max(1, len(episodes) // max(1, given.variants))
    judge = partial(episode_row, model=model)
    with given.out.open("a", encoding="utf-8") as file:
        for number, episode in enumerate(episodes):
            if episode.id not in done:
                row = judge(episode, seed=number, variants=number % every == 0 and bool(given.variants))
                rows.append(row)
                file.write(json.dumps(row) + "\n")
                file.flush()
    print(f"{len(rows)} episodes\n\n| figure | value | n |\n|---|---|---|")
    for name, e in figures(rows):
        print(f"| {name} | {e.value:.3f} [{e.lo:.3f}, {e.hi:.3f}] | {e.n} |")


if __name__ == "__main__":
    main()
