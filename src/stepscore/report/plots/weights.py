"""Training weights as a figure: their distribution, and where in every episode they are high."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscore.curation import WeightDistribution, Weighting
from stepscore.errors import OptionError
from stepscore.report.plots.style import (
    BLUE,
    COLUMN_INCHES,
    FORMATS,
    GREY,
    PALE,
    RED,
    SMALL,
    paper_style,
    percent_axis,
    save_figure,
)
from stepscore.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TIME_BINS = 100
"""Number of columns in which an episode is drawn, whatever its length."""

MAX_EPISODES = 120
"""Episodes drawn; of more, evenly chosen from the highest to the lowest mean weight."""


def plot_weights(path: Path, weighting: Weighting, spread: WeightDistribution) -> Path:
    """Draw the weights, write them as SVG or PNG by the path's suffix, and return the path.

    Above, the histogram of all frames with the share at 0 and at 1. Below, one row per episode, the highest mean
    weight on top, from its first frame to its last: dark is a high weight, hatched is unknown, and a red
    mark at the left is a failure by label.
    """
    if path.suffix.removeprefix(".") not in FORMATS:
        raise OptionError(
            f"{path.name}: a figure is written as {' or '.join('.' + kind for kind in FORMATS)}."
        )
    with paper_style():
        figure = draw_weights(weighting, spread)
        return save_figure(figure, path.parent, path.stem, [path.suffix.removeprefix(".")])[0]


def draw_weights(weighting: Weighting, spread: WeightDistribution, width: float = COLUMN_INCHES) -> Figure:
    """Return the figure that :func:`plot_weights` writes."""
    from matplotlib.figure import Figure

    rows = min(len(weighting.frames.episodes), MAX_EPISODES)
    strip = min(3.4, max(0.8, 0.05 * rows))
    figure = Figure(figsize=(width, 1.5 + strip), layout="constrained")
    above, below = figure.subplots(2, 1, height_ratios=[1.0, strip])
    _histogram(above, spread)
    _episodes(below, weighting, spread)
    return figure


def _histogram(axes: Axes, spread: WeightDistribution) -> None:
    known = max(int(spread.counts.sum()), 1)
    shares = 100 * spread.counts / known
    axes.bar(spread.edges[:-1], shares, np.diff(spread.edges), align="edge", color=BLUE, edgecolor="white")
    axes.set(xlabel="weight", ylabel="frames, %", xlim=(0, spread.edges[-1]))
    percent_axis(axes, "y")
    notes = [f"at 0: {_percent(spread.at_zero)}", f"at 1: {_percent(spread.at_one)}"]
    if spread.unknown > 0:
        notes.append(f"unknown: {_percent(spread.unknown)}")
    axes.set_title(", ".join(notes), loc="right", fontsize=SMALL, color=GREY)


def _episodes(axes: Axes, weighting: Weighting, spread: WeightDistribution) -> None:
    frames = weighting.frames
    at = {episode.id: number for number, episode in enumerate(frames.episodes)}
    order = [at[episode.id] for episode in spread.episodes]
    if len(order) > MAX_EPISODES:
        order = [order[i] for i in np.round(np.linspace(0, len(order) - 1, MAX_EPISODES)).astype(int)]
    image = np.array(
        [_resampled(weighting.weights[frames.starts[i] : frames.starts[i + 1]]) for i in order]
    ).reshape(len(order), TIME_BINS)
    axes.set_facecolor(PALE)
    extent = (0.0, 100.0, float(len(order)), 0.0)
    axes.patch.set(hatch="////", edgecolor="white")
    mappable = axes.imshow(
        np.ma.masked_invalid(image),
        aspect="auto",
        cmap="cividis_r",
        vmin=0.0,
        vmax=float(spread.edges[-1]),
        extent=extent,
        interpolation="nearest",
    )
    failed = [row + 0.5 for row, i in enumerate(order) if frames.episodes[i].success is False]
    marks: Any = {"color": RED, "marker": "_", "linestyle": "none", "clip_on": False}
    axes.plot([-1.5] * len(failed), failed, markersize=3, **marks)
    axes.set(xlim=(0, 100), xticks=(0, 50, 100), xlabel="time in the episode, %", yticks=[])
    counted = f"{len(order)} of {len(at)} episodes" if len(at) > MAX_EPISODES else f"{len(at)} episodes"
    axes.set_ylabel(f"{counted}{' (red: failed)' if failed else ''}", fontsize=SMALL)
    axes.yaxis.set_label_coords(-0.05, 0.5)
    if axes.figure is not None:
        axes.figure.colorbar(mappable, ax=axes, label="weight", fraction=0.05, pad=0.02)


def _resampled(weights: FloatArray) -> FloatArray:
    """Return the weights of one episode at even shares of its time."""
    if not len(weights):
        return np.full(TIME_BINS, np.nan)
    at = np.minimum((np.arange(TIME_BINS) + 0.5) / TIME_BINS * len(weights), len(weights) - 1)
    return weights[at.astype(np.int64)]


def _percent(share: float) -> str:
    return "–" if np.isnan(share) else f"{100 * share:.1f} %"
