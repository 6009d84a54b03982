"""``stepscore choose-template``: choose the best prompt template on one split, and report it on another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from stepscore.cli import options
from stepscore.cli.numbers import MAX_SEED, between
from stepscore.cli.tables import interval, out, percent, print_csv, print_json, table


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
    json: options.Json = False,
    csv: options.Csv = False,
) -> None:
    """Choose among prompt templates by accuracy on one labelled split, and report it on the other."""
    from stepscore.analysis import choose_template
    from stepscore.runs import open_run

    choice = choose_template([open_run(path) for path in runs], share=share, seed=seed)
    if json or csv:
        print_json(choice.to_dicts()) if json else print_csv(choice.to_dicts())
        return
    lines = []
    for c in choice.results:
        name = escape(c.template)
        lines.append(
            [
                f"[bold]{name} *[/bold]" if c is choice.best else name,
                interval(c.chosen_by.value, c.chosen_by.lo, c.chosen_by.hi),
                interval(c.reported.value, c.reported.lo, c.reported.hi),
                percent(c.reported.coverage),
                f"{c.chosen_by.n} / {c.reported.n}",
            ]
        )
    heads = ["template", "choosing\nsplit", "reporting\nsplit", "known", "subgoals"]
    console = out()
    console.print(table("Share of labelled subgoals judged right", heads, lines))
    skipped = f" {choice.left_out} labelled episodes are not in every run." if choice.left_out else ""
    console.print(
        f"* chosen on the choosing split; quote its number from the reporting split. Percent with 95 % "
        f"intervals; an unknown verdict is not right. Known: share of verdicts that are yes or no.{skipped}"
    )
