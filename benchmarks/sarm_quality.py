"""SARM on simulated episodes it was not trained on: every figure of ``docs/judges/sarm.md``, from seeds.

    python -m benchmarks.sarm_quality --out RESULTS
    python -m benchmarks.sarm_quality --out RESULTS --encoder hf/FOLDER --judge hf/FOLDER

RESULTS then holds the datasets (``sets``), a checkpoint of every configuration (``arms``), encoded frames
(``encoded``), the embedded judge's judgements (``said-*.jsonl``), figures.json and figures.md. A part that is there
is not run again: a stopped evaluation resumes. Another encoder needs another RESULTS; ``--sets`` lets both share the
datasets. ``--tiny`` is all of it on two tasks and a few episodes; its numbers mean nothing.
Needs the extras sim and local.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import sys
import time
from functools import partial
from pathlib import Path

import torch

from benchmarks.embedded.measures.judges import chosen_episodes
from benchmarks.sarm import table_sections as sections
from benchmarks.sarm.configs import SARM, Training, configurations
from benchmarks.sarm.judgements import TrainedModel
from benchmarks.sarm.splits import SplitSizes, elsewhere_episodes, find_scenes, test_episodes, training_sets
from benchmarks.sarm.tables import Cell, write
from benchmarks.sarm.videos import encode_video, match_videos
from benchmarks.sarm.zero_shot import TOPREWARD, ZeroShot, text_judge_predictions
from stepscore.models.embedded.model import CALIBRATION, FOLDER, EmbeddedModel
from stepscore.models.hf.files import weights_digest
from stepscore.training.sarm import SarmTrainConfig

TINY = SplitSizes(("push", "soccer"), (2, 4), 4, 2)


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add = parser.add_argument
    add("--out", type=Path, required=True, help="folder of checkpoints, judgements and figures")
    add("--sets", type=Path, help="folder of the datasets; default: in --out")
    add("--features-dir", type=Path, help="folder of encoded frames; default: in --out")
    add("--encoder", default="embedded", help="SARM's frozen encoder: embedded, hf/PATH-OR-ID")
    add("--judge", default="embedded", help="the embedded judge to compare with: embedded, hf/FOLDER")
    add("--calibration", type=Path, help="its calibration map; default: calibration.json beside its weights")
    add("--steps", type=int, default=600, help="optimizer steps of every training run")
    add("--batch-size", type=int, default=16, help="windows in a step")
    add("--lr", type=float, default=6e-4, help="peak learning rate")
    add("--words", type=int, default=20, help="episodes for the embedded judge's answers in words")
    add("--workers", type=int, default=1, help="simulator processes")
    add("--threads", type=int, default=1, help="CPU threads")
    add("--tiny", action="store_true", help="two tasks, a few episodes and steps")
    add("--only-data", action="store_true", help="render the datasets and stop")
    return parser.parse_args()


class Results:
    """The cells so far; both files are written after every part."""

    def __init__(self, out: Path, about: dict[str, object]) -> None:
        self._out, self._about = out, about
        self._cells: list[Cell] = []
        self._seconds: dict[str, float] = {}
        self._started = time.process_time()

    def add(self, part: str, cells: list[Cell]) -> str:
        """Add the cells of a part, and return the text of all tables so far."""
        self._cells += cells
        self._seconds[part] = round(time.process_time() - self._started, 1)
        self._started = time.process_time()
        print(f"{part}: {self._seconds[part]} CPU s", file=sys.stderr, flush=True)
        return write(self._out, self._cells, sections.NOTES, {**self._about, "cpu_seconds": self._seconds})


def make_test(training: Training, sets: Path, sizes: SplitSizes) -> sections.TestSet:
    """Encode the test split."""
    episodes, frame_encoder = test_episodes(sets, sizes), training.frame_encoder
    videos = tuple(encode_video(episode, frame_encoder, training.features_dir) for episode in episodes)
    return sections.TestSet(
        tuple(episodes), videos, tuple(match_videos(episodes)), frame_encoder, training.features_dir
    )


def judge_of(args: argparse.Namespace) -> ZeroShot:
    """Return the embedded judge to compare with."""
    folder, judgements = judge_folder(args), args.out / f"said-{judge_digest(args)}.jsonl"
    return ZeroShot(EmbeddedModel(checkpoint=str(folder), gate=False), judgements)


def judge_folder(args: argparse.Namespace) -> Path:
    """Return the folder of the embedded judge's files."""
    return FOLDER if args.judge == "embedded" else Path(args.judge.removeprefix("hf/"))


