"""``stepscore ls``: list the judges, models, readers and metrics that can be chosen."""

from __future__ import annotations

import inspect
from enum import StrEnum
from typing import Annotated

import typer
from rich.markup import escape

from stepscore._tables import Column, PrintedTable, TableRow, text_cell
from stepscore.cli.formats import Format, FormatName, Json, chosen_format
from stepscore.cli.tables import out, print_result, table
from stepscore.errors import OptionError, UnknownNameError


class Kind(StrEnum):
    """Kind of thing to list."""

    JUDGES = "judges"
    MODELS = "models"
    READERS = "readers"
    METRICS = "metrics"


def ls(
    kind: Annotated[
        Kind | None,
        typer.Argument(metavar="[KIND]", help="Kind of thing to list; default: the names of all."),
    ] = None,
    only: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Only this one of them; default: all.")
    ] = None,
    published: Annotated[
        bool,
        typer.Option(
            "--published", help="With models: the published reward models whose profile is known, one a row."
        ),
    ] = False,
    output_format: FormatName = None,
    json: Json = False,
) -> None:
    """List judges, models, readers or metrics with their options."""
    if published and (kind is not Kind.MODELS or only is not None):
        raise OptionError("--published lists all published models: stepscore ls models --published")
    chosen = chosen_format(output_format, json=json)
    lists = {Kind.JUDGES: _judges, Kind.MODELS: _models, Kind.READERS: _readers, Kind.METRICS: _metrics}
    if kind is None:
        _print_names({each.value: [row["name"] for row in rows()] for each, rows in lists.items()}, chosen)
        return
    rows = _published() if published else _only(lists[kind](), kind, only)
    if chosen is not Format.TABLE:
        print_result(chosen, [_table(kind.value.capitalize(), rows)], rows)
        return
    if published:
        rows = [{column: row[column] for column in ("name", "judge", "licence", "needs")} for row in rows]
    listing = table(
        kind.value.capitalize(), list(rows[0]), [[escape(cell) for cell in row.values()] for row in rows]
    )
    for index, column in enumerate(listing.columns):
        column.justify, column.no_wrap = "left", index == 0
    out().print(listing)


def _only(rows: list[dict[str, str]], kind: Kind, name: str | None) -> list[dict[str, str]]:
    """Return the row of one name, all without one; a model is found with and without the text after its slash."""
    if name is None:
        return rows
    found = [row for row in rows if row["name"].partition("/")[0] == name.partition("/")[0]]
    if not found:
        raise UnknownNameError(kind.value.removesuffix("s"), name, [row["name"] for row in rows])
    return found


def _table(title: str, rows: list[dict[str, str]]) -> PrintedTable:
    columns = tuple(Column(name, left=True) for name in rows[0])
    return PrintedTable(title, columns, tuple(TableRow(tuple(map(text_cell, row.values()))) for row in rows))


def _print_names(names: dict[str, list[str]], form: Format) -> None:
    """Print the names of every kind, and how to read more of one."""
    if form is not Format.TABLE:
        rows = [{"kind": kind, "name": name} for kind, listed in names.items() for name in listed]
        print_result(form, [_table("Names", rows)], names, csv_rows=rows)
        return
    for kind, listed in names.items():
        out().print(f"[bold]{kind}[/bold]: {escape(', '.join(listed))}", soft_wrap=True, markup=True)
    out().print("Summaries and options: stepscore ls KIND", soft_wrap=True)


def _judges() -> list[dict[str, str]]:
    from stepscore.judges import judge_registry

    return [
        {
            "name": name,
            "what it is": _first_line(make),
            "options (-J)": ", ".join(_option(p) for p in inspect.signature(make).parameters.values()),
        }
        for name, make in judge_registry
    ]


def _models() -> list[dict[str, str]]:
    from stepscore.models import SINGLE_MODEL_BACKENDS, model_registry

    rows = []
    for name, make in model_registry:
        parameters = list(inspect.signature(make).parameters.values())
        # The first is the text after the slash of the model string, not an option. Nor is a field with a factory
        # an option: it holds state.
        given = parameters if name in SINGLE_MODEL_BACKENDS else parameters[1:]
        rows.append(
            {
                "name": name if name in SINGLE_MODEL_BACKENDS else f"{name}/...",
                "what it is": _first_line(make),
                "options (-M)": ", ".join(_option(p) for p in given if repr(p.default) != "<factory>"),
            }
        )
    return rows


def _published() -> list[dict[str, str]]:
    from stepscore.judges.published.profiles import published_checkpoints

    found = list(published_checkpoints())
    names = [checkpoint.short_name for _, checkpoint in found]
    return [
        {
            # Two owners may publish one name; then the owner is shown, too.
            "name": checkpoint.short_name if names.count(checkpoint.short_name) == 1 else checkpoint.id,
            "id": checkpoint.id,
            "judge": profile.judge,
            "profile": profile.name,
            "licence": checkpoint.licence + (" (non-commercial)" if checkpoint.non_commercial else ""),
            "needs": profile.needs,
            "citation": profile.citation,
        }
        for profile, checkpoint in found
    ]


def _readers() -> list[dict[str, str]]:
    from stepscore.episodes import reader_registry

    return [{"name": name, "what it reads": _first_line(make)} for name, make in reader_registry]


def _metrics() -> list[dict[str, str]]:
    from stepscore.analysis import metric_columns
    from stepscore.metrics import metric_registry
    from stepscore.metrics.opd import REVISIONS

    families = {column.name: name for name, metric in metric_registry for column in metric.columns}
    by_revision = {revision: metric_columns(revision) for revision in REVISIONS}
    rows = {}
    for column in (column for columns in by_revision.values() for column in columns):
        having = [revision for revision, columns in by_revision.items() if column in columns]
        everywhere = len(having) == len(by_revision)
        rows[column.name] = {
            "name": column.name,
            "from": families.get(column.name, "run")
            if everywhere
            else f"opd, --revision {', '.join(having)}",
            "better": column.better,
            "what it is": column.summary,
        }
    return list(rows.values())


def _first_line(thing: object) -> str:
    return (inspect.getdoc(thing) or "").split("\n")[0].replace("``", "`")


def _option(parameter: inspect.Parameter) -> str:
    bare = parameter.default is inspect.Parameter.empty
    return parameter.name if bare else f"{parameter.name}={parameter.default}"
