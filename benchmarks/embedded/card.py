"""Prints the figures of several evaluations side by side, as Markdown for the model card.

    python -m benchmarks.embedded.success_verdicts TEST --run RUN > decisions.md
    python -m benchmarks.embedded.card --decisions decisions.md --column "seed 0" OUT-0 OUT --column "seed 1" OUT-1

Decisions come first: what the packaged judge's verdicts are worth, by policy and by task. A column is an evaluation:
one folder of ``benchmarks/embedded_judge.py``, or several that hold its parts. Then come the figures with a target,
then the others, then tasks and subgoals one by one, then held-out tasks.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.embedded.figures import BASELINES, HELD_OUT_GROUP, Figure, read_json
from stepscore.training.embedded.tasks import HELD_OUT, TRAINED

TASK, SUBGOAL = "success AUC, ", "balanced accuracy, "
MARKS = {"pass": " ✓", "short": " ✗"}
"""Behind a value: its target was reached, or was not."""


@dataclass(frozen=True)
class Line:
    """A figure in every evaluation that has it, by column."""

    group: str
    name: str
    found: Mapping[str, Figure]

    @property
    def any(self) -> Figure:
        """The figure in the first of them."""
        return next(iter(self.found.values()))

    @property
    def task(self) -> str:
        """The task that it is of, where it is of one task alone; else empty."""
        return next((t for t in (*TRAINED, *HELD_OUT) if self.name == TASK + t), "")

    @property
    def subgoal(self) -> str:
        """The task and subgoal that it is of, where it is of one alone; else empty."""
        rest = self.name.removeprefix(SUBGOAL)
        return rest if rest != self.name and rest.partition(": ")[0] in (*TRAINED, *HELD_OUT) else ""

    @property
    def held_out(self) -> bool:
        """Whether it is of tasks that were never trained."""
        return self.group.startswith(HELD_OUT_GROUP)


def side_by_side(columns: Mapping[str, Sequence[Figure]]) -> list[Line]:
    """Return the figures of all columns, in the order in which they first come."""
    lines: dict[tuple[str, str], dict[str, Figure]] = {}
    for column, figures in columns.items():
        for figure in figures:
            lines.setdefault((figure.group, figure.name), {})[column] = figure
    return [Line(group, name, found) for (group, name), found in lines.items()]


def card(
    columns: Mapping[str, Sequence[Figure]], about: Mapping[str, Mapping[str, Any]], decisions: str = ""
) -> str:
    """Return all tables as Markdown.

    Args:
        columns: The figures of each evaluation by its name.
        about: How each was made.
        decisions: What ``benchmarks/embedded/success_verdicts.py`` printed; a card leads with it.
    """
    names = list(columns)
    lines = side_by_side(columns)
    whole = [line for line in lines if not (line.held_out or line.task or line.subgoal)]
    aimed = [line for line in whole if line.any.target is not None]
    free = [line for line in whole if line.any.target is None]
    parts = ["### Decisions", "", decisions.strip(), ""] if decisions else []
    parts += [*_made_with(about), *_reached(aimed, names), ""]
    parts += ["### Figures with a target", "", *_table(aimed, names, targets=True), ""]
    for group in dict.fromkeys(line.group for line in free):
        mine = [line for line in free if line.group == group]
        parts += [f"### {group}: reported", "", *_table(mine, names), ""]
    trained = [line for line in lines if not line.held_out]
    parts += ["### Success AUC by task, target 0.90", ""]
    parts += [*_table([line for line in trained if line.task], names, first="task"), ""]
    parts += ["### Subgoals, balanced accuracy over prefixes, target 0.75", ""]
    parts += [*_table([line for line in trained if line.subgoal], names, first="task: subgoal"), ""]
    parts += [f"### {HELD_OUT_GROUP}", ""]
    others = [line for line in lines if line.held_out and not line.subgoal]
    parts += [*_table(others, names, first="figure"), ""]
    return "\n".join([*parts, *_notes(whole, names)]).rstrip() + "\n"


def _made_with(about: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Describe the test set in one sentence."""
    first = next((one for one in about.values() if one.get("matched_pairs")), {})
    if not first:
        return []
    episodes, pairs = first["episodes"], list(first["matched_pairs"].values())
    enough = sum(n >= 50 for n in pairs)
    return [
        f"Test seed {first['test_seed']}: {episodes['trained tasks']} rollouts of {len(pairs)} trained tasks and "
        f"{episodes['held-out tasks']} of held-out ones; {sum(pairs)} pairs of a success and a failure of its "
        f"length, 50 or more of {enough} tasks. Intervals are of 95 %; n counts videos, scenes are resampled.",
        "",
    ]


