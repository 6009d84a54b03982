"""Every figure of the embedded judge's card, on a test set made for it and scored once.

    python benchmarks/embedded_judge.py embedded --seed 50001 --out RESULTS --calibration-set DATASET
    python benchmarks/embedded_judge.py hf/CHECKPOINT --seed 50001 --out RESULTS --calibration-set DATASET

RESULTS then holds the test set (a dataset for each chunk), scores.jsonl, calibration.json, figures.json and
figures.md. What is there is not made again: a stopped evaluation goes on where it was. A new checkpoint needs
a new RESULTS folder and, for a final figure, a seed that no evaluation has used. Needs the extras sim and local.
A small version of it, in about a minute once the model is there:

    ... --tasks drawer-open,push --held-out dial-turn --per-task 13 --scenes 1 --forms 2
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from embedded.calibrated import calibration_map
from embedded.evaluate import (
    Evaluation,
    TestEpisodes,
    about,
    judge_of,
    make_episodes,
    score_figures,
    score_once,
)
from embedded.figures import Figure, markdown, write_json
from embedded.forms import form_figures
from embedded.limits import limit_figures
from embedded.rows import Scored
from embedded.testset import Wanted
from embedded.timing import timing_figures

from stepscore.training.embedded_tasks import FIRST_TEST_SEED, FPS, HELD_OUT, MAX_PIXELS, TRAINED

REAL = Path(__file__).resolve().parents[2] / "shared" / "data"
"""Real rollouts, where they lie beside the repository; without them that part of the gate's figure is left out."""


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add = parser.add_argument
    add("model", help="embedded, or hf/FOLDER of a checkpoint")
    add("--out", type=Path, required=True, help="folder of the test set, the scores and the figures")
    add("--seed", type=int, default=FIRST_TEST_SEED, help="block of seeds of the test set")
    add(
        "--calibration-set",
        type=Path,
        action="append",
        default=[],
        help="dataset to fit progress on; may repeat",
    )
    add("--tasks", default=",".join(TRAINED), help="trained tasks to test")
    add("--held-out", default=",".join(HELD_OUT), help="held-out tasks to test; empty for none")
    add("--pairs", type=int, default=50, help="matched pairs of a task that are enough")
    add("--per-task", type=int, default=234, help="episodes of a task at most")
    add("--scenes", type=int, default=3, help="scenes of a chunk")
    add("--fps", type=int, default=FPS, help="frames a second of the test set")
    add("--workers", type=int, default=2, help="processes that simulate")
    add("--forms", type=int, default=120, help="episodes for the generative forms; 0 for none")
    add("--real", type=Path, default=REAL, help="folder with rollouts/ and multiview/ of real robots")
    add("--max-pixels", type=int, default=MAX_PIXELS, help="most pixels of a frame, for hf/ models")
    add("--only-data", action="store_true", help="make the test set and stop")
    return parser.parse_args()


def other_figures(
    evaluation: Evaluation, found: TestEpisodes, forms: int, real: Path
) -> Iterator[tuple[str, list[Figure]]]:
    """Figures that ask the model anew, part by part: the time it takes, the gate, the forms."""
    every = (*found.trained, *found.held_out)
    yield "time", timing_figures(evaluation.model, evaluation.max_pixels, every, evaluation.out / "test")
    model = evaluation.judge_model(batch=1)
    judge, gated = judge_of(model), evaluation.gated_model()
    if gated is not None:
        folder = real if real.is_dir() else None
        yield "limits", limit_figures(gated, judge, found.held_out, found.trained, folder)
    if forms:
        yield "forms", form_figures(found.trained, forms, model, judge)


def evaluate(evaluation: Evaluation, found: TestEpisodes, given: argparse.Namespace) -> list[Figure]:
    """All figures; the files are written after every part, so that a stopped evaluation leaves what it has."""
    seconds: dict[str, float] = {}
    figures: list[Figure] = []
    began = time.process_time()

    def keep(part: str, more: list[Figure]) -> None:
        nonlocal began
        figures.extend(more)
        seconds[part] = round(time.process_time() - began, 1)
        began = time.process_time()
        told = {**about(evaluation, found, rows), "cpu_seconds": seconds}
        write_json(evaluation.out / "figures.json", figures, told)
        (evaluation.out / "figures.md").write_text(markdown(figures), encoding="utf-8")
        print(f"{part}: {seconds[part]} CPU s", file=sys.stderr, flush=True)

    judge = judge_of(evaluation.judge_model(batch=1))
    rows: list[Scored] = []
    fitted = calibration_map(judge, given.calibration_set, evaluation.out / "calibration.json")
    keep("calibration", [])
    rows = score_once(evaluation, found)
    keep("scoring", [])
    keep("figures", score_figures(rows, found, fitted))
    for part, more in other_figures(evaluation, found, given.forms, given.real):
        keep(part, more)
    return figures


def main() -> None:
    given = parsed()
    wanted = Wanted(given.seed, given.pairs, given.per_task, given.scenes, given.fps, given.workers)
    evaluation = Evaluation(
        given.model,
        given.out,
        wanted,
        tuple(given.tasks.split(",")),
        tuple(task for task in given.held_out.split(",") if task),
        min(given.per_task, Evaluation.held_out_episodes),
        max_pixels=given.max_pixels,
    )
    given.out.mkdir(parents=True, exist_ok=True)
    found = make_episodes(evaluation)
    if not given.only_data:
        print(markdown(evaluate(evaluation, found, given)))


if __name__ == "__main__":
    main()
