"""Make a benchmark for `stepscore bench` from simulated truth.

    python -m benchmarks.board.make OUT --seed 70021 --scenes 3

OUT gets a dataset of `stepscore sim` (`sim`: twelve tasks of the embedded judge, six policies, every scene by each),
pairs of timestamps (`pairs.jsonl`, the form of RoboPulse), questions with exact answers (`questions.jsonl`, after
ProcVQA) and `benchmark.json`, which names them. All answers are the simulator's; the same seed makes the same files.

Seed 70021 served for nothing else: the embedded judge was trained on seeds 1001-1007, its maps fitted on 3001, and
tested on 50001-50003; 60018 is that of the audit.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from benchmarks.similarity import POLICIES, TASKS
from stepscore._files import write_json
from stepscore.audit.board import make_questions, write_questions
from stepscore.audit.pairs import make_progress_pairs, write_pairs
from stepscore.episodes import open_episodes

SEED = 70021
SCENES = 3
PER_SPAN = 60
QUESTIONS = 48


def simulate(folder: Path, seed: int, scenes: int) -> None:
    options = {
        "--tasks": ",".join(TASKS),
        "--policies": ",".join(POLICIES),
        "--episodes-per-task": str(scenes * len(POLICIES)),
        "--fps": "10",
        "--seed": str(seed),
    }
    flags = [part for option in options.items() for part in option]
    subprocess.run([sys.executable, "-m", "stepscore", "sim", "-o", str(folder), *flags], check=True)


def add_files(folder: Path, seed: int, description: str, *, per_span: int, questions: int) -> None:
    """Write pairs, questions and benchmark.json beside the dataset `sim` of a folder."""
    sim = folder / "sim"
    episodes = open_episodes(sim, labels=sim / "labels.parquet", subgoals=sim / "subgoals.yaml")
    write_pairs(folder / "pairs.jsonl", make_progress_pairs(episodes, per_span=per_span, seed=seed))
    write_questions(folder / "questions.jsonl", make_questions(episodes, most=questions, seed=seed))
    content = {
        "format": 1,
        "name": f"stepscore-sim-{seed}",
        "description": description,
        "seed": seed,
        "source": "sim",
        "labels": "sim/labels.parquet",
        "subgoals": "sim/subgoals.yaml",
        "pairs": "pairs.jsonl",
        "questions": "questions.jsonl",
        "goal": "last-success",
    }
    write_json(folder / "benchmark.json", content)


def main() -> None:
    parser = argparse.ArgumentParser(description="Make a benchmark from simulated truth.")
    parser.add_argument("out", type=Path, help="folder of the new benchmark")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--scenes", type=int, default=SCENES, help="scenes of each task")
    given = parser.parse_args()
    if not (given.out / "sim").exists():
        simulate(given.out / "sim", given.seed, given.scenes)
    description = (
        f"{len(TASKS)} simulated Meta-World tasks, {given.scenes} scenes of each, {len(POLICIES)} policies; labels, "
        "pairs and answers from the simulator's state. Goal images are last frames of successes in other scenes."
    )
    add_files(given.out, given.seed, description, per_span=PER_SPAN, questions=QUESTIONS)
    print(
        f"Benchmark: {given.out}\nNext: stepscore bench {given.out} --judges topreward --models embedded -o BOARD"
    )


if __name__ == "__main__":
    main()
