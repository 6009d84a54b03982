"""``stepscore bench``: a board of judges on labelled data."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepscore._files import write_json
from stepscore.cli import options
from stepscore.cli.formats import Format, FormatName, Json, chosen_format
from stepscore.cli.judging.progress_bar import RunBars
from stepscore.cli.key_values import read_pairs
from stepscore.cli.local_code import judge_name
from stepscore.cli.outputs import BOARD, Force, check_output, new_folder
from stepscore.cli.tables import err, print_result

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepscore.audit.board import Benchmark, BenchmarkParts, BenchOptions, Entry


@dataclass(frozen=True)
class BoardOutput:
    """What a board shows.

    Attributes:
        published: Print RoboValue's figures, of other data, below the board.
        front: Accuracy of the Pareto front against cost.
        measured_by: Who measures, for the rows.
    """

    published: bool = False
    front: str = "success_auc_within_tasks"
    measured_by: str = ""


@options.with_groups
def bench(
    source: Annotated[
        str,
        typer.Argument(
            metavar="DATASET", help="Labelled episodes, or a benchmark folder (with benchmark.json)."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            callback=new_folder,
            metavar="BOARD",
            help="Folder of the board. Rows are added to it.",
        ),
    ] = None,
    judges: Annotated[
        list[str],
        typer.Option(
            "--judges",
            metavar="A,B:KEY=VALUE",
            help="Judges with their options (`stepscore ls judges`). Repeatable.",
        ),
    ] = [],  # noqa: B006 - typer copies it
    models: Annotated[
        list[str],
        typer.Option(
            "--models",
            metavar="M,N:KEY=VALUE",
            help="Models for the judges, with their options. Repeatable.",
        ),
    ] = [],  # noqa: B006
    entries: Annotated[
        Path | None,
        typer.Option(
            "--entries",
            metavar="FILE",
            help="YAML list of judges with model, options and label.",
        ),
    ] = None,
    rows: Annotated[
        list[Path],
        typer.Option("--rows", metavar="FILE", help="Row that others measured on this data. Repeatable."),
    ] = [],  # noqa: B006
    check: Annotated[
        Path | None,
        typer.Option(
            "--check", metavar="FILE", help="Measure this row again and compare, without adding anything."
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            "--preset",
            metavar="NAME",
            help="topreward: its own tables (VOC, AUC, words, forms) for --models.",
        ),
    ] = None,
    labels: options.LabelsFile = None,
    subgoals: options.SubgoalsFile = None,
    pairs: Annotated[
        Path | None,
        typer.Option("--pairs", metavar="FILE", help="Pairs of timestamps (of `stepscore pairs make`)."),
    ] = None,
    questions: Annotated[
        Path | None,
        typer.Option("--questions", metavar="FILE", help="Questions with exact answers (JSON lines)."),
    ] = None,
    goal: options.Goal = None,
    views: options.Views = None,
    task: options.Task = None,
    limit: options.Limit = None,
    reader: options.ReaderName = None,
    *,
    test: Annotated[BoardOutput, options.KeyGroup("-T", "board")],
    engine: options.BoardEngine,
    budget: options.BudgetFlags,
    force: Force = False,
    output_format: FormatName = None,
    json: Json = False,
) -> None:
    """Compare judges on labelled episodes: accuracy, cost and latency.

    The clock, the constant and the image difference are always included. A judge that cannot run gets a row with the
    reason. Rerun the command to resume a board, or another one to add judges to it.
    """
    from stepscore.audit.board import (
        BenchOptions,
        add_claims,
        benchmark_parts,
        board_records,
        board_tables,
        front_metric,
        open_benchmark,
        open_entries,
        published_table,
        topreward_cells,
        topreward_tables,
    )
    from stepscore.audit.board import bench as run_bench
    from stepscore.errors import OptionError

    form = chosen_format(output_format, json=json)
    front_metric(test.front)
    if out is not None:
        check_output(out, BOARD, force=force)
    given = _models(models)
    chosen = [*_preset(preset, given), *_entries(judges, given, entries)]
    if out is None and check is None:
        raise OptionError("Name the folder of the board: -o BOARD")
    if not chosen and not rows and check is None:
        raise OptionError("Name judges to measure: --judges topreward --models embedded, or --entries FILE.")
    opened = open_entries(chosen, engine.base_url) if check is None else []
    call_options = engine.call_options(budget)
    for model in (model for one in opened if one.judge is not None for model in one.judge.models):
        call_options.budget.check(model.name, call_options.price(model))
    parts = _with_given(benchmark_parts(source), labels, subgoals, pairs, questions, goal)
    further = _further(
        labels=labels, subgoals=subgoals, pairs=pairs, questions=questions, goal=goal, views=views
    )
    further += _further(task=task, limit=limit, reader=reader)
    how = BenchOptions(
        views=options.split_names(views),
        workers=engine.workers,
        call_options=call_options,
        base_url=engine.base_url,
        front=test.front,
        measured_by=test.measured_by,
        further=further,
    )
    benchmark = open_benchmark(parts, shown_as=source, task=task, limit=limit, reader=reader)
    options.print_notes(benchmark.episodes)
    if check is not None or out is None:
        _check(check or Path(), benchmark, how, dict(given), chosen, form)
        return
    add_claims(rows, benchmark, out)
    with RunBars() as bars:
        board = run_bench(benchmark, opened, out, how, on_start=bars.start, on_done=bars.advance)
    written = board.write(out)
    if preset is not None:
        cells = [cell for name, how_asked in given for cell in topreward_cells(board, out, name, how_asked)]
        records = [cell.to_dict() for cell in cells]
        write_json(out / f"{preset}.json", records)
        print_result(form, topreward_tables(cells), records)
        err().print(f"Board: {written}\nTables: {out / preset}.json", soft_wrap=True)
        return
    print_result(
        form,
        [*board_tables(board), *([published_table()] if test.published else [])],
        board.to_dict(),
        csv_rows=board_records(board),
    )
    err().print(f"Fingerprint of the data: {benchmark.fingerprint}\nBoard: {written}", soft_wrap=True)


def _preset(name: str | None, models: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Entry]:
    from stepscore.audit.board import topreward_entries
    from stepscore.errors import OptionError, UnknownNameError

    if name is None:
        return []
    if name != "topreward":
        raise UnknownNameError("preset", name, ["topreward"])
    if not models:
        raise OptionError(
            "--preset topreward measures models: --models embedded, or see `stepscore ls models`."
        )
    return topreward_entries(models)


def _models(texts: list[str]) -> list[tuple[str, Mapping[str, Any]]]:
    from stepscore.audit.board import split_entry
    from stepscore.models import model_registry

    found: list[tuple[str, Mapping[str, Any]]] = []
    for text in _parts(texts):
        name, pairs = split_entry(text)
        backend = name.partition("/")[0]
        make = model_registry.get(backend) if backend in model_registry.names() else None
        found.append((name, read_pairs(pairs, "--models", make)))
    return found


def _entries(
    texts: list[str], models: Sequence[tuple[str, Mapping[str, Any]]], file: Path | None
) -> list[Entry]:
    from stepscore.audit.board import Entry, combined, read_entries, split_entry
    from stepscore.judges import judge_registry

    judges = []
    for text in _parts(texts):
        name, pairs = split_entry(text)
        name = judge_name(name)
        judges.append(Entry(name, None, read_pairs(pairs, "--judges", judge_registry.get(name))))
    return [*combined(judges, models), *(read_entries(file) if file is not None else [])]


def _parts(texts: list[str]) -> list[str]:
    return [part for text in texts for part in options.split_names(text) or []]


def _with_given(
    parts: BenchmarkParts,
    labels: Path | None,
    subgoals: Path | None,
    pairs: Path | None,
    questions: Path | None,
    goal: str | None,
) -> BenchmarkParts:
    """Return the parts of the benchmark, overridden by the command line."""
    return replace(
        parts,
        labels=labels or parts.labels,
        subgoals=subgoals or parts.subgoals,
        pairs=pairs or parts.pairs,
        questions=questions or parts.questions,
        goal=goal or parts.goal,
    )


def _further(**given: object) -> list[str]:
    return [word for name, value in given.items() if value is not None for word in (f"--{name}", str(value))]


def _check(
    file: Path,
    benchmark: Benchmark,
    how: BenchOptions,
    models: Mapping[str, Mapping[str, Any]],
    judges: Sequence[Entry],
    form: Format,
) -> None:
    """Measure a row again; exit with 1 if it does not reproduce."""
    from stepscore.audit.board import check_row, check_table, read_row

    row = read_row(file)
    with tempfile.TemporaryDirectory() as folder, RunBars() as bars:
        result = check_row(
            row,
            benchmark,
            Path(folder),
            how,
            models=models,
            judges=judges,
            on_start=bars.start,
            on_done=bars.advance,
        )
    stored = result.to_dict()
    print_result(form, [check_table(result)], stored, csv_rows=stored["values"])
    if not result.reproduces:
        raise typer.Exit(1)
