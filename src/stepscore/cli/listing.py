"""``stepscore ls``: what there is to choose from."""

from __future__ import annotations

import inspect
from enum import StrEnum
from typing import Annotated

import typer

from stepscore.cli import options
from stepscore.cli.show import out, print_json, table


class Kind(StrEnum):
    """What can be listed."""

    JUDGES = "judges"
    READERS = "readers"
    METRICS = "metrics"


def ls(
    kind: Annotated[Kind, typer.Argument(help="What to list.")],
    json: options.Json = False,
) -> None:
    """List the judges, readers or metrics, with what each is and its options."""
    rows = {Kind.JUDGES: _judges, Kind.READERS: _readers, Kind.METRICS: _metrics}[kind]()
    if json:
        print_json(rows)
        return
    made = table(kind.value, list(rows[0]), [list(row.values()) for row in rows])
    for number, column in enumerate(made.columns):
        column.justify, column.no_wrap = "left", number == 0
    out().print(made)


def _judges() -> list[dict[str, str]]:
    from stepscore.judges import judges

    return [
        {
            "name": name,
            "what it is": _first_line(make),
            "options (-J)": ", ".join(_option(p) for p in inspect.signature(make).parameters.values()),
        }
        for name, make in judges
    ]


def _readers() -> list[dict[str, str]]:
    from stepscore.episodes import readers

    return [{"name": name, "what it reads": _first_line(make)} for name, make in readers]


def _metrics() -> list[dict[str, str]]:
    from stepscore.metrics import metrics

    return [
        {"name": column.name, "from": name, "better": column.better, "what it is": column.summary}
        for name, metric in metrics
        for column in metric.columns
    ]


def _first_line(thing: object) -> str:
    return (inspect.getdoc(thing) or "").split("\n")[0]


def _option(parameter: inspect.Parameter) -> str:
    bare = parameter.default is inspect.Parameter.empty
    return parameter.name if bare else f"{parameter.name}={parameter.default}"
