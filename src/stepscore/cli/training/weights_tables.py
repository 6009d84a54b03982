"""What ``stepscore weights`` shows before anything is trained."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscore.cli.tables import out, percent, table

if TYPE_CHECKING:
    from stepscore.curation import Distribution, Selection, Weighting

SHOWN = 5
"""Episodes shown at either end."""

_BAR = 40
"""Letters of the histogram's longest bar."""


def how_to_train(weighting: Weighting, command: str | None, file: Path) -> str:
    """The command that trains with the file, or the lines of Python where LeRobot cannot."""
    if not weighting.frames.numbered:
        return "The source is no LeRobot dataset: index and episode_index count the run's episodes by id."
    if command is not None:
        return f"Train (LeRobot 0.6 or later):\n{command}"
    return (
        "LeRobot cannot read these weights. In a PyTorch loop:\n"
        f"from stepscore.curation import FrameWeights\nweights = FrameWeights.read({str(file)!r}, unknown=0.0)"
    )


def as_row(
    weighting: Weighting, spread: Distribution, chosen: Selection, files: list[Path], command: str | None
) -> dict[str, Any]:
    """As ``--json`` prints it."""
    return {
        "method": weighting.method,
        "form": weighting.form,
        "options": dict(weighting.options),
        "facts": dict(weighting.facts),
        **spread.row(),
        "kept": len(chosen.kept),
        "dropped": dict(chosen.dropped),
        "left_out": dict(weighting.frames.left_out or {}),
        "files": [str(path) for path in files],
        "command": command,
    }


def print_weights(weighting: Weighting, spread: Distribution, chosen: Selection) -> None:
    """Histogram, shares, what was measured on the way, and the episodes at both ends."""
    console = out()
    frames = weighting.frames
    what = " ".join(dict.fromkeys((weighting.method, weighting.form)))
    options_text = ", ".join(
        f"{name} {value}" for name, value in weighting.options.items() if value is not None
    )
    console.print(
        f"{what} on {frames.channel}{f' ({options_text})' if options_text else ''}: {spread.n} frames of "
        f"{len(frames.episodes)} episodes; {len(chosen.dropped)} dropped, "
        f"{len(frames.left_out or {})} without frames",
        soft_wrap=True,
        markup=False,
    )
    most = max(int(spread.counts.max(initial=0)), 1)
    total = max(int(spread.counts.sum()), 1)
    rows = [
        [f"{low:.2f}…{high:.2f}", str(count), percent(count / total), "█" * round(_BAR * int(count) / most)]
        for low, high, count in zip(spread.edges[:-1], spread.edges[1:], spread.counts, strict=True)
    ]
    shown = table("Weights", ["weight", "frames", "%", ""], rows)
    shown.columns[3].justify = "left"
    console.print(shown)
    figures = {
        "at 0": spread.at_zero,
        "at 1": spread.at_one,
        "at the largest": spread.at_most,
        "unknown": spread.unknown,
        "frames that count, as if all weighed the same": spread.effective,
    }
    console.print(
        table("Shares", ["of the frames", "%"], [[name, percent(v)] for name, v in figures.items()])
    )
    console.print(f"mean weight {spread.mean:.3f}", markup=False)
    for name, value in weighting.facts.items():
        console.print(f"{name} {value:.4g}", markup=False)
    _print_episodes(spread)


def _print_episodes(spread: Distribution) -> None:
    console = out()
    known = [episode for episode in spread.episodes if episode.mean == episode.mean]
    rows = [
        [e.id, f"{e.mean:.3f}", f"{e.relative:.2f}", {True: "yes", False: "no", None: "–"}[e.success]]
        for e in known
    ]
    heads = ["episode", "mean weight", "of the mean", "success\nby label"]
    if len(rows) <= 2 * SHOWN:
        console.print(table("Episodes, most up-weighted first", heads, rows))
    else:
        console.print(table("Most up-weighted", heads, rows[:SHOWN]))
        console.print(table("Most down-weighted", heads, rows[: -SHOWN - 1 : -1]))
