"""Subgoals by task: a compact matrix of subgoals and policies, and tables with intervals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from stepscore._tables import (
    Cell,
    Column,
    PrintedTable,
    TableRow,
    count_cell,
    estimate_cell,
    group_name,
    percent,
    percent_cell,
    text_cell,
)
from stepscore.analysis.pooling import coverage_note
from stepscore.analysis.subgoals import SubgoalTable, VerdictSource
from stepscore.analysis.tables.metric_tables import episodes_behind, no_interval_note, scope_of

SOURCES: tuple[VerdictSource, ...] = ("judge", "label")


def subgoal_matrices(tables: Sequence[SubgoalTable]) -> list[PrintedTable]:
    """Return a matrix per task: a row per subgoal, a column per group, percent reached by judge / by label."""
    by_task: dict[tuple[str | None, tuple[str, ...]], list[SubgoalTable]] = defaultdict(list)
    for table in tables:
        by_task[table.group["task"], table.names].append(table)
    return [_matrix(task, names, found) for (task, names), found in by_task.items()]


def _matrix(task: str | None, names: tuple[str, ...], tables: Sequence[SubgoalTable]) -> PrintedTable:
    sources = [source for source in SOURCES if any(table.source == source for table in tables)]
    found = {(_columns_key(table), table.source): table for table in tables}
    groups = list(dict.fromkeys(key for key, _ in found))
    rows = []
    for index, name in enumerate(names):
        cells = [_pair([found.get((key, source)) for source in sources], index) for key in groups]
        rows.append(TableRow((text_cell(name), *cells), {"task": task}))
    by = " / ".join(f"by {source}" for source in sources)
    notes = [
        f"Percent of the episodes that reached it: {by}.",
        _episodes_note({key: [found[key, s] for s in sources if (key, s) in found] for key in groups}),
    ]
    drafted = "" if all(table.reviewed for table in tables) else " (drafted; not yet reviewed by a person)"
    columns = [Column(group_name(dict(key))) for key in groups]
    where, scope = scope_of({group_name(dict(_columns_key(table))): table.fixed_scenes for table in tables})
    title = f"Subgoals{drafted}: {task or 'unknown task'}{where}"
    notes += [scope] if scope else []
    return PrintedTable(title, (Column("subgoal", left=True), *columns), tuple(rows), tuple(notes))


def _columns_key(table: SubgoalTable) -> tuple[tuple[str, str | None], ...]:
    return tuple((name, part) for name, part in table.group.items() if name != "task")


def _pair(tables: Sequence[SubgoalTable | None], index: int) -> Cell:
    parts = tuple(
        percent_cell(table.reached[index].value, 0, metric=f"reached:{table.names[index]}:{table.source}")
        if table is not None
        else Cell("–")
        for table in tables
    )
    return Cell(" / ".join(part.text for part in parts), parts=parts)


def _episodes_note(by_group: Mapping[Any, Sequence[SubgoalTable]]) -> str:
    """Return n once if it is equal in all groups, else for each."""
    counts = {
        group_name(dict(key)): max(episodes_behind(table.reached) for table in tables)
        for key, tables in by_group.items()
    }
    if len(set(counts.values())) == 1:
        each = "" if len(counts) == 1 else " in each column"
        return f"n = {next(iter(counts.values()))} episodes{each}."
    return f"n, episodes: {', '.join(f'{name} {n}' for name, n in counts.items())}."


def subgoal_detail_tables(tables: Sequence[SubgoalTable]) -> list[PrintedTable]:
    """Return a table per task, group and source of verdicts, with all intervals."""
    return [_details(table) for table in tables]


def _details(subgoals: SubgoalTable) -> PrintedTable:
    where = ", ".join("unknown" if part is None else part for part in subgoals.group.values())
    columns = {
        "reached": subgoals.reached,
        "reached given previous": subgoals.given_previous,
        "fails first": subgoals.fails_first,
    }
    n = episodes_behind(subgoals.reached)
    rows = tuple(
        TableRow(
            (
                text_cell(name),
                count_cell(n),
                *(estimate_cell(e[i], n, f"{word}:{name}:{subgoals.source}") for word, e in columns.items()),
            ),
            subgoals.group,
        )
        for i, name in enumerate(subgoals.names)
    )
    violations = subgoals.violations
    in_scenes, scope = scope_of({where: subgoals.fixed_scenes})
    notes = [
        f"Out of order: {percent(violations.value)} % of {violations.n} episodes.",
        scope,
        no_interval_note(rows),
    ]
    drafted = "" if subgoals.reviewed else " (drafted; not yet reviewed by a person)"
    heads = (
        Column("subgoal", left=True),
        Column("n"),
        Column("reached", "higher"),
        Column("given previous", "higher"),
        Column("fails first", "lower"),
    )
    title = f"Subgoals{drafted} by {subgoals.source}: {where}{in_scenes}"
    return PrintedTable(title, heads, rows, tuple(note for note in notes if note))


def subgoal_coverage_notes(tables: Sequence[SubgoalTable]) -> list[str]:
    """Return a note per task and source of verdicts whose groups differ in coverage."""
    coverages: dict[tuple[Any, ...], dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for found in tables:
        for subgoal, estimate in zip(found.names, found.reached, strict=True):
            coverages[found.group["task"], found.source][subgoal][group_name(found.group)] = estimate.coverage
    return [note for note in (coverage_note(by_subgoal) for by_subgoal in coverages.values()) if note]
