"""Twelve readers of a run folder at once, while one process judges into it.

The whole of it: ``python -m tests.runs.readers_beside_writer --rounds 20``; a few rounds are a test.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import stepscore
from stepscore.episodes import Episode
from stepscore.judges import Ask, episode_rng
from stepscore.runs.tables import TABLES
from stepscore.types import Curve, Judgement
from tests.fakes import episode

EPISODES = 60
READERS = 12


@dataclass(frozen=True)
class Unhurried:
    """A judge that takes some milliseconds an episode, so that readers come while the journal grows."""

    name = "unhurried"
    version = 1
    models = ()

    def options(self) -> Mapping[str, object]:
        return {}

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        rng = episode_rng(episode, "unhurried")
        await asyncio.sleep(rng.uniform(0.02, 0.06))
        return Judgement(Curve(np.arange(20.0), np.sort(rng.uniform(size=20))), success_score=0.5)


def write(folder: str) -> None:
    """Judge all episodes into a folder."""
    episodes = [episode(f"e{i:03d}", policy=f"p{i % 2}", task="t") for i in range(EPISODES)]
    stepscore.score(episodes, Unhurried(), out=folder)


def read(folder: str, number: int) -> None:
    """Be one of the readers: a command of the command line, the page of ``view``, or a script."""
    wait_for_lines(Path(folder), 3)
    kind = number % 6
    if kind == 4:
        from stepscore.server import LivePage

        live = LivePage([Path(folder)], videos=False)
        assert all(len(live.page()) > 1000 for _ in range(3))
    elif kind == 5:
        check_one_generation(folder)
    else:
        commands = (
            ["metrics", folder, "--json"],
            ["compare", folder, "--json"],
            ["report", folder, "-o", f"{folder}-report-{number}", "--no-videos"],
            ["metrics", folder, "--show", "all"],
        )
        from stepscore.cli.app import app

        with (
            open(os.devnull, "w") as nowhere,
            contextlib.redirect_stdout(nowhere),
            contextlib.redirect_stderr(nowhere),
        ):
            app(commands[kind], standalone_mode=False)


def check_one_generation(folder: str) -> None:
    """Read the tables one by one, slowly: they hold the same episodes although others replace the files."""
    for _ in range(5):
        run = stepscore.open_run(folder)
        ids = run.judgements().column("episode_id").to_pylist()
        for name in TABLES:
            time.sleep(0.03)
            if name not in ("calls", "verdicts", "labelled_progress"):
                found = getattr(run, name)().column("episode_id").unique().to_pylist()
                assert found == ids, f"{name} has {len(found)} episodes, judgements {len(ids)}"


def play(folder: Path, rounds: int, readers: int = READERS) -> int:
    """Let readers read beside a writer, each round in a new folder; return how many generations were replaced.

    All processes must end with 0, the tables be those of an undisturbed run, and nothing else be left behind.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "pyarrow.parquet", "stepscore.server", "stepscore.cli.app"])
    write(str(folder / "undisturbed"))
    expected = table_bytes(folder / "undisturbed")
    generations = 0
    for number in range(rounds):
        run = folder / f"run-{number}"
        processes = [context.Process(target=read, args=(str(run), reader)) for reader in range(readers)]
        processes.append(context.Process(target=write, args=(str(run),)))
        for process in processes:
            process.start()
        seen = set()
        while any(process.is_alive() for process in processes):
            with contextlib.suppress(OSError):
                seen.add((run / "usage.parquet").stat().st_mtime_ns)
            time.sleep(0.01)
        generations += len(seen)
        codes = [process.exitcode for process in processes]
        assert codes == [0] * len(codes), f"round {number}: exit codes {codes}"
        assert table_bytes(run) == expected, f"round {number}: other tables"
        left = {path.name for path in run.iterdir()} - {f"{name}.parquet" for name in TABLES}
        assert left == {"run.json", "journal.jsonl", "tables.lock"}, left
    return generations


def wait_for_lines(run: Path, lines: int) -> None:
    """Wait until this many episodes are judged."""
    journal, deadline = run / "journal.jsonl", time.monotonic() + 120
    while not journal.is_file() or journal.read_bytes().count(b"\n") < lines:
        assert time.monotonic() < deadline, "the writer does not write"
        time.sleep(0.005)


def table_bytes(folder: Path) -> dict[str, bytes]:
    """Return the files that must not depend on who read meanwhile."""
    return {name: (folder / f"{name}.parquet").read_bytes() for name in TABLES if name != "usage"}


def main() -> None:
    """Play as many rounds as asked for and print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        generations = play(Path(folder), rounds)
    print(
        f"{rounds} rounds of {READERS} readers beside a writer: all {rounds * (READERS + 1)} processes ended with 0, "
        f"tables as undisturbed; tables were replaced about {generations} times"
    )


if __name__ == "__main__":
    # Else each child would run this module a second time, under its own name, and warn of it.
    __spec__ = None  # type: ignore[assignment]
    from tests.runs import readers_beside_writer

    sys.exit(readers_beside_writer.main())
