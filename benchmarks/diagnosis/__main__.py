r"""How often the diagnosis names what happened: confusion tables by labelled curves and by a judge.

    stepscore sim --tasks TASKS --policies POLICIES --episodes-per-task 13 --views close --seed 2101 -o SIM
    stepscore judge SIM --labels SIM/labels.parquet --subgoals SIM/subgoals.yaml --judge topreward --model embedded \
        -o runs/sim
    python -m benchmarks.diagnosis SIM --run runs/sim

The rollouts of the dataset are played again, without rendering, for the simulator's state at every control step. By
default only those of tasks that were not used to choose the rules. ``benchmarks/measurements/failure-modes.json`` is
written after each task.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.diagnosis.episodes import (
    TUNED_ON,
    Named,
    dataset_plans,
    from_labels,
    from_run,
    names_by_run,
    replay,
)
from benchmarks.diagnosis.truth import NAMES
from stepscore.metrics.stats import wilson_interval

OUT = Path(__file__).parents[1] / "measurements" / "failure-modes.json"
ABOUT = (
    "How often the [failure mode](../methods/failure-modes.md) of a simulated episode is what happened by the "
    "simulator's state: positions, contacts and milestones, never the policy's name "
    "(`benchmarks/diagnosis/truth.py`). Thresholds were chosen on labelled curves of every other task by name, with "
    "another seed; these tables are of the other tasks. The judge's curves are named as `stepscore metrics` does it, "
    "with the labels' success, subgoals and stages. One rule (nearness to the first subgoal counts from the start of "
    "the curve) was added after a first look at the judge's table, which called 12 of 13 episodes wrong target that "
    "had reached nothing; labelled curves start at 0 and do not depend on it. Annotated stages are preferred to the "
    "curve since a look at the demo, some of whose tasks are among these; on labelled curves of the other tasks that "
    "changed nothing."
)
COMMAND = "python -m benchmarks.diagnosis SIM --run runs/sim"
UNNAMED = "not known"


def tables(episodes: Sequence[Named], source: str) -> list[dict[str, Any]]:
    """Return the tables of one source of curves."""
    failures = [e for e in episodes if not e.success and e.task not in TUNED_ON]
    return [
        _confusion(failures, f"Failures, {source}"),
        _shares(episodes, f"Episodes named correctly, {source}"),
    ]


def _confusion(episodes: Sequence[Named], title: str) -> dict[str, Any]:
    counts = Counter((e.truth, e.found if e.found in NAMES else UNNAMED) for e in episodes)
    columns = [*NAMES, UNNAMED]
    rows = []
    for name in NAMES:
        row = [counts[name, found] for found in columns]
        rows.append([name, *row, _share([e for e in episodes if e.truth == name])])
    return {
        "title": title,
        "command": COMMAND,
        "header": ["what happened", *columns, "right"],
        "rows": rows,
        "notes": f"Rows: what happened. Columns: the name found. All {len(episodes)}: {_share(episodes)}.",
    }


def _shares(episodes: Sequence[Named], title: str) -> dict[str, Any]:
    rows = []
    for policy in dict.fromkeys(e.policy for e in episodes):
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
        "command": COMMAND,
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
    parser.add_argument("dataset", type=Path, help="a dataset of `stepscore sim`")
    parser.add_argument("--run", type=Path, help="a judge's run of it, judged with its labels and subgoals")
    parser.add_argument("--every-task", action="store_true", help="those used to choose the rules, too")
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args()
    plans = dataset_plans(args.dataset)
    found = {} if args.run is None else names_by_run(args.run)
    labelled: list[Named] = []
    judged: list[Named] = []
    for task in sorted({plan.task for plan in plans.values()}):
        if task in TUNED_ON and not args.every_task:
            continue
        episodes = list(replay(plan for plan in plans.values() if plan.task == task))
        labelled += from_labels(episodes)
        judged += from_run(episodes, plans, found)
        made = tables(labelled, "by labelled curves")
        made += tables(judged, "by the judge's curves") if judged else []
        page = {"title": "What happened, and what the diagnosis says", "about": ABOUT, "tables": made}
        args.out.write_text(json.dumps(page, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{task}: {len(labelled)} episodes", file=sys.stderr, flush=True)
    print(json.dumps(made, indent=1))


if __name__ == "__main__":
    main()
