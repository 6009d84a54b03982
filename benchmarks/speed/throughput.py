"""A run against the bare forward passes of the same batches, with the same workers and threads: wall time.

Rollouts of the demo by topreward. Bare: all frames are decoded beforehand, and the model answers one batch after
another, in as many processes as the run has workers. A run also lists and fingerprints the episodes, decodes their
frames, keeps its journal and writes its tables; of a run with several processes, the time counts from when each has
finished its first episode. Limit 1.11 times, if decoding leaves it possible: where the model computes on all cores,
decoding takes time from it, and what the run would take if nothing else were done is printed, too.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import stepscore
from benchmarks.scale.bare_passes import CHECKPOINT, compute_at_once, demo_episodes, write_small_qwen3vl
from stepscore.models import get_model, media_decoder
from stepscore.runs import CallOptions
from stepscore.runs.engines import LocalEngine, ProcessEngine

LIMIT = 1.11
CORES = os.cpu_count() or 1


@dataclass(frozen=True)
class Case:
    """A model and how it is run.

    Attributes:
        name: What is printed.
        model: Its model string.
        episodes: Episodes of a run.
        options: Options of the model.
        workers: Processes; 1 for the local engine.
        threads: Threads of matrix products in each.
        rounds: The best of so many counts.
    """

    name: str
    model: str
    episodes: int
    options: Mapping[str, object] = field(default_factory=dict)
    workers: int = 1
    threads: int = 1
    rounds: int = 5

    @property
    def spare_cores(self) -> int:
        """Cores on which the model does not compute."""
        return CORES - self.workers * self.threads


def run_seconds(case: Case) -> float:
    """Return what a run takes for all its episodes, in a process of its own whose model is warm."""
    environment = os.environ | {"OMP_NUM_THREADS": str(case.threads)}
    line = [sys.executable, "-m", "benchmarks.speed.throughput", "run", json.dumps(asdict(case))]
    done = subprocess.run(line, capture_output=True, text=True, check=True, env=environment)
    return float(done.stdout)


def run_here(case: Case) -> float:
    """Judge the episodes, and return the seconds for all of them, start and loading apart."""
    model = get_model(case.model, **case.options)
    judge = stepscore.get_judge("topreward", model=model)
    episodes, calls = demo_episodes(case.episodes), CallOptions(cache=False)
    with tempfile.TemporaryDirectory() as folder:
        if case.workers == 1:
            batch = int(str(case.options.get("batch", 1)))
            warm = Path(folder) / "warm"
            stepscore.score(episodes[:batch], judge, warm, engine=LocalEngine(2), call_options=calls)
            started = time.perf_counter()
            stepscore.score(episodes, judge, Path(folder) / "run", engine=LocalEngine(2), call_options=calls)
            return time.perf_counter() - started
        ends: list[float] = []
        stepscore.score(
            episodes,
            judge,
            Path(folder) / "run",
            engine=ProcessEngine(case.workers),
            call_options=calls,
            on_done=lambda _: ends.append(time.perf_counter()),
        )
    counted = len(ends) - case.workers
    return (ends[-1] - ends[case.workers - 1]) * case.episodes / counted


def decoding_seconds(case: Case) -> float:
    """Return the processor seconds that decoding the frames of all episodes takes."""
    judge = stepscore.get_judge("topreward", model=get_model(case.model, **case.options))
    started = time.process_time()
    for episode in demo_episodes(case.episodes):

        async def ask(request, model=None, episode=episode):
            return request.resolved(media_decoder(episode)).unknown()

        asyncio.run(judge.judge(episode, ask))
    return time.process_time() - started


def measure(case: Case) -> bool:
    """Print the ratio of a case, and return whether it is within the limit, where that is possible."""
    bare = min(
        compute_at_once(case.model, case.options, case.episodes, case.workers, case.rounds, case.threads)
    )
    run = min(run_seconds(case) for _ in range(case.rounds))
    decoding = 0.0 if case.spare_cores > 0 else decoding_seconds(case) / CORES
    possible = (bare + decoding) / bare
    print(
        f"{case.name}: {case.episodes} episodes, bare {bare:.2f} s, run {run:.2f} s, {run / bare:.3f} times "
        f"(limit {LIMIT}"
        + (f"; decoding takes {decoding:.2f} s of all cores: at best {possible:.3f})" if decoding else ")"),
        flush=True,
    )
    return run / bare <= LIMIT or possible > LIMIT - 0.03


def main() -> None:
    if sys.argv[1:2] == ["run"]:
        print(run_here(Case(**json.loads(sys.argv[2]))))
        return
    with tempfile.TemporaryDirectory() as folder:
        same, size = f"hf/{CHECKPOINT}", {"max_pixels": 128 * 128}
        small = f"hf/{write_small_qwen3vl(Path(folder) / 'small')}"
        cases = [
            Case("embedded (NumPy), 1 worker", "embedded", 96),
            Case(f"embedded (NumPy), {CORES} workers", "embedded", 192, workers=CORES),
            Case("the same network by torch, 1 worker of 1 thread", same, 96, size),
            Case("Qwen3-VL of 35 M, 1 worker of 1 thread", small, 8, size, rounds=3),
            Case("Qwen3-VL of 35 M, batch 4, 1 worker of 1 thread", small, 8, {**size, "batch": 4}, rounds=3),
            Case(f"Qwen3-VL of 35 M, 1 worker of {CORES} threads", small, 8, size, threads=CORES, rounds=3),
            Case(f"Qwen3-VL of 35 M, {CORES} workers of 1 thread", small, 16, size, workers=CORES, rounds=3),
        ]
        good = [measure(case) for case in cases]
    if not all(good):
        sys.exit(1)


if __name__ == "__main__":
    main()
