"""One episode along its time: the curve, the annotated stages, and a lane for every subgoal.

Shared by the contact sheet and the overlay video, which put the frames above.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stepscore.report.plots.style import (
    GREY,
    PALE,
    SMALL,
    fit_lines,
    inch_axes,
    inch_text,
    look,
    percent_axis,
    plain,
)
from stepscore.report.video.episode_data import Judged, OneEpisode
from stepscore.types import Verdict

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEFT = 0.38
"""Inches left of the time axis, for the curve's percents."""

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


def outcome(episode: OneEpisode) -> str:
    """Success by label and by each judge, in words."""
    words = {1.0: "success", 0.0: "failure"}
    parts = [("label", episode.success)] + [
        (f"judge ({plain(one.judge)})", one.success) for one in episode.judged
    ]
    told = [f"{words[value]} by {who}" for who, value in parts if not math.isnan(value)]
    return ", ".join(told) or "outcome unknown"


def stage_numbers(episode: OneEpisode) -> dict[str, int]:
    """The stages' names, each with a number in the order of first appearance."""
    names = dict.fromkeys(span["name"] for span in episode.row["stages"])
    return {name: number for number, name in enumerate(names, 1)}


def stage_key(episode: OneEpisode, inches: float) -> str:
    """What the numbers in the lane of stages mean, broken to fit a width."""
    named = " · ".join(f"{number} {plain(name)}" for name, number in stage_numbers(episode).items())
    return fit_lines(named, inches, most=6)


def right_inches(episode: OneEpisode) -> float:
    """Inches right of the time axis, for the marks of the judges and of the label."""
    return 0.32 + 0.12 * max(1, len(_with_verdicts(episode))) if episode.has_verdicts else 0.12


def lanes_inches(episode: OneEpisode, width: float) -> float:
    """Height that :func:`draw_lanes` takes."""
    height = CURVE_INCHES + TICKS_INCHES
    if len(episode.judged) > 1:
        height += LINE_INCHES + 0.05
    if episode.row["stages"]:
        lines = stage_key(episode, width - LEFT).count("\n") + 1
        height += STAGES_INCHES + 0.03 + LINE_INCHES * lines + 0.05
    if episode.has_verdicts:
        height += 0.1 + _lane_inches(episode) * len(episode.subgoals)
    return height + 0.03


def draw_lanes(figure: Figure, episode: OneEpisode, top: float) -> tuple[Axes, list[Artist]]:
    """Draw curve, stages and subgoals below ``top`` inches.

    Returns:
        The axes of the curve, whose x is seconds; and all that is of a moment, so that a video can show it
        as far as it has come.
    """
    width = float(figure.get_size_inches()[0])
    room = width - LEFT - right_inches(episode)
    if len(episode.judged) > 1:
        _key(figure, episode, top)
        top += LINE_INCHES + 0.05
    axes = inch_axes(figure, LEFT, top, room, CURVE_INCHES)
    axes.set_xlim(0, episode.duration_s)
    axes.locator_params(axis="x", nbins=max(3, int(room / 0.4)))
    axes.xaxis.set_major_formatter("{x:g} s")
    axes.grid(visible=True, axis="x")
    percent_axis(axes, "y")
    axes.set_ylabel("progress (%)", fontsize=SMALL, labelpad=1.0)
    moving: list[Artist] = [_curve(axes, number, one) for number, one in enumerate(episode.judged)]
    top += CURVE_INCHES + TICKS_INCHES
    if episode.row["stages"]:
        moving += _stages(inch_axes(figure, LEFT, top, room, STAGES_INCHES), episode, room)
        inch_text(figure, 0.04, top + 0.02, "stage", **_NOTE)
        top += STAGES_INCHES + 0.03
        key = stage_key(episode, width - LEFT)
        inch_text(figure, LEFT, top, key, linespacing=1.15, **_NOTE)
        top += LINE_INCHES * (key.count("\n") + 1) + 0.05
    if episode.has_verdicts:
        moving += _subgoals(figure, episode, top)
    return axes, moving


def _with_verdicts(episode: OneEpisode) -> list[tuple[int, Judged]]:
    """The judges that gave verdicts, each with the number that decides its look."""
    return [(number, one) for number, one in enumerate(episode.judged) if one.verdicts]


def _lane_inches(episode: OneEpisode) -> float:
    return NAME_INCHES + BAR_INCHES * max(1, len(_with_verdicts(episode))) + 0.02


