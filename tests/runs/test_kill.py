"""Nothing is lost when the process is killed: the tables end byte-identical to an undisturbed run's."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import stepscore
from stepscore.episodes import Episode
from stepscore.judges import Ask, episode_rng
from stepscore.runs.tables import TABLES
from stepscore.types import Curve, Judgement
from tests.fakes import episode

KILLS = 25
EPISODES = 60


@dataclass(frozen=True)
class Slow:
    """A judge that takes a few milliseconds, another time for each episode."""

    name = "slow"
    version = 1
    models = ()

    def options(self) -> Mapping[str, object]:
        return {}

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        rng = episode_rng(episode, "slow")
        await asyncio.sleep(rng.uniform(0.001, 0.005))
        return Judgement(Curve(np.arange(50.0), np.sort(rng.uniform(size=50))))


def work(folder: str, workers: int) -> None:
    stepscore.score(
        [episode(f"e{i:03d}") for i in range(EPISODES)], Slow(), out=folder, workers=workers, engine="local"
    )


def tables(folder: Path) -> dict[str, bytes]:
    return {name: (folder / f"{name}.parquet").read_bytes() for name in TABLES if name != "usage"}


def finished(folder: Path) -> int:
    journal = folder / "journal.jsonl"
    return journal.read_bytes().count(b"\n") if journal.is_file() else 0


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 4])
def test_killed_at_random_moments_and_restarted_it_ends_the_same(tmp_path: Path, workers: int) -> None:
    work(str(tmp_path / "undisturbed"), workers)
    # A fork server that has the modules loaded: a child then starts in milliseconds.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.runs.test_kill", "pyarrow.parquet"])
    rng = np.random.default_rng(workers)
    folder = tmp_path / "killed"
    # A kill is due at a number of finished episodes and a delay after it, so that a busy machine changes nothing;
    # those past the last episode fall on the writing of the tables.
    kill_points = np.sort(rng.integers(0, EPISODES + 6, KILLS))
    killed, counts = 0, set()
    while killed < KILLS:
        process = context.Process(target=work, args=(str(folder), workers))
        process.start()
        while process.is_alive() and finished(folder) < min(kill_points[killed], EPISODES):
            time.sleep(0.0005)
        process.join(float(rng.uniform(0.0, 0.005)))
        if process.is_alive():
            process.kill()
            process.join()
            killed += 1
            counts.add(finished(folder))
        else:
            assert process.exitcode == 0
    assert len(counts) >= 8, "the kills all fell on the same points"
    work(str(folder), workers)
    assert tables(folder) == tables(tmp_path / "undisturbed")
