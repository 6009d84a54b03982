"""``stepscore ls``: what there is to choose from."""

from __future__ import annotations

import inspect
from enum import StrEnum
from typing import Annotated

import typer

from stepscore.cli import options
from stepscore.cli.tables import out, print_json, table


class Kind(StrEnum):
    """What can be listed."""

    JUDGES = "judges"
    MODELS = "models"
    READERS = "readers"
    METRICS = "metrics"


def ls(
    kind: Annotated[Kind, typer.Argument(help="What to list.")],
    json: options.Json = False,
) -> None:
    """List the judges, models, readers or metrics, with what each is and its options."""
    lists = {Kind.JUDGES: _judges, Kind.MODELS: _models, Kind.READERS: _readers, Kind.METRICS: _metrics}
    rows = lists[kind]()
    if json:
        print_json(rows)
        return
    made = table(kind.value, list(rows[0]), [list(row.values()) for row in rows])
    for number, column in enumerate(made.columns):
        column.justify, column.no_wrap = "left", number == 0
    out().print(made)


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
        taken = list(inspect.signature(make).parameters.values())
        # What stands after the slash is no option: it is given with the name.
        named = taken if name in SINGLE_MODEL_BACKENDS else taken[1:]
        rows.append(
            {
                "name": name if name in SINGLE_MODEL_BACKENDS else f"{name}/...",
                "what it is": _first_line(make),
                "options (-M)": ", ".join(map(_option, named)),
            }
        )
    return rows


def _readers() -> list[dict[str, str]]:
    from stepscore.episodes import reader_registry

    return [{"name": name, "what it reads": _first_line(make)} for name, make in reader_registry]


def _metrics() -> list[dict[str, str]]:
    from stepscore.analysis import columns_of
    from stepscore.metrics import metric_registry
    from stepscore.metrics.opd import REVISIONS

    families = {column.name: name for name, metric in metric_registry for column in metric.columns}
    by_revision = {revision: columns_of(revision) for revision in REVISIONS}
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
    return (inspect.getdoc(thing) or "").split("\n")[0]


def _option(parameter: inspect.Parameter) -> str:
    bare = parameter.default is inspect.Parameter.empty
    return parameter.name if bare else f"{parameter.name}={parameter.default}"