def _key(figure: Figure, episode: OneEpisode, top: float) -> None:
    """Which line is which judge's."""
    wide, high = figure.get_size_inches()
    x = LEFT
    for number, one in enumerate(episode.judged):
        style = look(number)
        axes = inch_axes(figure, x, top, 0.2, LINE_INCHES)
        axes.set_axis_off()
        axes.plot([0, 1], [0, 0], color=style.colour, ls=style.dashes, lw=1.2)
        name = plain(one.judge)
        figure.text((x + 0.24) / wide, 1 - (top + LINE_INCHES / 2) / high, name, va="center", fontsize=SMALL)
        x += 0.36 + 0.05 * len(name)


def _curve(axes: Axes, number: int, one: Judged) -> Artist:
    style = look(number)
    # A lone known point between unknown ones would leave no line; the dots keep it in sight.
    dot: dict[str, Any] = {"marker": ".", "markersize": 2.5} if len(one.times) <= 64 else {}
    (line,) = axes.plot(
        one.times, 100 * one.progress, color=style.colour, ls=style.dashes, lw=1.2, clip_on=False, **dot
    )
    return line


def _stages(axes: Axes, episode: OneEpisode, inches: float) -> list[Artist]:
    """Spans in two greys, each with the number of its stage."""
    axes.set(xlim=(0, episode.duration_s), ylim=(0, 1))
    axes.set_axis_off()
    numbers = stage_numbers(episode)
    drawn: list[Artist] = []
    for place, span in enumerate(episode.row["stages"]):
        start, end = span["start_s"], span["end_s"]
        drawn.append(
            axes.axvspan(start, end, facecolor=("#E8E8E8", "#C4C4C4")[place % 2], edgecolor="white", lw=0.5)
        )
        if (end - start) / episode.duration_s * inches > 0.09:
            middle = (start + end) / 2
            style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": SMALL, "clip_on": True}
            drawn.append(axes.text(middle, 0.45, str(numbers[span["name"]]), **style))
    return drawn


def _subgoals(figure: Figure, episode: OneEpisode, top: float) -> list[Artist]:
    """A lane a subgoal: its name over a bar from when a judge saw it come true; the verdicts at the right."""
    width = float(figure.get_size_inches()[0])
    room = width - LEFT - right_inches(episode)
    judges = _with_verdicts(episode)
    heading = {**_NOTE, "fontsize": SMALL - 1, "ha": "center"}
    if judges:
        inch_text(figure, width - 0.34 - 0.06 * (len(judges) - 1), top, "judge", **heading)
    inch_text(figure, width - 0.1, top, "label", **heading)
    top += 0.1
    drawn: list[Artist] = []
    for name, label in episode.subgoals:
        inch_text(figure, LEFT, top, fit_lines(name, room, most=1), fontsize=SMALL)
        axes = inch_axes(figure, LEFT, top + NAME_INCHES, room, BAR_INCHES * max(1, len(judges)))
        axes.set(xlim=(0, episode.duration_s), ylim=(max(1, len(judges)) - 0.5, -0.5))
        axes.set_axis_off()
        for y, (number, one) in enumerate(judges):
            drawn += _bar(axes, y, look(number).colour, one.verdicts.get(name), episode.duration_s)
            if name in one.verdicts:
                x = width - 0.34 - 0.12 * (len(judges) - 1 - y)
                drawn.append(_mark(figure, x, top, one.verdicts[name].answer, look(number).colour))
        if label is not None:
            drawn.append(_mark(figure, width - 0.1, top, "yes" if label else "no", "black"))
        top += _lane_inches(episode)
    return drawn


def _bar(axes: Axes, y: int, colour: str, verdict: Verdict | None, duration: float) -> list[Artist]:
    """Pale: not true or not said; solid from the moment the judge names; dashed where yes has no moment."""
    drawn: list[Artist] = [*axes.plot([0, duration], [y, y], color=PALE, lw=1.6, solid_capstyle="butt")]
    if verdict is not None and verdict.answer == "yes":
        timed = math.isfinite(verdict.when_s)
        style: dict[str, Any] = (
            {"lw": 1.8, "solid_capstyle": "butt"} if timed else {"lw": 0.9, "ls": (0, (2, 2))}
        )
        drawn += axes.plot([verdict.when_s if timed else 0, duration], [y, y], color=colour, **style)
    return drawn


def _mark(figure: Figure, x: float, top: float, answer: str, colour: str) -> Artist:
    """A tick, a cross or a question mark."""
    wide, high = figure.get_size_inches()
    style: dict[str, Any] = {"ha": "center", "va": "top", "fontsize": SMALL + 1, "color": colour}
    return figure.text(x / wide, 1 - (top + 0.01) / high, _MARKS[answer], **style)
