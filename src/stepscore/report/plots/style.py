"""How figures look: sized for a paper's column, safe for colour-blind eyes and in grey, the same every time.

Groups differ in colour and in shape, so that a print in grey still tells them apart. Letters are drawn as
outlines of the font that comes with matplotlib: a figure looks the same wherever it is opened, and the words
stand in the SVG as comments. No date and no random id is written: the same run gives the same bytes.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from stepscore.errors import MissingExtraError, RunError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMN_INCHES = 3.4
"""Width of one column in the usual two-column papers."""

FORMATS = ("svg", "png")
SMALL, BASE = 6.0, 7.0
"""Points of the letters: notes, and everything else."""

BLUE, ORANGE, BLACK, GREEN, PURPLE, RED, SKY = (
    "#0072B2",
    "#E69F00",
    "#000000",
    "#009E73",
    "#CC79A7",
    "#D55E00",
    "#56B4E9",
)
_COLOURS = (BLUE, ORANGE, BLACK, GREEN, PURPLE, RED, SKY)
"""Okabe and Ito's palette without its yellow, which white paper swallows; neighbours differ in lightness."""

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")
_DASHES = ("-", (0, (4, 1.2)), (0, (1.2, 1.0)), (0, (4, 1, 1, 1)))
GREY, PALE = "#666666", "#D9D9D9"

STYLE: Any = {
    "axes.axisbelow": True,
    "axes.edgecolor": "#444444",
    "axes.labelsize": BASE,
    "axes.linewidth": 0.6,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": BASE,
    "axes.titlepad": 3.0,
    "figure.constrained_layout.h_pad": 0.02,
    "figure.constrained_layout.w_pad": 0.02,
    "font.family": ["DejaVu Sans"],
    "font.size": BASE,
    "grid.color": PALE,
    "grid.linewidth": 0.4,
    "legend.fontsize": BASE,
    "legend.frameon": False,
    "legend.handlelength": 1.6,
    "lines.linewidth": 1.0,
    "lines.markersize": 3.6,
    "path.simplify": False,
    "svg.fonttype": "path",
    "svg.hashsalt": "stepscore",
    # An instruction may hold a dollar sign; it is no formula.
    "text.parse_math": False,
    "text.usetex": False,
    "xtick.labelsize": SMALL,
    "xtick.major.size": 2.0,
    "xtick.major.width": 0.6,
    "ytick.labelsize": SMALL,
    "ytick.major.size": 2.0,
    "ytick.major.width": 0.6,
}


class Look(NamedTuple):
    """How one group is drawn wherever it appears."""

    colour: str
    marker: str
    dashes: Any


def look(number: int) -> Look:
    """The look of the group with this number; 56 differ, since colours and shapes cycle unevenly."""
    return Look(
        _COLOURS[number % len(_COLOURS)],
        _MARKERS[number % len(_MARKERS)],
        _DASHES[number % len(_DASHES)],
    )


@contextmanager
def paper_style() -> Iterator[None]:
    """Figures made and saved inside look as above, whatever the user's own matplotlib settings are."""
    try:
        import matplotlib
    except ImportError as error:
        raise MissingExtraError("Drawing figures", "plot") from error
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield


def save_figure(figure: Figure, folder: Path, name: str, formats: Sequence[str]) -> list[Path]:
    """Write the figure as ``folder/name.svg`` and so on, replacing what was there; the paths."""
    paths = []
    for kind in formats:
        path, temporary = folder / f"{name}.{kind}", folder / f".{name}.{kind}.tmp"
        metadata = {"Date": None} if kind == "svg" else None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            figure.savefig(temporary, format=kind, dpi=300, metadata=metadata)
            os.replace(temporary, path)
        except OSError as error:
            raise RunError(f"Cannot write {path}: {error.strerror or error}.") from error
        paths.append(path)
    return paths


def group_name(group: Mapping[str, str | None]) -> str:
    """A group's name for a figure: ``"pi0 / gvl"``, ``"unknown"``, or ``"all"`` for one group of all."""
    return plain(" / ".join("unknown" if part is None else part for part in group.values())) or "all"


def plain(text: str) -> str:
    """The text on one line, without characters that cannot be shown."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def fit_lines(text: str, inches: float, *, most: int, points: float = SMALL) -> str:
    """The text broken to fit a width, in at most so many lines; what is left out is an ellipsis."""
    # A letter of this font is 0.53 of its size wide, on average over English text.
    room = max(8, int(inches * 72 / (0.53 * points)))
    lines = textwrap.wrap(plain(text), room, max_lines=most, placeholder=" …")
    return "\n".join(lines)


def inch_axes(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Axes at a place counted in inches from the figure's upper left corner."""
    wide, high = figure.get_size_inches()
    return figure.add_axes((left / wide, 1 - (top + height) / high, width / wide, height / high))


def inch_text(figure: Figure, left: float, top: float, text: str, **style: Any) -> None:
    """Text whose upper left corner lies so many inches from the figure's upper left corner."""
    wide, high = figure.get_size_inches()
    figure.text(left / wide, 1 - top / high, text, **({"va": "top"} | style))


def percent_axis(axes: Axes, which: str, least: float = 0.0, most: float = 100.0) -> None:
    """An axis in percent with ticks at the ends and the middle."""
    margin = 0.04 * (most - least)
    axes.set(**{f"{which}lim": (least - margin, most + margin)})
    axes.set(**{f"{which}ticks": (least, (least + most) / 2, most)})
    shown = [f"{tick:g}" for tick in (least, (least + most) / 2, most)]
    axes.set(**{f"{which}ticklabels": shown})
    axes.grid(visible=True, axis=which)  # type: ignore[arg-type]
