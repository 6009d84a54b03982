"""``stepscore choose-template``: choose the best prompt template on one split, and report it on another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stepscore._tables import Column, PrintedTable, TableRow, estimate_cell, percent_cell, text_cell
from stepscore.cli.formats import Csv, FormatName, Json, chosen_format
from stepscore.cli.numbers import MAX_SEED, between
from stepscore.cli.tables import print_result


def choose_template(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN", help="Run folders, one per template, over the same episodes."),
    ],
    share: Annotated[
        float,
        typer.Option(
            "--share",
            callback=between(0, 1),
            help="Share of the labelled scenes to choose on; the rest is reported on.",
        ),
    ] = 0.5,
    seed: Annotated[
        int, typer.Option("--seed", callback=between(0, MAX_SEED), help="Random seed of the split.")
    ] = 0,
    output_format: FormatName = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Choose among prompt templates by accuracy on one labelled split, and report it on the other."""
    from stepscore.analysis import choose_template
    from stepscore.runs import open_run

    chosen = chosen_format(output_format, json=json, csv=csv)
    choice = choose_template([open_run(path) for path in runs], share=share, seed=seed)
    rows = []
    for c in choice.results:
        best = c is choice.best
        cells = (
            text_cell(f"{c.template} *" if best else c.template, bold=best),
            estimate_cell(c.chosen_by, None, "choosing split"),
            estimate_cell(c.reported, None, "reporting split"),
            percent_cell(c.reported.coverage),
            text_cell(f"{c.chosen_by.n} / {c.reported.n}"),
        )
        rows.append(TableRow(cells, {"template": c.template}))
    columns = (
        Column("template", left=True),
        Column("choosing\nsplit", "higher"),
        Column("reporting\nsplit", "higher"),
        Column("known", "higher"),
        Column("subgoals"),
    )
    skipped = f" {choice.left_out} labelled episodes are not in every run." if choice.left_out else ""
    note = (
        f"* chosen on the choosing split; quote its number from the reporting split. Percent with 95 % "
        f"intervals; an unknown verdict is not right. Known: share of verdicts that are yes or no.{skipped}"
    )
    printed = PrintedTable("Share of labelled subgoals judged right", columns, tuple(rows), (note,))
    print_result(chosen, [printed], choice.to_dicts())
