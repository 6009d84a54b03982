"""The whole experiment, part by part; what is on disk already is not made again."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from functools import partial
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread

from examples.better_policy.arms import all_arms, make_weights
from examples.better_policy.costs import COSTS_FILE, Cost, measured, note, summary
from examples.better_policy.demonstrations import FACTS, make_demonstrations
from examples.better_policy.judging import (
    ANNOTATED,
    CHECKPOINT,
    judge_demonstrations,
    judged_file,
    make_annotated,
    train_sarm,
)
from examples.better_policy.plot import plot_differences
from examples.better_policy.results import best_forms, compare_arms, read_outcomes
from examples.better_policy.setting import Setting, claim, write_whole
from examples.better_policy.tables import as_json, as_markdown, mean_weights
from examples.better_policy.trials import policies_file, train_arms, trials_file, try_arms

from stepscore.models.sarm.checkpoint import CONFIG_FILE
from stepscore.sim.world import choose_drawing

Say = Callable[[str], None]
Unit = Callable[[], Cost]


def run(work: Path, setting: Setting, *, workers: int = 2, say: Say = print) -> str:
    """Make what is not there yet, and write ``table.md``, ``table.json`` and the picture; the table.

    Args:
        work: Folder of the experiment.
        setting: What it is.
        workers: Processes.
        say: Told what was done, and what it cost.
    """
    claim(work, setting)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_start) as pool:

        def do(units: Iterable[Unit]) -> None:
            todo = [pool.submit(unit) for unit in units]
            try:
                for done in as_completed(todo):
                    cost = done.result()
                    note(work, cost)
                    say(f"{cost.part} {cost.unit}: {cost.cpu_s:.1f} s CPU, {cost.wall_s:.1f} s")
            finally:
                for left in todo:  # none, but after an error, which is not to wait for hours of others
                    left.cancel()

        do(_films(work, setting))
        do(_sarm(work, setting))
        do(_judged(work, setting))
        for task in setting.tasks:
            make_weights(work / task, setting)
        do(_trained(work, setting))
        do(_tried(work, setting))
    if (work / COSTS_FILE).is_file():
        for line in summary(work):
            say(line)
    return write_results(work, setting)


def write_results(work: Path, setting: Setting) -> str:
    """Write tables and picture from the trials; the table for people."""
    outcomes = read_outcomes(work, setting)
    rows, best = compare_arms(outcomes), best_forms(outcomes)
    weights = mean_weights(work, setting, outcomes.arms)
    table = as_markdown(rows, best, weights, setting)
    plain = as_json(rows, best, weights, asdict(setting))
    write_whole(work / "table.json", json.dumps(plain, indent=1, allow_nan=False) + "\n")
    write_whole(work / "table.md", table)
    plot_differences(work, rows, setting.tasks)
    return table


def _start() -> None:
    """A worker process: draws in software, and computes with one thread."""
    import torch

    Thread(target=_end_with_parent, daemon=True).start()
    choose_drawing()
    torch.set_num_threads(1)


def _end_with_parent() -> None:
    """Lest a worker of a killed experiment goes on writing what the next one makes."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _films(work: Path, setting: Setting) -> Iterable[Unit]:
    if "sarm" in setting.sources and not (work / ANNOTATED).is_dir():
        yield partial(measured, "annotated rollouts", "all", partial(make_annotated, work, setting))
    for task in setting.tasks:
        if not (work / task / FACTS).is_file():
            job = partial(make_demonstrations, work / task, task, setting)
            yield partial(measured, "demonstrations", task, job)


def _sarm(work: Path, setting: Setting) -> Iterable[Unit]:
    if "sarm" in setting.sources and not (work / CHECKPOINT / CONFIG_FILE).is_file():
        yield partial(measured, "teaching sarm", "all", partial(train_sarm, work, setting))


def _judged(work: Path, setting: Setting) -> Iterable[Unit]:
    for source in setting.sources:
        for task in setting.tasks:
            if not judged_file(work / task, source).is_file():
                job = partial(judge_demonstrations, work, task, source)
                yield partial(measured, f"judging by {source}", task, job)


def _trained(work: Path, setting: Setting) -> Iterable[Unit]:
    arms = all_arms(setting.sources)
    for seed in range(setting.seeds):
        for task in setting.tasks:
            if not policies_file(work / task, seed).is_file():
                job = partial(train_arms, work / task, arms, setting, seed)
                yield partial(measured, "training", f"{task} seed {seed}", job)


def _tried(work: Path, setting: Setting) -> Iterable[Unit]:
    arms = all_arms(setting.sources)
    for seed in range(setting.seeds):
        for task in setting.tasks:
            if not trials_file(work / task, seed).is_file():
                job = partial(try_arms, work, task, arms, setting, seed)
                rollouts = len(arms) * setting.scenes
                yield partial(measured, "trials", f"{task} seed {seed}", job, rollouts)
