"""One episode over time: the curve, the annotated stages, and a lane for every subgoal.

Shared by the contact sheet and the overlay video, which show the frames above.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stepscore.report.episode_data import EpisodeData, EpisodeJudgement
from stepscore.report.plots.style import (
    GREY,
    PALE,
    SMALL,
    fit_lines,
    group_style,
    inch_axes,
    inch_text,
    percent_axis,
    plain,
)
from stepscore.types import Verdict

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEFT_INCHES = 0.38
"""Width left of the time axis, for the percent labels of the curve."""

CURVE_INCHES, TICKS_INCHES, STAGES_INCHES, NAME_INCHES, BAR_INCHES, LINE_INCHES = (
    0.75,
    0.2,
    0.13,
    0.11,
    0.05,
    0.1,
)
_MARKS = {"yes": "✓", "no": "✗", "unknown": "?"}
_NOTE: Mapping[str, Any] = {"fontsize": SMALL, "color": GREY}


def outcome(episode: EpisodeData) -> str:
    """Return success by label and by each judge, in words."""
    words = {1.0: "success", 0.0: "failure"}
    parts = [("label", episode.success)] + [
        (f"judge ({plain(judgement.judge)})", judgement.success) for judgement in episode.judgements
    ]
    known = [f"{words[value]} by {source}" for source, value in parts if not math.isnan(value)]
    return ", ".join(known) or "outcome unknown"


def stage_numbers(episode: EpisodeData) -> dict[str, int]:
    """Number the stages by name, in the order of first appearance."""
    names = dict.fromkeys(stage["name"] for stage in episode.row["stages"])
    return {name: number for number, name in enumerate(names, 1)}


def stage_key(episode: EpisodeData, inches: float) -> str:
    """Return the legend of the stage numbers, wrapped to a width."""
    named = " · ".join(f"{number} {plain(name)}" for name, number in stage_numbers(episode).items())
    return fit_lines(named, inches, most=6)


def right_inches(episode: EpisodeData) -> float:
    """Return the width right of the time axis, for the marks of the judges and of the label."""
    return 0.32 + 0.12 * max(1, len(_with_verdicts(episode))) if episode.has_verdicts else 0.12


def lanes_inches(episode: EpisodeData, width: float) -> float:
    """Return the height that :func:`draw_lanes` takes."""
    height = CURVE_INCHES + TICKS_INCHES
    if len(episode.judgements) > 1:
        height += LINE_INCHES + 0.05
    if episode.row["stages"]:
        lines = stage_key(episode, width - LEFT_INCHES).count("\n") + 1
        height += STAGES_INCHES + 0.03 + LINE_INCHES * lines + 0.05
    if episode.has_verdicts:
        height += 0.1 + _lane_inches(episode) * len(episode.subgoals)
    return height + 0.03


def draw_lanes(figure: Figure, episode: EpisodeData, top: float) -> tuple[Axes, list[Artist]]:
    """Draw curve, stages and subgoals below ``top`` inches.

    Returns:
        The axes of the curve, whose x is seconds; and all artists that depend on time, so that a video can
        reveal them as it plays.
    """
    width = float(figure.get_size_inches()[0])
    axis_inches = width - LEFT_INCHES - right_inches(episode)
    if len(episode.judgements) > 1:
        _key(figure, episode, top)
        top += LINE_INCHES + 0.05
    axes = inch_axes(figure, LEFT_INCHES, top, axis_inches, CURVE_INCHES)
    axes.set_xlim(0, episode.duration_s)
    axes.locator_params(axis="x", nbins=max(3, int(axis_inches / 0.4)))
    axes.xaxis.set_major_formatter("{x:g} s")
    axes.grid(visible=True, axis="x")
    percent_axis(axes, "y")
    axes.set_ylabel("progress (%)", fontsize=SMALL, labelpad=1.0)
    timed: list[Artist] = [
        _curve(axes, number, judgement) for number, judgement in enumerate(episode.judgements)
    ]
    top += CURVE_INCHES + TICKS_INCHES
    if episode.row["stages"]:
        timed += _stages(
            inch_axes(figure, LEFT_INCHES, top, axis_inches, STAGES_INCHES), episode, axis_inches
        )
        inch_text(figure, 0.04, top + 0.02, "stage", **_NOTE)
        top += STAGES_INCHES + 0.03
        key = stage_key(episode, width - LEFT_INCHES)
        inch_text(figure, LEFT_INCHES, top, key, linespacing=1.15, **_NOTE)
        top += LINE_INCHES * (key.count("\n") + 1) + 0.05
    if episode.has_verdicts:
        timed += _subgoals(figure, episode, top)
    return axes, timed


def _with_verdicts(episode: EpisodeData) -> list[tuple[int, EpisodeJudgement]]:
    """Return the judgements with verdicts, each with the number that decides its style."""
    return [(number, judgement) for number, judgement in enumerate(episode.judgements) if judgement.verdicts]


def _lane_inches(episode: EpisodeData) -> float:
    return NAME_INCHES + BAR_INCHES * max(1, len(_with_verdicts(episode))) + 0.02


def _key(figure: Figure, episode: EpisodeData, top: float) -> None:
    """Draw the legend of the judges' lines."""
    wide, high = figure.get_size_inches()
    x = LEFT_INCHES
    for number, judgement in enumerate(episode.judgements):
        style = group_style(number)
        axes = inch_axes(figure, x, top, 0.2, LINE_INCHES)
        axes.set_axis_off()
        axes.plot([0, 1], [0, 0], color=style.colour, ls=style.dashes, lw=1.2)
        name = plain(judgement.judge)
        figure.text((x + 0.24) / wide, 1 - (top + LINE_INCHES / 2) / high, name, va="center", fontsize=SMALL)
        x += 0.36 + 0.05 * len(name)


