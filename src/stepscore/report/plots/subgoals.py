"""Subgoal success vectors as dots with intervals: one panel per task, one row per subgoal, one dot per policy.

Verdicts of the judge and labels are in separate panels, side by side.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from stepscore.analysis import SubgoalTable
from stepscore.report.plots.leaderboard import bare_rows, draw_estimate
from stepscore.report.plots.style import (
    BASE,
    COLUMN_INCHES,
    GREY,
    PALE,
    SMALL,
    fit_lines,
    group_name,
    group_style,
    inch_axes,
    inch_text,
    percent_axis,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_PAGE_INCHES = 8.5
"""Maximum height of a figure; further tasks go to the next page."""

TITLE_INCHES, TICKS_INCHES = 0.2, 0.2
_NOTE: Mapping[str, Any] = {"fontsize": SMALL, "color": GREY}


class TaskVectors(NamedTuple):
    """The success vectors of one task.

    Attributes:
        task: Its name; ``None`` where the source names none.
        names: Its subgoals in order.
        tables: Source of the verdicts (``"judge"`` or the name of one of several, ``"label"``) to (group number,
            table) of every group.
    """

    task: str | None
    names: tuple[str, ...]
    tables: Mapping[str, tuple[tuple[int, SubgoalTable], ...]]


def task_vectors(
    tables: Sequence[SubgoalTable], *, apart: Sequence[str] = ()
) -> tuple[list[TaskVectors], list[str]]:
    """Group the tables by task and list of subgoals; also return the names of the groups, by group number.

    Args:
        tables: From :func:`stepscore.analysis.subgoal_tables`.
        apart: What has a panel of its own: the judge, where there are several. A group looks the same in all.
    """
    groups = [tuple((k, v) for k, v in table.group.items() if k not in ("task", *apart)) for table in tables]
    order = sorted(set(groups), key=lambda group: [(v is None, v or "") for _, v in group])
    by_task: dict[tuple[str | None, tuple[str, ...]], dict[str, dict[int, SubgoalTable]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for group, table in zip(groups, tables, strict=True):
        judge = group_name({key: table.group[key] for key in apart}) if apart else "judge"
        source = "label" if table.source == "label" else judge
        # Labels are the same beside every judge.
        by_task[table.group["task"], table.names][source].setdefault(order.index(group), table)
    tasks = [
        TaskVectors(
            task,
            names,
            {source: tuple(sorted(rows.items(), key=lambda r: r[0])) for source, rows in by.items()},
        )
        for (task, names), by in by_task.items()
    ]
    return tasks, [group_name(dict(group)) for group in order]


def draw_vectors(
    tasks: Sequence[TaskVectors], groups: Sequence[str], width: float = COLUMN_INCHES
) -> Iterator[Figure]:
    """Draw the tasks as figures of this width in inches, each at most a page high."""
    row_inches = max(0.26, 0.06 + 0.085 * len(groups))
    page: list[TaskVectors] = []
    used = 0.0
    for task in tasks:
        height = TITLE_INCHES + row_inches * len(task.names) + TICKS_INCHES
        if page and used + height > MAX_PAGE_INCHES:
            yield _page(page, groups, width, row_inches)
            page, used = [], 0.0
        page.append(task)
        used += height
    if page:
        yield _page(page, groups, width, row_inches)


def _page(tasks: Sequence[TaskVectors], groups: Sequence[str], width: float, row_inches: float) -> Figure:
    from matplotlib.figure import Figure

    sources = sorted({source for task in tasks for source in task.tables}, key=lambda s: (s == "label", s))
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
        heading = next(
            (
                text
                for text in (f"reached, by {source} (%)", f"by {source} (%)")
                if 0.047 * len(text) < panel + gap
            ),
            fit_lines(f"by {source}", panel, most=1),
        )
        inch_text(figure, names_inches + column * (panel + gap), top, heading, **_NOTE)
    top += 0.1
    for task in tasks:
        counts = _counts(task)
        room = width - 0.2 - 0.05 * len(counts)
        title = fit_lines(task.task or "(no task name)", room, most=1, points=BASE + 0.7)
        inch_text(figure, 0.04, top + 0.06, title, fontweight="bold")
        inch_text(figure, width - 0.1, top + 0.07, counts, ha="right", **_NOTE)
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
        Line2D([], [], color=group_style(k).colour, marker=group_style(k).marker, lw=1.1, label=name)
        for k, name in enumerate(groups)
    ]
    figure.legend(handles=handles, loc="upper center", ncols=across, borderpad=0.1, labelspacing=0.2)


def _counts(task: TaskVectors) -> str:
    """Return the number of episodes per dot: the fewest and the most."""
    counts = [e.n for rows in task.tables.values() for _, table in rows for e in table.reached]
    return f"n = {min(counts)}" if min(counts) == max(counts) else f"n = {min(counts)}…{max(counts)}"


def _panel(axes: Axes, tables: Sequence[tuple[int, SubgoalTable]], groups: int, subgoals: int) -> None:
    bare_rows(axes)
    percent_axis(axes, "x")
    axes.set_ylim(subgoals - 0.5, -0.5)
    for border in range(1, subgoals):
        axes.axhline(border - 0.5, color=PALE, lw=0.4)
    for number, table in tables:
        shift = 0.0 if groups == 1 else 0.7 * (number / (groups - 1) - 0.5)
        for y, e in enumerate(table.reached):
            draw_estimate(axes, e, y + shift, number)
