"""Sound inputs, on which the same commands end with 0: else what the damaged ones show would mean nothing."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

from tests.hostile.case import Case
from tests.hostile.good_inputs import SERVED, SOURCES, copy_good, judge_command
from tests.hostile.good_runs import RUNS
from tests.hostile.kinds.checkpoints import checkpoint_command
from tests.hostile.kinds.run_folders import reading_commands

HDF5 = ("hdf5", "act")


def make_core(rng: Random, here: Path, good: Path) -> Case:
    """Judge a source, with a server or without, or read and continue a run."""
    if rng.random() < 0.4:
        name = rng.choice(tuple(RUNS))
        shutil.copytree(good / "made" / "runs" / name, here / "run")
        commands = [line for line in reading_commands(rng, here, good, name) if _is_sound(line, name)]
        return Case(f"sound run {name}", rng.sample(commands, 2), f"made/runs/{name}", codes=[0])
    if rng.random() < 0.4:
        judge = f"{rng.choice(tuple(SERVED))}@{rng.choice(('openai-api', 'vllm'))}"
        copy_good(good, "videos", here)
        line = judge_command(here / "source", judge, here / "run")
        return Case(f"sound server, {judge}", [line], f"videos.{judge}", codes=[0], lies={})
    return _source_case(rng, here, good, [name for name in SOURCES if name not in HDF5])


def _is_sound(line: list[str], run: str) -> bool:
    """Return whether a command can work on a run: some need a curve, another run of the same judge, or a measure."""
    if line[0] == "compare":
        return False
    return run in ("linear", "topreward") or line[0] in ("metrics", "report", "judge")


def make_extras(rng: Random, here: Path, good: Path) -> Case:
    """Judge an HDF5 source, or plot."""
    if rng.random() < 0.5:
        return _source_case(rng, here, good, list(HDF5))
    run, kind = (
        str(good / "made" / "runs" / "linear"),
        rng.choice(("leaderboard", "curves", "sheet", "overlay")),
    )
    line = ["plot", run, "-o", str(here / "plots"), "--kind", kind, "--format", "svg", "--episode", "a"]
    if kind == "curves":  # by policy a clock's curves are refused
        line += ["--by", "judge"]
    return Case(f"sound plot of {kind}", [line], codes=[0])


def make_torch(rng: Random, here: Path, good: Path) -> Case:
    """Judge with a sound checkpoint."""
    kind = rng.choice(("hf", "sarm", "embedded", "robometer"))
    folder = good / "made" / "checkpoints" / kind
    return Case(f"sound checkpoint {kind}", [checkpoint_command(kind, folder, here, good)], codes=[0])


def _source_case(rng: Random, here: Path, good: Path, names: list[str]) -> Case:
    name = rng.choice(names)
    source = SOURCES[name]
    judge = rng.choice(source.judges)
    copy_good(good, name, here)
    place = here / "source" / source.path
    commands = [judge_command(place, judge, here / "run"), ["inspect", str(place)]]
    return Case(f"sound {name}, {judge}", commands, f"{name}.{judge}", codes=[0])
