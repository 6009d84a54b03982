"""Computes every figure of the embedded judge's card, on a test set made for it and scored once.

    python -m benchmarks.embedded_judge hf/A --test-set TEST --out OUT-0 --calibration-set DATASET --parts scores
    python -m benchmarks.embedded_judge hf/B --test-set TEST --out OUT-1 --calibration-set DATASET --parts scores
    python -m benchmarks.embedded_judge embedded --test-set TEST --out OUT --parts time,limits,judges
    python -m benchmarks.embedded.card --column "seed 0" OUT-0 OUT --column "seed 1" OUT-1

The first command makes the test set; the others find it. OUT then holds scores.jsonl, calibration.json,
figures.json and figures.md. What is there is not made again: a stopped evaluation is resumed, and parts can be
made one by one. A new checkpoint needs a new OUT and, for a final figure, a seed that no evaluation has
used. Needs the extras sim and local. A small version of it:

    ... --tasks drawer-open,push --held-out dial-turn --per-task 13 --scenes 1 --judge-episodes 2
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.embedded.calibration_map import calibration_map
from benchmarks.embedded.evaluate import (
    Evaluation,
    TestEpisodes,
    about,
    judge_of,
    make_episodes,
    score_figures,
    score_once,
)
from benchmarks.embedded.figures import Figure, markdown, read_json, write_json
from benchmarks.embedded.measures.judges import judge_figures
from benchmarks.embedded.measures.limits import limit_figures
from benchmarks.embedded.measures.timing import timing_figures
from benchmarks.embedded.testset import Wanted
from stepscore.training.embedded.tasks import FIRST_TEST_SEED, FPS, HELD_OUT, TRAINED

REAL = Path(__file__).resolve().parents[2] / "shared" / "data"
"""Real rollouts, where they lie beside the repository; without them that part of the gate's figure is left out."""
PARTS = ("scores", "time", "limits", "judges")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add = parser.add_argument
    add("model", help="embedded, or hf/FOLDER of a checkpoint")
    add("--out", type=Path, required=True, help="folder of the scores and the figures")
    add("--test-set", type=Path, help="folder of the test set, made where it is not there (OUT/test)")
    add("--seed", type=int, default=FIRST_TEST_SEED, help="block of seeds of the test set")
    add(
        "--calibration-set",
        type=Path,
        action="append",
        default=[],
        help="dataset to fit progress on; may repeat; none for the map in the package",
    )
    add("--parts", default=",".join(PARTS), help=f"parts to compute, of {', '.join(PARTS)}")
    add("--tasks", default=",".join(TRAINED), help="trained tasks to test")
    add("--held-out", default=",".join(HELD_OUT), help="held-out tasks to test; empty for none")
    add("--pairs", type=int, default=Wanted.pairs, help="matched pairs of a task that are enough")
    add("--per-task", type=int, default=Wanted.per_task, help="episodes of a task at most")
    add("--scenes", type=int, default=Wanted.scenes, help="scenes of a trained task that every policy meets")
    add("--held-out-scenes", type=int, default=Evaluation.held_out_scenes, help="those of a held-out task")
    add("--changed-pairs", type=int, default=Evaluation.changed_pairs, help="pairs under changed images")
    add("--controls", type=int, default=Evaluation.controls, help="successes frozen and reversed")
    add("--fps", type=int, default=FPS, help="frames a second of the test set")
    add("--workers", type=int, default=Wanted.workers, help="processes that simulate and that score")
    add("--judge-episodes", type=int, default=36, help="episodes for the other judges")
    add("--real", type=Path, default=REAL, help="folder with rollouts/ and multiview/ of real robots")
    add("--max-pixels", type=int, help="most pixels of a frame, for hf/ (those it was trained at)")
    add("--only-data", action="store_true", help="make the test set and stop")
    given = parser.parse_args()
    if unknown := set(given.parts.split(",")) - set(PARTS):
        parser.error(f"--parts: {', '.join(sorted(unknown))}; they are {', '.join(PARTS)}")
    return given


def parts_of(
    evaluation: Evaluation, found: TestEpisodes, given: argparse.Namespace
) -> Iterator[tuple[str, list[Figure]]]:
    """The figures, part by part; the last three run the model."""
    parts = given.parts.split(",")
    judge = judge_of(evaluation.judge_model(batch=1))
    if "scores" in parts:
        fitted = calibration_map(judge, given.calibration_set, evaluation.out / "calibration.json")
        yield "calibration", []
        rows = score_once(evaluation, found)
        yield "scoring", []
        yield "figures of the scores", score_figures(evaluation, rows, found, fitted)
    if "time" in parts:
        yield "time", timing_figures(evaluation.model, evaluation.max_pixels)
    if "limits" in parts:
        gated, real = evaluation.gated_model(), given.real if given.real.is_dir() else None
        if gated is None:
            sys.exit(
                f"{evaluation.checkpoint} has no gate, so it has no limits to measure: leave that part out."
            )
        yield "limits", limit_figures(gated, judge, found.held_out, found.trained, real)
    if "judges" in parts:
        yield "judges", judge_figures(found.trained, given.judge_episodes, judge.model, judge)


def cpu_seconds() -> float:
    """Processor time of this process and of those that it waited for."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def evaluate(evaluation: Evaluation, found: TestEpisodes, given: argparse.Namespace) -> list[Figure]:
    """Compute all figures; the files are written after every part, so that a stopped evaluation keeps them."""
    path = evaluation.out / "figures.json"
    figures, earlier = read_json(path)
    seconds: dict[str, float] = {"test set": 0.0, **earlier.get("cpu_seconds", {})}
    began = cpu_seconds()
    seconds["test set"] = max(round(began, 1), seconds["test set"])  # where it was found, it took nothing
    for part, more in parts_of(evaluation, found, given):
        made = {figure.group for figure in more}
        figures = [figure for figure in figures if figure.group not in made] + more
        seconds[part], began = round(cpu_seconds() - began, 1), cpu_seconds()
        write_json(path, figures, {**about(evaluation, found), "cpu_seconds": seconds})
        (evaluation.out / "figures.md").write_text(markdown(figures), encoding="utf-8")
        print(f"{part}: {seconds[part]} CPU s", file=sys.stderr, flush=True)
    return figures


def main() -> None:
    given = parsed()
    wanted = Wanted(
        given.seed,
        given.pairs,
        given.per_task,
        given.scenes,
        fps=given.fps,
        workers=given.workers,
    )
    evaluation = Evaluation(
        given.model,
        given.out,
        given.test_set or given.out / "test",
        wanted,
        tuple(given.tasks.split(",")),
        tuple(task for task in given.held_out.split(",") if task),
        given.held_out_scenes,
        given.changed_pairs,
        given.controls,
        max_pixels=given.max_pixels,
    )
    given.out.mkdir(parents=True, exist_ok=True)
    found = make_episodes(evaluation)
    print(f"test set: {cpu_seconds():.1f} CPU s", file=sys.stderr, flush=True)
    if not given.only_data:
        print(markdown(evaluate(evaluation, found, given)))


if __name__ == "__main__":
    main()