def _curve(axes: Axes, number: int, judgement: EpisodeJudgement) -> Artist:
    style = group_style(number)
    # A single known point between unknown ones would leave no line; the dots keep it visible.
    dot: dict[str, Any] = {"marker": ".", "markersize": 2.5} if len(judgement.times) <= 64 else {}
    (line,) = axes.plot(
        judgement.times,
        100 * judgement.progress,
        color=style.colour,
        ls=style.dashes,
        lw=1.2,
        clip_on=False,
        **dot,
    )
    return line


def _stages(axes: Axes, episode: EpisodeData, inches: float) -> list[Artist]:
    """Draw the stages in two greys, each with its number."""
    axes.set(xlim=(0, episode.duration_s), ylim=(0, 1))
    axes.set_axis_off()
    numbers = stage_numbers(episode)
    drawn: list[Artist] = []
    for place, stage in enumerate(episode.row["stages"]):
        start, end = stage["start_s"], stage["end_s"]
        drawn.append(
            axes.axvspan(start, end, facecolor=("#E8E8E8", "#C4C4C4")[place % 2], edgecolor="white", lw=0.5)
        )
        if (end - start) / episode.duration_s * inches > 0.09:
            middle = (start + end) / 2
            style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": SMALL, "clip_on": True}
            drawn.append(axes.text(middle, 0.45, str(numbers[stage["name"]]), **style))
    return drawn


def _subgoals(figure: Figure, episode: EpisodeData, top: float) -> list[Artist]:
    """Draw one lane per subgoal: its name over a bar from the time of its verdict; the verdicts at the right."""
    width = float(figure.get_size_inches()[0])
    axis_inches = width - LEFT_INCHES - right_inches(episode)
    judges = _with_verdicts(episode)
    heading = {**_NOTE, "fontsize": SMALL - 1, "ha": "center"}
    if judges:
        inch_text(figure, width - 0.34 - 0.06 * (len(judges) - 1), top, "judge", **heading)
    inch_text(figure, width - 0.1, top, "label", **heading)
    top += 0.1
    drawn: list[Artist] = []
    for name, label in episode.subgoals:
        inch_text(figure, LEFT_INCHES, top, fit_lines(name, axis_inches, most=1), fontsize=SMALL)
        axes = inch_axes(
            figure, LEFT_INCHES, top + NAME_INCHES, axis_inches, BAR_INCHES * max(1, len(judges))
        )
        axes.set(xlim=(0, episode.duration_s), ylim=(max(1, len(judges)) - 0.5, -0.5))
        axes.set_axis_off()
        for y, (number, judgement) in enumerate(judges):
            colour, verdict = group_style(number).colour, judgement.verdicts.get(name)
            drawn += _bar(axes, y, colour, verdict, episode.duration_s)
            if verdict is not None:
                x = width - 0.34 - 0.12 * (len(judges) - 1 - y)
                drawn.append(_mark(figure, x, top, verdict.answer, colour))
        if label is not None:
            drawn.append(_mark(figure, width - 0.1, top, "yes" if label else "no", "black"))
        top += _lane_inches(episode)
    return drawn


def _bar(axes: Axes, y: int, colour: str, verdict: Verdict | None, duration: float) -> list[Artist]:
    """Draw a bar: pale if not reached or unknown, solid from the time of a yes, dashed if a yes has no time."""
    drawn: list[Artist] = [*axes.plot([0, duration], [y, y], color=PALE, lw=1.6, solid_capstyle="butt")]
    if verdict is not None and verdict.answer == "yes":
        timed = math.isfinite(verdict.when_s)
        style: dict[str, Any] = (
            {"lw": 1.8, "solid_capstyle": "butt"} if timed else {"lw": 0.9, "ls": (0, (2, 2))}
        )
        drawn += axes.plot([verdict.when_s if timed else 0, duration], [y, y], color=colour, **style)
    return drawn


def _mark(figure: Figure, x: float, top: float, answer: str, colour: str) -> Artist:
    """Draw a tick, a cross or a question mark."""
    wide, high = figure.get_size_inches()
    style: dict[str, Any] = {"ha": "center", "va": "top", "fontsize": SMALL + 1, "color": colour}
    return figure.text(x / wide, 1 - (top + 0.01) / high, _MARKS[answer], **style)
