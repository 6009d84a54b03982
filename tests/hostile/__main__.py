"""``python -m tests.hostile``: run hostile inputs and print what each kind did; 1 where a check failed."""

from __future__ import annotations

import argparse
import multiprocessing
import shlex
import shutil
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.hostile import runner
from tests.hostile.good_inputs import SOURCES, make_good
from tests.hostile.good_runs import make_runs
from tests.hostile.kinds import EXTRAS, KINDS
from tests.hostile.kinds.remotes import IN_STORES

GROUPS = ("core", "extras", "torch")


def names(tries: int, seed: int, kinds: Iterable[str]) -> list[str]:
    """Return the names of this many tries, shared out among kinds by their weights, at least one each."""
    chosen = list(kinds)
    total = sum(KINDS[kind].weight for kind in chosen)
    counts = {kind: max(1, tries * KINDS[kind].weight // total) for kind in chosen}
    for kind in sorted(chosen, key=lambda kind: -KINDS[kind].weight):
        counts[kind] += sum(counts.values()) < tries
    return [f"{kind}/{seed}/{number}" for kind in chosen for number in range(counts[kind])]


def run(tries: Iterable[str], jobs: int, folder: Path) -> Iterator[runner.Result]:
    """Yield the result of each try; a process for each group of imports and job forks them."""
    chosen = list(tries)
    spawn = multiprocessing.get_context("spawn")
    groups = {KINDS[name.split("/")[0]].group for name in chosen}
    with ProcessPoolExecutor(1, spawn) as pool:  # encoders start threads, which no forking process may have
        pool.submit(make_good, folder / "good", sources_of(groups)).result()
        pool.submit(make_runs, folder / "good", checkpoints="torch" in groups).result()
    for group in GROUPS:
        these = [name for name in chosen if KINDS[name.split("/")[0]].group == group]
        if these:
            workers = min(jobs, len(these))
            with ProcessPoolExecutor(workers, spawn, runner.start_worker, (group, str(folder))) as pool:
                yield from pool.map(runner.run_try, these)


def sources_of(groups: Collection[str]) -> list[str]:
    """Return the names of the good sources that kinds of these groups need."""
    few = {"jsonl", "videos", *(IN_STORES if "extras" in groups else ())}
    core = [name for name in SOURCES if name not in EXTRAS and ("core" in groups or name in few)]
    return [*core, *(EXTRAS if "extras" in groups else ())]


def table(results: list[runner.Result]) -> Iterator[str]:
    """Yield a line for each kind, then one for each cause of failure with a name that reproduces it."""
    yield f"{'kind':16} {'tries':>5} {'exit codes':28} {'failed':>6} {'memory':>8} {'longest':>7} {'CPU':>8}"
    by_kind: dict[str, list[runner.Result]] = defaultdict(list)
    for result in results:
        by_kind[result.name.split("/")[0]].append(result)
    for kind, those in [*by_kind.items(), ("all", results)]:
        codes = Counter(code for result in those for code in result.codes)
        shown = " ".join(f"{code}:{n}" for code, n in sorted(codes.items()))
        memory, seconds = max(r.memory for r in those) / 2**20, max(r.seconds for r in those)
        failed = sum(bool(r.failures) for r in those)
        spent = sum(r.cpu_s for r in those)
        yield f"{kind:16} {len(those):5} {shown:28} {failed:6} {memory:5.0f} MB {seconds:5.1f} s {spent:6.1f} s"
    causes: dict[str, list[runner.Result]] = defaultdict(list)
    for result in results:
        for failure in result.failures:
            causes[failure].append(result)
    for failure, those in sorted(causes.items(), key=lambda item: -len(item[1])):
        yield f"{len(those):4}  {failure[:400]}"
        yield f"      {those[0].what[:160]}"
        yield f"      python -m tests.hostile --only {shlex.quote(those[0].name)}"


def main() -> int:
    """Parse the options, run and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--tries", type=int, default=2000, help="how many (default 2000)")
    parser.add_argument("--seed", type=int, default=0, help="seed of all of them (default 0)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--kind", action="append", choices=sorted(KINDS), help="only this kind; repeatable")
    parser.add_argument(
        "--group", action="append", choices=GROUPS, help="only kinds of this group; repeatable"
    )
    parser.add_argument(
        "--only", action="append", metavar="NAME", help="only the try of this name; its files are kept"
    )
    options = parser.parse_args()
    started = time.monotonic()
    folder = runner.new_folder()
    kinds = [name for name in options.kind or KINDS if KINDS[name].group in (options.group or GROUPS)]
    tries = options.only or names(options.tries, options.seed, kinds)
    results = []
    for result in run(tries, 1 if options.only else options.jobs, folder):
        results.append(result)
        if len(results) % 100 == 0:
            print(f"{len(results)} of {len(tries)} tries", file=sys.stderr, flush=True)
        if result.failures:
            print(result.name, *result.failures, sep="\n  ", file=sys.stderr, flush=True)
    for line in table(results):
        print(line)
    failed = sum(bool(result.failures) for result in results)
    print(f"{len(results)} tries in {time.monotonic() - started:.0f} s, {failed} failed")
    if options.only:
        print(f"Files: {next(folder.glob('worker-*'))}/here")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