def _reached(lines: Sequence[Line], names: Sequence[str]) -> list[str]:
    """Count the targets that each evaluation reached."""
    counts = []
    for name in names:
        marks = [line.found[name].mark for line in lines if name in line.found]
        counts.append(f"{name}: {marks.count('pass')} of {len(marks)}")
    return [f"Targets reached: {'; '.join(counts)}."]


def _table(
    lines: Sequence[Line], names: Sequence[str], *, targets: bool = False, first: str = "figure"
) -> list[str]:
    based = [name for name in BASELINES if any(name in line.any.baselines for line in lines)]
    heads = [first, *(["target"] if targets else []), *names, "n", *based]
    rows = [_line(heads), "|" + "---|" * len(heads)]
    group = ""
    for line in lines:
        title = line.task or line.subgoal or line.name
        if (targets or line.held_out) and line.group != group:
            group = line.group
            heading = group.removeprefix(f"{HELD_OUT_GROUP}: ")
            rows.append(_line([f"**{heading}**", *[""] * (len(heads) - 1)]))
        e = line.any.estimate
        n = f"{e.n}" if e.clusters in (0, e.n) else f"{e.n} ({e.clusters} scenes)"
        values = [_value(line.found.get(name)) for name in names]
        others = [_number(line.any.baselines[b]) if b in line.any.baselines else "" for b in based]
        rows.append(_line([title, *([_target(line.any)] if targets else []), *values, n, *others]))
    return rows


def _target(figure: Figure) -> str:
    return "" if figure.target is None else f"{'≤' if figure.at_most else '≥'} {figure.target:g}"


def _value(figure: Figure | None) -> str:
    if figure is None:
        return ""
    e = figure.estimate
    ends = f" [{e.lo:.3f}, {e.hi:.3f}]" if math.isfinite(e.lo) and math.isfinite(e.hi) else ""
    return _number(e.value) + ends + MARKS.get(figure.mark, "")


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3f}"


def _notes(lines: Sequence[Line], names: Sequence[str]) -> list[str]:
    """List the notes; once where those of all evaluations are the same."""
    listed = []
    for line in lines:
        notes = {
            name: line.found[name].note for name in names if name in line.found and line.found[name].note
        }
        if len(set(notes.values())) == 1:
            listed.append(f"- {line.name}: {next(iter(notes.values()))}")
        else:
            listed += [f"- {line.name}, {name}: {note}" for name, note in notes.items()]
    return ["### Notes", "", *listed] if listed else []


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Print the tables; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--column",
        nargs="+",
        action="append",
        required=True,
        metavar=("NAME", "FOLDER"),
        help="an evaluation's name and the folders of its parts",
    )
    parser.add_argument(
        "--decisions", type=Path, help="the tables of benchmarks/embedded/success_verdicts.py"
    )
    given = parser.parse_args()
    columns: dict[str, list[Figure]] = {}
    about: dict[str, Mapping[str, Any]] = {}
    for name, *folders in given.column:
        read = [read_json(Path(folder) / "figures.json") for folder in folders]
        columns[name] = [figure for figures, _ in read for figure in figures]
        about[name] = next((made_with for figures, made_with in read if figures), {})
    decisions = given.decisions.read_text(encoding="utf-8") if given.decisions else ""
    print(card(columns, about, decisions), end="")


if __name__ == "__main__":
    main()