def judge_digest(args: argparse.Namespace) -> str:
    """Return a digest of the judge's weights and of its calibration map, through which its answers went."""
    folder = judge_folder(args)
    fitted = (args.calibration or folder / CALIBRATION.name).read_bytes()
    return f"{weights_digest(folder)[:8]}-{hashlib.sha256(fitted).hexdigest()[:8]}"


def evaluate(args: argparse.Namespace, sizes: SplitSizes, sets: Path) -> str:
    """Train, judge and return all tables as text."""
    train_config = SarmTrainConfig(steps=args.steps, batch_size=args.batch_size, lr=args.lr)
    features_dir = args.features_dir or args.out / "encoded"
    training = Training(args.out, args.encoder, features_dir, train_config, args.threads)
    demonstrations = training_sets(sets, sizes)
    about: dict[str, object] = {
        "encoder": dict(training.frame_encoder.describe()),
        "judge": {"name": args.judge, "digest": judge_digest(args)},
        "train_config": dataclasses.asdict(train_config),
        "tasks": sizes.tasks,
        "beyond_m": {task: scenes.beyond_m for task, scenes in find_scenes(sets, sizes).items()},
    }
    results = Results(args.out, about)
    test = make_test(training, sets, sizes)
    results.add("test videos", [])
    runs, texts = configurations(sizes.demonstrations), [video.instruction for video in test.videos]
    trained = {
        run.title: TrainedModel.load(training.checkpoint(run, demonstrations), test.encoder, texts)
        for run in runs
    }
    results.add("training", [])
    judges, zero_shot = sections.judges_of(trained), judge_of(args)
    topreward = zero_shot.topreward(args.calibration)
    whole = zero_shot.predict(TOPREWARD, topreward, test.episodes)
    ends = zero_shot.predict(TOPREWARD, topreward, [one.episode for one in test.ends])
    results.add("embedded judge", [])
    results.add("held-out episodes", sections.held_out_cells(test, judges, whole, ends))
    others = [encode_video(e, test.encoder, test.features_dir) for e in elsewhere_episodes(sets, sizes)]
    results.add("changes", sections.change_cells(test, judges, others))
    fewer = {run.demonstrations: judges[run.title] for run in runs if run.folder.startswith("sarm-")}
    by_count = {**fewer, sizes.demonstrations[-1]: judges[SARM]}
    results.add("demonstrations", sections.demonstration_cells(test, by_count))
    results.add("decoding", sections.decode_cells(test, trained))
    words = text_judge_predictions(zero_shot, test.episodes, partial(chosen_episodes, count=args.words))
    return results.add("answers in words", sections.word_cells(test, judges, {TOPREWARD: whole, **words}))


def main() -> None:
    args = parse_args()
    torch.set_num_threads(args.threads)
    sizes = TINY if args.tiny else SplitSizes(workers=args.workers)
    if args.tiny:
        args.steps, args.words = min(args.steps, 30), min(args.words, 2)
    sets = args.sets or args.out
    args.out.mkdir(parents=True, exist_ok=True)
    if args.only_data:
        training_sets(sets, sizes)
        test_episodes(sets, sizes)
        elsewhere_episodes(sets, sizes)
    else:
        print(evaluate(args, sizes, sets))


if __name__ == "__main__":
    main()
