"""Subgoal success vectors as dots with intervals: a panel a task, a row a subgoal, a mark a policy.

Verdicts of the judge and labels of people stand in panels of their own, side by side.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from stepscore.analysis import By, SubgoalTable
from stepscore.report.plots.leaderboard import bare_rows, draw_estimate
from stepscore.report.plots.style import (
    BASE,
    COLUMN_INCHES,
    GREY,
    PALE,
    SMALL,
    fit_lines,
    group_name,
    inch_axes,
    inch_text,
    look,
    percent_axis,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SOURCES: tuple[By, ...] = ("judge", "label")
PAGE_INCHES = 8.5
"""Greatest height of a figure; further tasks go to the next."""

TITLE_INCHES, TICKS_INCHES = 0.2, 0.2
_NOTE: Mapping[str, Any] = {"fontsize": SMALL, "color": GREY}


class TaskVectors(NamedTuple):
    """One task: its subgoals, and the tables of every group by each source of verdicts."""

    task: str | None
    names: tuple[str, ...]
    tables: Mapping[By, tuple[tuple[int, SubgoalTable], ...]]


def task_vectors(tables: Sequence[SubgoalTable]) -> tuple[list[TaskVectors], list[str]]:
    """The tables by task and list of subgoals, and the names of the groups; a group is told by its number."""
    kinds = [tuple((k, v) for k, v in made.group.items() if k != "task") for made in tables]
    order = sorted(set(kinds), key=lambda kind: [(v is None, v or "") for _, v in kind])
    found: dict[tuple[str | None, tuple[str, ...]], dict[By, list[tuple[int, SubgoalTable]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for kind, made in zip(kinds, tables, strict=True):
        found[made.group["task"], made.names][made.source].append((order.index(kind), made))
    tasks = [
        TaskVectors(
            task, names, {source: tuple(sorted(rows, key=lambda r: r[0])) for source, rows in by.items()}
        )
        for (task, names), by in found.items()
    ]
    return tasks, [group_name(dict(kind)) for kind in order]


def draw_vectors(
    tasks: Sequence[TaskVectors], groups: Sequence[str], width: float = COLUMN_INCHES
) -> Iterator[Figure]:
    """The tasks as figures of this width in inches, as many as keep to a page's height."""
    row_inches = max(0.26, 0.06 + 0.085 * len(groups))
    page: list[TaskVectors] = []
    used = 0.0
    for task in tasks:
        height = TITLE_INCHES + row_inches * len(task.names) + TICKS_INCHES
        if page and used + height > PAGE_INCHES:
            yield _page(page, groups, width, row_inches)
            page, used = [], 0.0
        page.append(task)
        used += height
    if page:
        yield _page(page, groups, width, row_inches)


def _page(tasks: Sequence[TaskVectors], groups: Sequence[str], width: float, row_inches: float) -> Figure:
    from matplotlib.figure import Figure

    sources = [source for source in SOURCES if any(source in task.tables for task in tasks)]
    across = max(1, int(width / (0.34 + 0.052 * max(len(name) for name in groups))))
    across = math.ceil(len(groups) / math.ceil(len(groups) / across))
    top = 0.07 + 0.14 * math.ceil(len(groups) / across)
    rows = sum(len(task.names) for task in tasks)
    height = top + 0.14 + rows * row_inches + len(tasks) * (TITLE_INCHES + TICKS_INCHES)
    figure = Figure(figsize=(width, height))
    _legend(figure, groups, across)
    names_inches, gap = 0.36 * width, 0.14
    panel = (width - names_inches - 0.14 - gap * (len(sources) - 1)) / len(sources)
    for column, source in enumerate(sources):
        inch_text(figure, names_inches + column * (panel + gap), top, f"reached, by {source} (%)", **_NOTE)
    top += 0.1
    for task in tasks:
        title = fit_lines(task.task or "(no task name)", width - 0.5, most=1, points=BASE)
        inch_text(figure, 0.04, top + 0.06, title, fontweight="bold")
        inch_text(figure, width - 0.1, top + 0.07, _counts(task), ha="right", **_NOTE)
        top += TITLE_INCHES
        high = row_inches * len(task.names)
        for column, source in enumerate(sources):
            axes = inch_axes(figure, names_inches + column * (panel + gap), top, panel, high)
            _panel(axes, task.tables.get(source, ()), len(groups), len(task.names))
            names = [fit_lines(name, names_inches - 0.05, most=int(row_inches / 0.1)) for name in task.names]
            axes.set_yticks(range(len(names)), names if column == 0 else [""] * len(names))
        top += high + TICKS_INCHES
    return figure


def _legend(figure: Figure, groups: Sequence[str], across: int) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=look(k).colour, marker=look(k).marker, lw=1.1, label=name)
        for k, name in enumerate(groups)
    ]
    figure.legend(handles=handles, loc="upper center", ncols=across, borderpad=0.1, labelspacing=0.2)


def _counts(task: TaskVectors) -> str:
    """How many episodes are behind a dot: the fewest and the most."""
    every = [e.n for rows in task.tables.values() for _, made in rows for e in made.reached]
    return f"n = {min(every)}" if min(every) == max(every) else f"n = {min(every)}…{max(every)}"


def _panel(axes: Axes, tables: Sequence[tuple[int, SubgoalTable]], groups: int, subgoals: int) -> None:
    bare_rows(axes)
    percent_axis(axes, "x")
    axes.set_ylim(subgoals - 0.5, -0.5)
    for border in range(1, subgoals):
        axes.axhline(border - 0.5, color=PALE, lw=0.4)
    for number, made in tables:
        shift = 0.0 if groups == 1 else 0.7 * (number / (groups - 1) - 0.5)
        for y, e in enumerate(made.reached):
            draw_estimate(axes, e, y + shift, number)
