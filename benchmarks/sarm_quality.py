"""SARM on simulated episodes it was not trained on: every figure of ``docs/judge-sarm.md``, from seeds.

    python -m benchmarks.sarm_quality --out RESULTS
    python -m benchmarks.sarm_quality --out RESULTS --encoder hf/FOLDER --judge hf/FOLDER

RESULTS then holds the datasets (``sets``), a checkpoint of every arm (``arms``), what the encoder saw
(``encoded``), what the embedded judge said (``said-*.jsonl``), figures.json and figures.md. What is there is not
made again: a stopped evaluation goes on where it was. Another encoder needs another RESULTS; ``--sets`` lets both
share the datasets. ``--tiny`` is the whole of it on two tasks and a few episodes; its numbers mean nothing.
Needs the extras sim and local.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
from functools import partial
from pathlib import Path

import torch
from embedded.forms import chosen_episodes
from sarm import parts
from sarm.arms import SARM, Training, arms_of
from sarm.films import ended, film_of
from sarm.judged import Trained
from sarm.sets import Wanted, elsewhere_episodes, find_scenes, test_episodes, training_sets
from sarm.tables import Cell, write
from sarm.zero_shot import TOPREWARD, ZeroShot, in_words

from stepscore.models.embedded.model import CALIBRATION, FOLDER, EmbeddedModel
from stepscore.models.hf.files import weights_digest

TINY = Wanted(("push", "soccer"), (2, 4), 4, 2)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add = parser.add_argument
    add("--out", type=Path, required=True, help="folder of checkpoints, answers and figures")
    add("--sets", type=Path, help="folder of the datasets; else in --out")
    add("--cache", type=Path, help="folder of encoded frames; else in --out")
    add("--encoder", default="embedded", help="what SARM sees with: embedded, hf/PATH-OR-ID")
    add("--judge", default="embedded", help="the embedded judge to compare with: embedded, hf/FOLDER")
    add("--calibration", type=Path, help="its calibration map; else calibration.json beside its weights")
    add("--steps", type=int, default=600, help="steps of every training run")
    add("--batch", type=int, default=16, help="windows in a step")
    add("--rate", type=float, default=6e-4, help="highest learning rate")
    add("--words", type=int, default=20, help="episodes for the embedded judge's answers in words")
    add("--workers", type=int, default=1, help="processes that simulate")
    add("--threads", type=int, default=1, help="processor threads")
    add("--tiny", action="store_true", help="two tasks, a few episodes and steps")
    add("--only-data", action="store_true", help="make the datasets and stop")
    return parser.parse_args()


class Results:
    """Cells as they come; both files are written after every part."""

    def __init__(self, out: Path, about: dict[str, object]) -> None:
        self._out, self._about = out, about
        self._cells: list[Cell] = []
        self._seconds: dict[str, float] = {}
        self._began = time.process_time()

    def keep(self, part: str, cells: list[Cell]) -> str:
        """Add the cells of a part; the text of all tables so far."""
        self._cells += cells
        self._seconds[part] = round(time.process_time() - self._began, 1)
        self._began = time.process_time()
        print(f"{part}: {self._seconds[part]} CPU s", file=sys.stderr, flush=True)
        return write(self._out, self._cells, parts.NOTES, {**self._about, "cpu_seconds": self._seconds})


def make_test(training: Training, sets: Path, wanted: Wanted) -> parts.Test:
    """The test set as the encoder sees it."""
    episodes, eyes = test_episodes(sets, wanted), training.eyes
    films = tuple(film_of(episode, eyes, training.cache) for episode in episodes)
    return parts.Test(tuple(episodes), films, tuple(ended(episodes)), eyes, training.cache)


def judge_of(given: argparse.Namespace) -> ZeroShot:
    """The embedded judge to compare with."""
    folder, said = judge_folder(given), given.out / f"said-{judge_digest(given)}.jsonl"
    return ZeroShot(EmbeddedModel(checkpoint=str(folder), gate=False, batch=1), said)


def judge_folder(given: argparse.Namespace) -> Path:
    """Where the embedded judge's files are."""
    return FOLDER if given.judge == "embedded" else Path(given.judge.removeprefix("hf/"))


def judge_digest(given: argparse.Namespace) -> str:
    """Which judge it is: its weights and its calibration map, through which its answers went."""
    folder = judge_folder(given)
    fitted = (given.calibration or folder / CALIBRATION.name).read_bytes()
    return f"{weights_digest(folder)[:8]}-{hashlib.sha256(fitted).hexdigest()[:8]}"


def evaluate(given: argparse.Namespace, wanted: Wanted, sets: Path) -> str:
    """All tables, as text."""
    recipe = {"steps": given.steps, "batch": given.batch, "rate": given.rate}
    cache = given.cache or given.out / "encoded"
    training = Training(given.out, given.encoder, cache, recipe, given.threads)
    demonstrations = training_sets(sets, wanted)
    about = {
        "encoder": dict(training.eyes.describe()),
        "judge": {"name": given.judge, "digest": judge_digest(given)},
        "recipe": recipe,
        "tasks": wanted.tasks,
        "beyond_m": {task: scenes.beyond_m for task, scenes in find_scenes(sets, wanted).items()},
    }
    results = Results(given.out, about)
    test = make_test(training, sets, wanted)
    results.keep("test films", [])
    arms, texts = arms_of(wanted.sizes), [film.instruction for film in test.films]
    trained = {
        arm.title: Trained.load(training.checkpoint(arm, demonstrations), test.encoder, texts) for arm in arms
    }
    results.keep("training", [])
    judges, zero_shot = parts.judges_of(trained), judge_of(given)
    topreward = zero_shot.topreward(given.calibration)
    whole = zero_shot.ask(TOPREWARD, topreward, test.episodes)
    ends = zero_shot.ask(TOPREWARD, topreward, [one.episode for one in test.ends])
    results.keep("embedded judge", [])
    results.keep("held-out episodes", parts.held_out_cells(test, judges, whole, ends))
    others = [film_of(e, test.encoder, test.cache) for e in elsewhere_episodes(sets, wanted)]
    results.keep("changes", parts.change_cells(test, judges, others))
    fewer = {arm.demonstrations: judges[arm.title] for arm in arms if arm.folder.startswith("sarm-")}
    counted = {**fewer, wanted.sizes[-1]: judges[SARM]}
    results.keep("demonstrations", parts.demonstration_cells(test, counted))
    results.keep("decoding", parts.decode_cells(test, trained))
    words = in_words(zero_shot, test.episodes, partial(chosen_episodes, count=given.words))
    return results.keep("answers in words", parts.word_cells(test, judges, {TOPREWARD: whole, **words}))


def main() -> None:
    given = parsed()
    torch.set_num_threads(given.threads)
    wanted = TINY if given.tiny else Wanted(workers=given.workers)
    if given.tiny:
        given.steps, given.words = min(given.steps, 30), min(given.words, 2)
    sets = given.sets or given.out
    given.out.mkdir(parents=True, exist_ok=True)
    if given.only_data:
        training_sets(sets, wanted)
        test_episodes(sets, wanted)
        elsewhere_episodes(sets, wanted)
    else:
        print(evaluate(given, wanted, sets))


if __name__ == "__main__":
    main()
