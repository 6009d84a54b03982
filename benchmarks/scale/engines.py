"""The engines of a run against each other: one process, two processes, two workers of a Ray cluster.

    python -m benchmarks.scale.engines same SOURCE...    tables after a worker was killed; what a server was asked
    python -m benchmarks.scale.engines faster SOURCE...  two workers against one (limit 1.7 times)
    python -m benchmarks.scale.engines overhead          10,000 recorded episodes (limit 5 ms an episode)
    python -m benchmarks.scale.engines nodes             tables after nodes of a cluster were lost, frozen and added

SOURCE is a dataset of ``stepscore sim`` with the camera ``close``; for ``faster``, any. Of all, the first
``--episodes`` are judged.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import stepscore
from benchmarks.scale.computing_judge import Computing
from benchmarks.scale.nodes import measure_nodes
from benchmarks.speed.runs import rollouts
from stepscore.episodes import Episode
from stepscore.judges import Judge
from stepscore.models.api.openai import OpenAIModel
from stepscore.runs import CallOptions, FinishedEpisode, RayEngine, Run
from stepscore.runs.engines import Engine, LocalEngine, ProcessEngine
from stepscore.runs.tables import TABLES
from tests.models.api.servers import serving

MARK = "STEPSCORE_BENCHMARK"
MIN_SPEEDUP, MAX_OVERHEAD_MS = 1.7, 5.0
WORKER_NAMES = ("worker_process", "ray::EpisodeActor")
KILL_AT = 100


@dataclass
class Watch:
    """Notes when episodes are finished, and kills a worker at one of them.

    Attributes:
        kill_at: Kill a worker after this many; ``None`` for never.
    """

    kill_at: int | None = None

    def __post_init__(self) -> None:
        self.times: list[float] = []
        self.killed = 0

    def note(self, done: FinishedEpisode) -> None:
        """Note a finished episode."""
        self.times.append(time.perf_counter())
        if len(self.times) == self.kill_at:
            found = worker_processes()
            assert found, "no worker was found"
            os.kill(found[0], signal.SIGKILL)
            self.killed += 1


def worker_processes() -> list[int]:
    """Return the processes that judge for this one."""
    mark = os.environ[MARK].encode()
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            command = (path / "cmdline").read_bytes().decode()
            if mark in (path / "environ").read_bytes() and any(name in command for name in WORKER_NAMES):
                found.append(int(path.name))
        except OSError:
            continue
    return [process for process in found if process != os.getpid()]


def tables(run: Run) -> dict[str, bytes]:
    """Return the files of all tables but usage, which holds times."""
    return {name: (run.path / f"{name}.parquet").read_bytes() for name in TABLES if name != "usage"}


def opened(sources: Sequence[str], count: int) -> list[Episode]:
    """Return the first episodes of several sources, their ids made unique."""
    found = [
        replace(episode, id=f"{number}/{episode.id}")
        for number, source in enumerate(sources)
        for episode in stepscore.open_episodes(source)
    ]
    return found[:count]


def measure_same(
    episodes: Sequence[Episode], folder: Path, names: Sequence[str], *, server_only: bool
) -> bool:
    """Print whether runs whose worker was killed have the tables of an undisturbed one, and what was asked."""
    good = True
    print(f"{len(episodes)} episodes; a worker is killed (SIGKILL) after {KILL_AT} of them")
    with serving(delay_s=0.02) as server:
        embedded = stepscore.get_judge("topreward", model="embedded")
        asked = stepscore.get_judge("gvl", model=OpenAIModel("tiny", base_url=server.url), frames=8, size=64)
        both = (("gvl on a server that counts", asked), ("topreward, embedded", embedded))
        for title, judge in both[:1] if server_only else both:
            wanted: dict[str, bytes] = {}
            for name in ("local", *names):
                before = server.stats()["total"]
                watch = Watch(None if name == "local" else KILL_AT)
                run = judged(episodes, judge, made(name, 2), folder / f"{name} {judge.name}", watch)
                wanted = wanted or tables(run)
                same, failed = tables(run) == wanted, run.info["last"]["failed"]
                calls = server.stats()["total"] - before
                spent = run.info["spent"]["total"]
                print(
                    f"{title}, {name}: {watch.killed} killed, {failed} failed, "
                    f"tables {'byte-identical' if same else 'DIFFERENT'}, {spent['attempts']} attempts"
                    + (f", the server counted {calls}" if judge is asked else ""),
                    flush=True,
                )
                good &= same and not failed and (judge is not asked or calls == spent["answered"])
    return good


def measure_faster(sources: Sequence[str], count: int, folder: Path, names: Sequence[str]) -> bool:
    """Print the rate of two workers against one, one after the other, as long as all workers are at work."""
    good = True
    for name in names:
        rates = []
        for workers in (1, 2):
            file = folder / f"{name}{workers}.json"
            line = [sys.executable, "-m", "benchmarks.scale.engines", "times", *sources, "--engines", name]
            # Two workers judge twice as much in the same time.
            line += ["--workers", str(workers), "--episodes", str(workers * count), "--out", str(file)]
            subprocess.run(line, check=True)
            found = json.loads(file.read_text())
            ends = found["ends"]
            took = ends[-1] - ends[workers - 1]
            rates.append((len(ends) - workers) / took)
            print(
                f"{name}, {workers} workers: {len(ends) - workers} episodes in {took:.1f} s, "
                f"{rates[-1]:.3f} a second; "
                f"{found['cpu']:.2f} s CPU, {found['wall']:.2f} s wall an episode (medians)",
                flush=True,
            )
        print(
            f"{name}: two workers are {rates[1] / rates[0]:.2f} times one (limit {MIN_SPEEDUP})", flush=True
        )
        good &= rates[1] / rates[0] >= MIN_SPEEDUP
    return good


def write_times(episodes: Sequence[Episode], folder: Path, name: str, workers: int, out: Path) -> bool:
    """Write when each episode was finished, and the medians of the CPU and wall seconds of one."""
    ends: list[float] = []
    engine = made(name, workers)
    run = stepscore.score(
        episodes, Computing(), folder / "run", engine=engine, on_done=lambda done: ends.append(time.time())
    )
    facts = [json.loads(text) for text in run.judgements().column("facts").to_pylist()]
    wall = median(run.usage().column("seconds").to_pylist())
    cpu = median(row["cpu_s"] for row in facts)
    out.write_text(json.dumps({"workers": workers, "ends": ends, "wall": wall, "cpu": cpu}))
    return True


def measure_overhead(folder: Path, names: Sequence[str]) -> bool:
    """Print what an episode costs that takes no computation."""
    source = rollouts(folder)
    episodes = list(stepscore.open_episodes(source))
    most = 0.0
    for name in names:
        watch = Watch()
        started, cpu = time.perf_counter(), cpu_seconds()
        run = judged(episodes, stepscore.get_judge("recorded"), made(name, 2), folder / name, watch)
        wall, used = time.perf_counter() - started, cpu_seconds() - cpu
        assert run.judgements().column("error").null_count == len(episodes)
        between = 1000 * (watch.times[-1] - watch.times[0]) / len(episodes)
        print(
            f"{name}: {between:.2f} ms an episode, start and tables apart (limit {MAX_OVERHEAD_MS:g}); in all "
            f"{wall:.1f} s wall, {used:.1f} s CPU for {len(episodes)}",
            flush=True,
        )
        most = max(most, between)
    return most <= MAX_OVERHEAD_MS


def made(name: str, workers: int) -> Engine:
    """Return an engine by its name."""
    if name == "local":
        return LocalEngine(1)
    return ProcessEngine(workers) if name == "processes" else RayEngine(workers=workers)


def judged(episodes: Sequence[Episode], judge: Judge, engine: Engine, folder: Path, watch: Watch) -> Run:
    """Judge without a cache that another engine has filled."""
    options = CallOptions(cache_path=folder.with_suffix(".sqlite"))
    return stepscore.score(episodes, judge, folder, engine=engine, call_options=options, on_done=watch.note)


def cpu_seconds() -> float:
    """Return the processor time of this process and of those that it started and that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


