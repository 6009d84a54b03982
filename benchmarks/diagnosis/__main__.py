"""How often the diagnosis names what happened: a confusion table by labelled curves, and one by a judge.

    python -m benchmarks.diagnosis --seed 8101
    python -m benchmarks.diagnosis --dataset SIM --run runs/sim

The first plays one scene of every task with every policy, without rendering, and diagnoses the labelled curves. The
second diagnoses a judge's run of a dataset made by ``stepscore sim``, whose rollouts it plays again for their state.
Each writes its own tables into ``benchmarks/measurements/failure-modes.json`` and leaves the others.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.diagnosis.episodes import POLICIES, TUNED_ON, Named, from_labels, from_run, replay
from benchmarks.diagnosis.truth import NAMES
from stepscore.metrics.stats import wilson_interval
from stepscore.sim import RolloutPlan, all_tasks

OUT = Path(__file__).parents[1] / "measurements" / "failure-modes.json"
ABOUT = (
    "How often the [failure mode](../methods/failure-modes.md) of a simulated episode is what happened by the "
    "simulator's state: positions, contacts and milestones, never the policy's name "
    "(`benchmarks/diagnosis/truth.py`). The rules were chosen on every other task by name, with other seeds."
)
UNNAMED = "not known"


def tables(episodes: Sequence[Named], source: str, command: str) -> list[dict[str, Any]]:
    """Return the tables of one source of curves."""
    failures = [e for e in episodes if not e.success]
    test = [e for e in failures if e.task not in TUNED_ON]
    return [
        _confusion(test, f"Failures, {source}: tasks not used for the rules", command),
        _shares(episodes, f"Episodes named correctly, {source}", command),
    ]


def _confusion(episodes: Sequence[Named], title: str, command: str) -> dict[str, Any]:
    counts = Counter((e.truth, e.found if e.found in NAMES else UNNAMED) for e in episodes)
    columns = [*NAMES, UNNAMED]
    rows = []
    for name in NAMES:
        row = [counts[name, found] for found in columns]
        rows.append([name, *row, _share([e for e in episodes if e.truth == name])])
    return {
        "title": title,
        "command": command,
        "header": ["what happened", *columns, "right"],
        "rows": rows,
        "notes": f"Rows: what happened. Columns: the name found. All {len(episodes)}: {_share(episodes)}.",
    }


def _shares(episodes: Sequence[Named], title: str, command: str) -> dict[str, Any]:
    rows = []
    for policy in POLICIES:
        own = [e for e in episodes if e.policy == policy]
        failed = [e for e in own if not e.success]
        rows.append([policy, _share(failed), _share([e for e in own if e.success])])
    for title_of, tuned in (("all, tasks used for the rules", True), ("all, other tasks", False)):
        own = [e for e in episodes if (e.task in TUNED_ON) == tuned]
        rows.append(
            [title_of, _share([e for e in own if not e.success]), _share([e for e in own if e.success])]
        )
    wrong = Counter(e.found for e in episodes if e.success and e.found not in ("", "too slow"))
    return {
        "title": title,
        "command": command,
        "header": ["policy", "failures", "successes"],
        "rows": rows,
        "notes": "Share right, its 95 % interval, and number of episodes. A success is right if it is too slow and "
        f"named so, or neither. Successes with another name: {sum(wrong.values())}.",
    }


def _share(episodes: Sequence[Named]) -> str:
    if not episodes:
        return "none"
    right = sum(e.right for e in episodes)
    low, high = wilson_interval(right, len(episodes))
    return f"{right / len(episodes):.2f} ({low:.2f} to {high:.2f}; {len(episodes)})"


def main() -> None:
    """Measure, print the tables and write them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=8101)
    parser.add_argument("--scenes", type=int, default=1)
    parser.add_argument("--tasks", default="", help="names, separated by commas; all by default")
    parser.add_argument("--dataset", type=Path)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args()
    if args.dataset is not None:
        command = "python -m benchmarks.diagnosis --dataset SIM --run runs/sim"
        made = tables(from_run(args.dataset, args.run), "the embedded judge's curves", command)
    else:
        names = args.tasks.split(",") if args.tasks else list(all_tasks())
        plans = [RolloutPlan(t, p, s, args.seed) for t in names for s in range(args.scenes) for p in POLICIES]
        command = f"python -m benchmarks.diagnosis --seed {args.seed}"
        command += f" --scenes {args.scenes}" if args.scenes != 1 else ""
        made = tables(from_labels(list(replay(plans))), "labelled curves", command)
    write(args.out, made)
    json.dump(made, sys.stdout, indent=1)


def write(path: Path, made: Sequence[dict[str, Any]]) -> None:
    """Put the tables into the file in place of those with the same titles."""
    page = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    titles = {table["title"] for table in made}
    kept = [table for table in page.get("tables", []) if table["title"] not in titles]
    page = {"title": "What happened, and what the diagnosis says", "about": ABOUT, "tables": [*kept, *made]}
    path.write_text(json.dumps(page, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
