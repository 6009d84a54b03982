"""The whole experiment, part by part; a part that is on disk is not run again."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread

from examples.better_policy.configurations import all_configurations, make_weights
from examples.better_policy.costs import COSTS_FILE, Cost, append_cost, measure_cost, summary
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
from examples.better_policy.results import best_forms, compare_configurations, read_outcomes
from examples.better_policy.setting import Setting, claim, stored, write_atomic
from examples.better_policy.tables import as_json, as_markdown, mean_weights
from examples.better_policy.trials import policies_file, run_trials, train_configurations, trials_file
from stepscore.models.sarm.checkpoint import CONFIG_FILE
from stepscore.sim import choose_gl_backend

Log = Callable[[str], None]
Unit = Callable[[], Cost]


def run(work: Path, setting: Setting, *, workers: int = 2, log: Log = print) -> str:
    """Run what is not on disk yet, write ``table.md``, ``table.json`` and the plot, and return the table.

    Args:
        work: Folder of the experiment.
        setting: Tasks, counts, seeds and sizes.
        workers: Processes.
        log: Called with a line for every finished unit and its cost.
    """
    claim(work, setting)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_start) as pool:

        def do(units: Iterable[Unit]) -> None:
            todo = [pool.submit(unit) for unit in units]
            try:
                for done in as_completed(todo):
                    cost = done.result()
                    append_cost(work, cost)
                    log(f"{cost.part} {cost.unit}: {cost.cpu_s:.1f} s CPU, {cost.wall_s:.1f} s")
            finally:
                for left in todo:  # some only after an error, which must not wait for hours of others
                    left.cancel()

        do(_demonstrations(work, setting))
        do(_sarm_training(work, setting))
        do(_judging(work, setting))
        for task in setting.tasks:
            make_weights(work / task, setting)
        do(_training(work, setting))
        do(_trials(work, setting))
    if (work / COSTS_FILE).is_file():
        for line in summary(work):
            log(line)
    return write_results(work, setting)


def write_results(work: Path, setting: Setting) -> str:
    """Write tables and plot from the trials; return the Markdown table."""
    outcomes = read_outcomes(work, setting)
    rows, best = compare_configurations(outcomes), best_forms(outcomes)
    weights = mean_weights(work, setting, outcomes.configs)
    table = as_markdown(rows, best, weights, setting)
    plain = as_json(rows, best, weights, stored(setting))
    write_atomic(work / "table.json", json.dumps(plain, indent=1, allow_nan=False) + "\n")
    write_atomic(work / "table.md", table)
    plot_differences(work, rows, setting.tasks)
    return table


def _start() -> None:
    """Start a worker process: it renders in software, and computes with one thread."""
    import torch

    Thread(target=_end_with_parent, daemon=True).start()
    choose_gl_backend()
    torch.set_num_threads(1)


def _end_with_parent() -> None:
    """End with the parent, so that a worker of a killed experiment does not keep writing files."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _demonstrations(work: Path, setting: Setting) -> Iterable[Unit]:
    if "sarm" in setting.sources and not (work / ANNOTATED).is_dir():
        yield partial(measure_cost, "annotated rollouts", "all", partial(make_annotated, work, setting))
    for task in setting.tasks:
        if not (work / task / FACTS).is_file():
            job = partial(make_demonstrations, work / task, task, setting)
            yield partial(measure_cost, "demonstrations", task, job)


def _sarm_training(work: Path, setting: Setting) -> Iterable[Unit]:
    if "sarm" in setting.sources and not (work / CHECKPOINT / CONFIG_FILE).is_file():
        yield partial(measure_cost, "training sarm", "all", partial(train_sarm, work, setting))


def _judging(work: Path, setting: Setting) -> Iterable[Unit]:
    for source in setting.sources:
        for task in setting.tasks:
            if not judged_file(work / task, source).is_file():
                job = partial(judge_demonstrations, work, task, source)
                yield partial(measure_cost, f"judging by {source}", task, job)


def _training(work: Path, setting: Setting) -> Iterable[Unit]:
    configs = all_configurations(setting.sources)
    for seed in range(setting.seeds):
        for task in setting.tasks:
            if not policies_file(work / task, seed).is_file():
                job = partial(train_configurations, work / task, configs, setting, seed)
                yield partial(measure_cost, "training", f"{task} seed {seed}", job)


def _trials(work: Path, setting: Setting) -> Iterable[Unit]:
    configs = all_configurations(setting.sources)
    for seed in range(setting.seeds):
        for task in setting.tasks:
            if not trials_file(work / task, seed).is_file():
                job = partial(run_trials, work, task, configs, setting, seed)
                rollouts = len(configs) * setting.scenes
                yield partial(measure_cost, "trials", f"{task} seed {seed}", job, rollouts)
