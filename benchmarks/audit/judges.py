"""Judges audited on simulated scenes that nothing was trained on: every figure of ``docs/measurements/audit.md``.

    python -m benchmarks.audit.judges WORK [--only topreward,sarm]

WORK gets a dataset of `stepscore sim` (``sim``, seed 60019: twelve tasks that the embedded judge knows, four
policies, five scenes of each task), another one to train SARM on (``train``, seed 60020: six other scenes), SARM's
checkpoint (``sarm``) and a folder for every audit (``audits``). What is there is not made again, and a stopped audit
goes on. Judges that answer in words take longer, so they are audited on the expert's episodes in two scenes of each
task, and by fewer probes. Needs the extras sim and local.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.similarity import TASKS
from stepscore.audit import PROBES, Audit, AuditOptions, ProbeResult, audit
from stepscore.episodes import Episode, Episodes, open_episodes
from stepscore.judges import get_judge
from stepscore.models import get_model
from stepscore.runs import CallOptions

SEED, TRAINING_SEED = 60019, 60020
SCENES, TRAINING_SCENES = 5, 6
POLICIES = ("expert", "noisy:0.5", "wrong-target", "undo")
COUNTERFACTUALS: Mapping[str, tuple[str, ...]] = {
    "pick up the ring by its handle and put it on the peg": ("take the ring off the peg",),
    "put the lid on the box": ("take the lid off the box",),
    "press the button on the front of the box": ("press the button on the top of the box",),
    "push the mug under the coffee machine": ("pull the mug away from the coffee machine to the mark",),
    "open the door": ("close the door",),
    "open the drawer": ("close the drawer",),
    "turn the faucet handle to the right": ("turn the faucet handle to the left",),
    "hammer the nail into the block": ("pull the nail out of the block",),
    "pull the lever up": ("push the lever down",),
    "insert the peg into the hole in the side of the box": ("pull the peg out of the hole",),
    "put the block on the shelf": ("take the block off the shelf",),
    "open the window": ("close the window",),
}
"""Another goal for the same objects, by instruction."""
INSTRUCTIONS = ("twice", "other-task", "opposite", "counterfactual", "negated", "paraphrase")
FEWER = (
    *("beyond-length", "frozen-first", "frozen-last", "still-success", "round-trip", "undone", "reversed"),
    *("shuffled", "repeated", "paused", *INSTRUCTIONS, "noisy", "darker"),
)
"""Probes of judges that answer in words."""


@dataclass(frozen=True)
class Audited:
    """A judge to audit.

    Attributes:
        judge: Its name.
        options: Its options.
        model: Its model; ``None`` for none. ``sarm`` stands for the checkpoint in WORK.
        model_options: Options of the model.
        probes: Probes; ``None`` for all.
        full: Whether every probe takes every episode.
        small: Whether it takes the expert's episodes in two scenes of each task alone.
        goal: Goal images, as ``open_episodes`` takes them.
        trivial: Whether the trivial judges stand beside it.
    """

    judge: str
    options: Mapping[str, Any]
    model: str | None = "embedded"
    model_options: Mapping[str, Any] | None = None
    probes: tuple[str, ...] | None = None
    full: bool = False
    small: bool = False
    goal: str | None = None
    trivial: bool = False


UNGATED = {"gate": False}
AUDITS: Mapping[str, Audited] = {
    "topreward": Audited("topreward", {}, trivial=True),
    "topreward, gate off": Audited(
        "topreward",
        {},
        model_options=UNGATED,
        probes=(*INSTRUCTIONS, "blank", "blank-success"),
        full=True,
    ),
    "sarm": Audited("sarm", {}, model="sarm"),
    "similarity": Audited("similarity", {"form": "projection", "clip": True}, goal="last-success"),
    "hop": Audited(
        "hop", {"points": 4}, model_options=UNGATED, probes=FEWER, full=True, small=True, goal="last-success"
    ),
    "procvlm": Audited("procvlm", {"points": 4}, model_options=UNGATED, probes=FEWER, full=True, small=True),
}


def make_dataset(folder: Path, seed: int, scenes: int) -> None:
    """Simulate and render a dataset, where it is not there yet."""
    if (folder / "labels.parquet").is_file():
        return
    options = {
        "--tasks": ",".join(TASKS),
        "--policies": ",".join(POLICIES),
        "--episodes-per-task": str(scenes * len(POLICIES)),
        "--fps": "10",
        "--seed": str(seed),
    }
    flags = [part for option in options.items() for part in option]
    subprocess.run([sys.executable, "-m", "stepscore", "sim", "-o", str(folder), *flags], check=True)


def train_sarm(work: Path) -> None:
    """Train SARM on other scenes of the same tasks, where it is not trained yet."""
    make_dataset(work / "train", TRAINING_SEED, TRAINING_SCENES)
    flags = [
        "-T",
        "causal=true",
        "-T",
        "steps=600",
        "-T",
        "batch-size=16",
        "-T",
        "lr=6e-4",
        "-o",
        str(work / "sarm"),
    ]
    subprocess.run(
        [sys.executable, "-m", "stepscore", "train", "sarm", str(work / "train"), *flags], check=True
    )


def chosen_episodes(work: Path, one: Audited) -> Episodes | list[Episode]:
    """Return the episodes that a judge is audited on."""
    root = work / "sim"
    episodes = open_episodes(
        root, labels=root / "labels.parquet", subgoals=root / "subgoals.yaml", goal=one.goal
    )
    if not one.small:
        return episodes
    return [e for e in episodes if e.policy == "expert" and str(e.pair).endswith(("-0000", "-0001"))]


def made(work: Path, name: str, one: Audited) -> Audit:
    """Audit a judge, or go on with its audit."""
    if one.model == "sarm":
        train_sarm(work)
    options = dict(one.options)
    if one.model is not None:
        model = f"sarm/{work / 'sarm'}" if one.model == "sarm" else one.model
        options["model"] = get_model(model, **(one.model_options or {}))
    folder = work / "audits" / name.replace(", ", "-").replace(" ", "-")
    found = audit(
        chosen_episodes(work, one),
        get_judge(one.judge, **options),
        folder,
        AuditOptions(
            probes=one.probes,
            full=one.full,
            counterfactuals=COUNTERFACTUALS,
            trivial=one.trivial,
            call_options=CallOptions(cache=False),
        ),
    )
    found.write(folder)
    return found


def cell(result: ProbeResult | None) -> str:
    """Return outcome, effect with its interval, and n; empty where it was not asked for."""
    if result is None:
        return ""
    effect = result.effect
    if not effect.n:
        return "n 0"
    interval = "" if math.isnan(effect.lo) else f" [{effect.lo:.2f}, {effect.hi:.2f}]"
    outcome = f"**{result.outcome}**" if result.outcome == "fail" else result.outcome
    return f"{outcome} {effect.value:.2f}{interval}, {effect.n}".replace("-0.00", "0.00")


def print_table(columns: Mapping[str, Callable[[str], ProbeResult | None]]) -> None:
    """Print every probe that has a known effect beside every judge, as Markdown."""
    print("| probe | good | " + " | ".join(columns) + " |")
    print("|---" * (len(columns) + 2) + "|")
    for name in (*PROBES, "again", "denser"):
        results = [result(name) for result in columns.values()]
        known = [result for result in results if result is not None and result.effect.n]
        if known:
            print(f"| `{name}` | {known[0].bound} | " + " | ".join(map(cell, results)) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", type=Path, help="Folder of the datasets and the audits.")
    parser.add_argument("--only", default=",".join(AUDITS), help="Judges to audit, by their column.")
    given = parser.parse_args()
    make_dataset(given.work / "sim", SEED, SCENES)
    names = [name for name in AUDITS if name in given.only or name.partition(",")[0] in given.only.split(",")]
    columns: dict[str, Callable[[str], ProbeResult | None]] = {}
    trivial: dict[str, Callable[[str], ProbeResult | None]] = {}
    for name in names:
        started = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = made(given.work, name, AUDITS[name])
        columns[name] = found.result
        for judge in dict.fromkeys(result.judge for result in found.trivial):
            trivial[judge] = partial(found.result, judge=judge)
        counts = ", ".join(f"{count} {outcome}" for outcome, count in found.counts().items())
        print(
            f"{name}: {found.episodes} episodes, {counts}; {found.cost:.1f} times the cost of judging once, "
            f"{found.decoded} frames decoded, {time.process_time() - started:.0f} CPU s",
            flush=True,
        )
    print_table(columns | trivial)


if __name__ == "__main__":
    main()
