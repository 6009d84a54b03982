"""The tables that ``stepscore weights`` prints before anything is trained."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscore._tables import Column, PrintedTable, TableRow, count_cell, number_cell, percent_cell, text_cell
from stepscore.cli.tables import out, print_table

if TYPE_CHECKING:
    from stepscore.curation import Removal, WeightDistribution, Weighting

EPISODES_PER_END = 5
"""Number of highest-weighted and of lowest-weighted episodes printed."""

MOST_REMOVED = 20
"""Most removed episodes printed; ``--json`` lists all of them."""

BAR_WIDTH = 40
"""Characters of the histogram's longest bar."""


_SUCCESS = {True: "yes", False: "no", None: "–"}


def how_to_train(weighting: Weighting, command: str | None, file: Path) -> str:
    """Return the command that trains with the file, or Python code if LeRobot has no command for it."""
    if not weighting.frames.numbered:
        return "The source is not a LeRobot dataset: index and episode_index count the run's episodes by id."
    if command is not None:
        return f"Train (LeRobot 0.6 or later):\n{command}"
    return (
        "LeRobot cannot read these weights. In a PyTorch loop:\n"
        f"from stepscore.curation import FrameWeights\nweights = FrameWeights.read({str(file)!r}, unknown=0.0)"
    )


def how_to_train_static(file: Path) -> str:
    """Return the options that make LeRobot read static weights, if its version supports them."""
    return (
        "Static weights, for a LeRobot with sample_weighting.type=static (pull request 4222): "
        f"--sample_weighting.type=static --sample_weighting.weights_path={shlex.quote(str(file.resolve()))}"
    )


def as_row(
    weighting: Weighting,
    distribution: WeightDistribution,
    removal: Removal,
    files: list[Path],
    command: str | None,
) -> dict[str, Any]:
    """Return what ``--json`` prints."""
    return {
        "method": weighting.method,
        "form": weighting.form,
        "options": dict(weighting.options),
        "facts": dict(weighting.facts),
        **distribution.row(),
        "kept": len(weighting.frames.episodes) + len(weighting.frames.left_out or {}),
        "dropped": {episode.id: episode.reason for episode in removal.episodes},
        "removal": removal.row(),
        "left_out": dict(weighting.frames.left_out or {}),
        "files": [str(path) for path in files],
        "command": command,
    }


def print_weights(weighting: Weighting, distribution: WeightDistribution, removal: Removal) -> None:
    """Print the histogram, shares, statistics of the weighting, and highest- and lowest-weighted episodes."""
    console = out()
    frames = weighting.frames
    name_and_form = " ".join(dict.fromkeys((weighting.method, weighting.form)))
    stated = [f"{name} {_stated(value)}" for name, value in weighting.options.items() if value is not None]
    options_text = f" ({', '.join(stated)})" if stated else ""
    console.print(
        f"{name_and_form} on {frames.channel}{options_text}: {distribution.n} frames of "
        f"{len(frames.episodes)} episodes; {len(removal.episodes)} dropped, "
        f"{len(frames.left_out or {})} without frames",
        soft_wrap=True,
        markup=False,
    )
    for printed in weight_tables(weighting, distribution, removal):
        print_table(printed)


def weight_tables(
    weighting: Weighting, distribution: WeightDistribution, removal: Removal
) -> list[PrintedTable]:
    """Return tables of the histogram, statistics, highest and lowest weights, and removed episodes."""
    episodes = [*_episodes(distribution, removal), *_removed(removal)]
    return [_histogram(distribution), _shares(weighting, distribution), *episodes]


def _stated(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {part}" for name, part in value.items())
    return str(value)


def _removed(removal: Removal) -> list[PrintedTable]:
    if not removal.episodes:
        return []
    first = removal.episodes[:MOST_REMOVED]
    # The path of the page is in a note, so that no address is folded.
    page = first[0].link.partition("#")[0]
    rows = tuple(
        TableRow(
            (
                text_cell(e.id),
                text_cell(e.reason),
                text_cell(_SUCCESS[e.success]),
                text_cell(e.link.removeprefix(page)),
            )
        )
        for e in first
    )
    more = len(removal.episodes) - len(first)
    notes = [f"and {more} more; --json lists all of them"] if more else []
    notes += [f"The report: {page}"] if page else []
    notes += [removal.text] if removal.text else []
    heads = ("episode", "because", "success\nby label", "in the report")
    return [PrintedTable("Removed", tuple(Column(head, left=True) for head in heads), rows, tuple(notes))]


def _histogram(distribution: WeightDistribution) -> PrintedTable:
    most = max(int(distribution.counts.max(initial=0)), 1)
    total = max(int(distribution.counts.sum()), 1)
    rows = tuple(
        TableRow(
            (
                text_cell(f"{low:.2f}…{high:.2f}"),
                count_cell(int(count)),
                percent_cell(float(count / total)),
                text_cell("█" * round(BAR_WIDTH * int(count) / most)),
            )
        )
        for low, high, count in zip(
            distribution.edges[:-1], distribution.edges[1:], distribution.counts, strict=True
        )
    )
    columns = (Column("weight", left=True), Column("frames"), Column("%"), Column("", left=True))
    return PrintedTable("Weights", columns, rows)


def _shares(weighting: Weighting, distribution: WeightDistribution) -> PrintedTable:
    figures = {
        "at 0": distribution.at_zero,
        "at 1": distribution.at_one,
        "at the largest": distribution.at_most,
        "unknown": distribution.unknown,
        "effective sample size": distribution.effective,
    }
    rows = tuple(TableRow((text_cell(name), percent_cell(value))) for name, value in figures.items())
    facts = (f"{name}: {value:.4g}" for name, value in weighting.facts.items())
    notes = (f"mean weight: {distribution.mean:.3f}", *facts)
    return PrintedTable("Shares", (Column("of the frames", left=True), Column("%")), rows, notes)


def _gone(removal: Removal) -> list[TableRow]:
    """Return the removed episodes as table rows."""
    return [
        TableRow(
            (text_cell(e.id), text_cell("removed"), number_cell(0.0, ".2f"), text_cell(_SUCCESS[e.success]))
        )
        for e in removal.episodes
    ]


def _episodes(distribution: WeightDistribution, removal: Removal) -> list[PrintedTable]:
    known = [episode for episode in distribution.episodes if episode.mean == episode.mean]
    if len({round(episode.mean, 3) for episode in known}) == 1:
        return []  # A filter gives all kept episodes the same weight, so none ranks highest.
    rows = tuple(
        TableRow(
            (
                text_cell(e.id),
                number_cell(e.mean, ".3f"),
                number_cell(e.relative, ".2f"),
                text_cell(_SUCCESS[e.success]),
            )
        )
        for e in known
    )
    heads = ("episode", "mean weight", "of the mean", "success\nby label")
    columns = tuple(Column(head, left=index == 0) for index, head in enumerate(heads))
    if len(rows) <= 2 * EPISODES_PER_END and not removal.episodes:
        return [PrintedTable("Episodes, most up-weighted first", columns, rows)]
    return [
        PrintedTable("Most up-weighted", columns, rows[:EPISODES_PER_END]),
        PrintedTable("Most down-weighted", columns, (*_gone(removal), *rows[::-1])[:EPISODES_PER_END]),
    ]
