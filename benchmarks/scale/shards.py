"""Shards of simulated rollouts, two of them killed, against one undivided run; and the memory of a large merge.

    python -m benchmarks.scale.shards [--source DATASET]
    python -m benchmarks.scale.shards --merge 100000

Without ``--source``, 400 episodes of ten Meta-World tasks are simulated first, at 64 pixels. A judge asks a served
model one question about most episodes and three about every tenth; the server is a stub on this machine that counts.
The run is judged undivided, and as 8 shards in random order, a process each. Two shards are killed with SIGKILL
between two answers and are run again with an empty answer cache, as on another machine. ``--merge N`` merges N made
episodes of 100 points in 50 folders.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import stepscore
from stepscore.models.api.openai import OpenAIModel
from stepscore.runs import CallOptions, Shard, merge
from stepscore.runs.tables import TABLES
from tests.models.api.servers import serving
from tests.report.made_runs import write_run
from tests.runs.shards.test_killed_shards import Questions, tables

TASKS = "drawer-open,drawer-close,door-open,button-press,reach,push,window-open,window-close,faucet-open,handle-press"
EPISODES_PER_TASK, SHARDS, KILLED = 40, 8, (3, 6)
MADE_FOLDERS, MADE_POINTS = 50, 100
MAX_MERGE_BYTES = 2 * 10**9


def judge_shard(source: str, url: str, folder: str, index: int, dies_in: str, cache: str) -> None:
    """Judge one shard; in a process of its own."""
    stepscore.score(
        stepscore.open_episodes(source),
        Questions(OpenAIModel("tiny", base_url=url), dies_in),
        folder,
        call_options=CallOptions(cache_path=Path(cache), connections=1),
        shard=Shard(index, SHARDS),
    )


def in_process(*arguments: str | int) -> int | None:
    process = multiprocessing.get_context("spawn").Process(target=judge_shard, args=arguments)
    process.start()
    process.join()
    return process.exitcode


def compare_with_undivided(source: str, folder: Path) -> bool:
    """Print whether shards end as the undivided run, and what the servers counted."""
    episodes = stepscore.open_episodes(source)
    with serving() as server:
        judge = Questions(OpenAIModel("tiny", base_url=server.url))
        options = CallOptions(cache_path=folder / "one.sqlite")
        undivided = stepscore.score(episodes, judge, folder / "one", call_options=options)
        alone = server.stats()
    order = np.random.default_rng(20).permutation(np.arange(1, SHARDS + 1)).tolist()
    out, ids = str(folder / "many"), episodes.ids()
    with serving() as server:
        for index in order:
            span = Shard(index, SHARDS).span(len(ids))
            asked_thrice = [name for name in ids[span.start : span.stop] if name.endswith("0")]
            if not asked_thrice:
                sys.exit(
                    f"{source} has {len(ids)} episodes, of which no shard may be killed; give 80 or more."
                )
            dies_in = asked_thrice[-1] if index in KILLED else ""
            code = in_process(source, server.url, out, index, dies_in, str(folder / "here" / "calls.sqlite"))
            assert code == (-signal.SIGKILL if dies_in else 0), code
        unfinished = merge([out])
        for index in KILLED:
            code = in_process(source, server.url, out, index, "", str(folder / "there" / "calls.sqlite"))
            assert code == 0, code
        divided = server.stats()
    merged = merge([out])
    assert merged.run is not None
    same = tables(Path(out)) == tables(undivided.path)
    # Rollouts of one scene begin with the same frame: such a question is another episode's, not asked again.
    again = sum(max(0, times - alone["asked"].get(each, 0)) for each, times in divided["asked"].items())
    print(f"{len(ids)} episodes undivided: the server was asked {alone['total']} questions")
    print(f"{SHARDS} shards in the order {order}, {KILLED} killed; a merge before they were run again said:")
    print("\n".join(f"  {gap.replace(f'{folder}/', '')}" for gap in unfinished.gaps))
    print(
        f"then: {merged.episodes} episodes, the server was asked {divided['total']} questions, {again} of them again"
    )
    print(f"tables byte-identical to the undivided run's: {same}")
    return same and not again and divided["total"] == alone["total"]


def measure_merge(n: int, folder: Path) -> bool:
    """Print time and peak memory of ``stepscore merge`` of ``n`` made episodes."""
    each = n // MADE_FOLDERS
    for number in range(MADE_FOLDERS):
        first = number * each

        def rename(i: int, record: dict[str, Any], first: int = first) -> None:
            record["id"] = f"e{first + i:06d}"

        write_run(folder / f"{number:02d}", each, steps=MADE_POINTS, change=rename)
        for table in TABLES:  # which a merge does not read
            (folder / f"{number:02d}" / f"{table}.parquet").unlink(missing_ok=True)
    size = sum(path.stat().st_size for path in folder.glob("*/journal.jsonl"))
    started = time.perf_counter()
    line = [
        sys.executable,
        "-m",
        "stepscore",
        "merge",
        *map(str, sorted(folder.iterdir())),
        "-o",
        f"{folder}-merged",
    ]
    subprocess.run(line, check=True, stderr=subprocess.DEVNULL)
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    print(
        f"merge of {each * MADE_FOLDERS} episodes of {MADE_POINTS} points ({size / 1e6:.0f} MB of journals, "
        f"{MADE_FOLDERS} folders): {seconds:.0f} s, peak {peak / 1e6:.0f} MB (limit {MAX_MERGE_BYTES / 1e6:.0f})"
    )
    return peak < MAX_MERGE_BYTES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", help="80 episodes or more to judge; by default 400 are simulated")
    parser.add_argument("--merge", type=int, default=0, metavar="N", help="instead, merge N made episodes")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="shards-"))
    try:
        if given.merge:
            sys.exit(not measure_merge(given.merge, folder / "made"))
        source = given.source
        if source is None:
            source = str(folder / "sim")
            simulate = [
                sys.executable,
                "-m",
                "stepscore",
                "sim",
                "-o",
                source,
                "--tasks",
                TASKS,
                "--size",
                "64",
            ]
            count = ["--episodes-per-task", str(EPISODES_PER_TASK)]
            subprocess.run([*simulate, *count], check=True, stdout=subprocess.DEVNULL)
        good = compare_with_undivided(source, folder)
    finally:
        shutil.rmtree(folder)
    sys.exit(not good)


if __name__ == "__main__":
    main()