@contextmanager
def marked() -> Iterator[None]:
    """Mark this process, so that those it starts can be found; each computes with one thread."""
    os.environ[MARK] = secrets.token_hex(8)
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    # Else Ray's workers go behind everything else on a busy machine, however many they are.
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 - as Ray reads it
    # All nodes of a cluster must have its token; one in the home folder would be asked for by its head alone.
    os.environ["RAY_AUTH_MODE"], os.environ["RAY_AUTH_TOKEN"] = "token", secrets.token_hex(32)
    yield


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["same", "faster", "overhead", "nodes", "times"])
    parser.add_argument("source", nargs="*")
    parser.add_argument("--episodes", type=int, default=400)
    parser.add_argument("--server-only", action="store_true", help="same: leave out the embedded judge")
    parser.add_argument("--workers", type=int, default=2, help="times: workers")
    parser.add_argument("--out", type=Path, help="times: the file to write")
    parser.add_argument(
        "--engines", default="processes,ray", help="of local (overhead alone), processes, ray"
    )
    given = parser.parse_args()
    if given.what not in ("overhead", "nodes") and not given.source:
        parser.error("SOURCE is missing: a dataset of stepscore sim")
    names, episodes = given.engines.split(","), opened(given.source, given.episodes)
    with marked(), tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        measures: dict[str, Callable[[], bool]] = {
            "same": lambda: measure_same(episodes, folder, names, server_only=given.server_only),
            "faster": lambda: measure_faster(given.source, given.episodes, folder, names),
            "times": lambda: write_times(episodes, folder, names[0], given.workers, given.out),
            "overhead": lambda: measure_overhead(folder, names),
            "nodes": lambda: measure_nodes(folder),
        }
        if not measures[given.what]():
            sys.exit(1)


if __name__ == "__main__":
    main()
