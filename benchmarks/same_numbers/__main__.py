"""Compare two trees of this project byte for byte: tables of every judge without a server, by every way to run it.

    python -m benchmarks.same_numbers BEFORE AFTER [--rollouts FOLDER] [--keep FOLDER]

BEFORE and AFTER are checkouts. Each judges the bundled rollouts, and those of ``--rollouts`` (by default
``../shared/data/rollouts`` beside this repository, where it is there), with every judge that needs no server; one
judge with one to three processes, two workers of a Ray cluster, three shards, after a kill and after a stop; a model
with ``batch=4`` likewise. All tables but the times of ``usage`` are compared, and the JSON of ``metrics --show all``
and ``compare``. The exit code is 1 if anything differs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from tests.paths import ROOT, SHARED_DATA

SARM_TASK = "move the block from the red bin to the blue bin"
BUNDLED = ROOT / "src" / "stepscore" / "cli" / "demo_data"
MAKE = Path(__file__).with_name("make_runs.py")


def make_checkpoints(folder: Path) -> None:
    """Write the tiny random checkpoints that both trees load."""
    from tests.models import tiny
    from tests.models.sarm import tiny_sarm

    made = tiny.tokenizer()
    tiny.save(folder / "hf", tiny.qwen3vl(made), made)
    clip = tiny_sarm.clip_folder(folder / "clip")
    tiny_sarm.checkpoint(folder / "sarm", f"hf/{clip}", views=("close",), tasks=(SARM_TASK,))


def digests(tree: Path, out: Path, checkpoints: Path, sources: Sequence[Path]) -> dict[str, str]:
    """Return the digests of the tables that a tree computes."""
    out.mkdir(parents=True)
    environment = {
        **os.environ,
        "PYTHONPATH": str(tree.resolve() / "src"),
        "STEPSCORE_CACHE": str(out / "cache"),
    }
    line = [sys.executable, str(MAKE), str(out), str(checkpoints), str(BUNDLED), *map(str, sources)]
    done = subprocess.run(line, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, str] = json.loads(done.stdout[done.stdout.index("{") :])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--rollouts", type=Path, default=SHARED_DATA / "rollouts")
    parser.add_argument("--keep", type=Path, help="Keep the runs in this folder.")
    chosen = parser.parse_args()
    sources = [chosen.rollouts] if chosen.rollouts.is_dir() else []
    with tempfile.TemporaryDirectory() if chosen.keep is None else nullcontext(chosen.keep) as name:
        folder = Path(name).resolve()
        make_checkpoints(folder / "checkpoints")
        found = [
            digests(tree, folder / label, folder / "checkpoints", sources)
            for label, tree in (("before", chosen.before), ("after", chosen.after))
        ]
    before, after = found
    different = [name for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name)]
    for name in different:
        print(f"{name}: {before.get(name)} before, {after.get(name)} after")
    refused = sorted(name for name, digest in before.items() if digest.startswith("refused"))
    print(f"{len(before)} tables and outputs of {chosen.before}, {len(different)} differ in {chosen.after}")
    print(f"refused by both: {', '.join(refused) or 'none'}")
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
