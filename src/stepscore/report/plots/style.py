"""The style of figures: sized for a paper's column, safe for colour-blind readers and in grey, reproducible.

Groups differ in colour and in shape, so that they are distinguishable in grey. Text is drawn as outlines of the
font that comes with matplotlib: a figure looks the same wherever it is opened, and the text is in the SVG
as comments. No date and no random id is written: the same run gives the same bytes.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from stepscore._files import atomic_path
from stepscore.errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMN_INCHES = 3.4
"""Width of one column in the usual two-column papers."""

FORMATS = ("svg", "png")
NOTEBOOK_DPI = 180
SMALL, BASE = 6.0, 7.0
"""Font sizes in points: of notes, and of everything else."""

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
"""Okabe and Ito's palette without its yellow, which is too pale on white; neighbours differ in lightness."""

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
    # A dollar sign in an instruction does not begin a formula.
    "text.parse_math": False,
    "text.usetex": False,
    "xtick.labelsize": SMALL,
    "xtick.major.size": 2.0,
    "xtick.major.width": 0.6,
    "ytick.labelsize": SMALL,
    "ytick.major.size": 2.0,
    "ytick.major.width": 0.6,
}


class GroupStyle(NamedTuple):
    """Colour, marker and dash pattern of one group, the same in every figure."""

    colour: str
    marker: str
    dashes: Any


def group_style(number: int) -> GroupStyle:
    """Return the style of the group with this number; 56 are distinct, since colours and markers cycle unevenly."""
    return GroupStyle(
        _COLOURS[number % len(_COLOURS)],
        _MARKERS[number % len(_MARKERS)],
        _DASHES[number % len(_DASHES)],
    )


@contextmanager
def paper_style() -> Iterator[None]:
    """Apply this style to the figures made and saved inside, whatever the user's own matplotlib settings are."""
    try:
        import matplotlib
    except ImportError as error:
        raise MissingExtraError("Drawing figures", "plot") from error
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield


def save_figure(figure: Figure, folder: Path, name: str, formats: Sequence[str]) -> list[Path]:
    """Write the figure as ``folder/name.FORMAT``, replacing existing files, and return the paths."""
    paths = []
    for kind in formats:
        path = folder / f"{name}.{kind}"
        # Who made it, by which `plot` knows a figure of its own; no date, so that the same data give the same bytes.
        metadata = {"Date": None, "Creator": "StepScore"} if kind == "svg" else {"Software": "StepScore"}
        with atomic_path(path, make_folder=True) as temporary:
            figure.savefig(temporary, format=kind, dpi=300, metadata=metadata)
        paths.append(path)
    return paths


def shown_in_notebooks(figure: Figure) -> Figure:
    """Return the figure with a form that a notebook shows, whatever is set up for pyplot there."""
    # Figures that pyplot did not make have none; looked up on the object, as IPython does.
    figure.__dict__["_repr_png_"] = partial(_png, figure)
    return figure


def _png(figure: Figure) -> bytes:
    data = io.BytesIO()
    with paper_style():
        figure.savefig(data, format="png", dpi=NOTEBOOK_DPI)
    return data.getvalue()


def group_name(group: Mapping[str, str | None]) -> str:
    """Return a group's name for a figure: ``"pi0 / gvl"``, ``"unknown"``, or ``"all"`` for one group of all."""
    return plain(" / ".join("unknown" if part is None else part for part in group.values())) or "all"


def plain(text: str) -> str:
    """Return the text on one line, without unprintable characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def fit_lines(text: str, inches: float, *, most: int, points: float = SMALL) -> str:
    """Wrap the text to a width, in at most ``most`` lines; an ellipsis stands for the rest."""
    # A character of this font is 0.53 of its size wide, on average over English text.
    room = max(8, int(inches * 72 / (0.53 * points)))
    lines = textwrap.wrap(plain(text), room, max_lines=most, placeholder=" …")
    return "\n".join(lines)


def inch_axes(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Add axes at a position in inches from the figure's upper left corner."""
    wide, high = figure.get_size_inches()
    return figure.add_axes((left / wide, 1 - (top + height) / high, width / wide, height / high))


def inch_text(figure: Figure, left: float, top: float, text: str, **style: Any) -> None:
    """Add text at a position in inches from the figure's upper left corner."""
    wide, high = figure.get_size_inches()
    figure.text(left / wide, 1 - top / high, text, **({"va": "top"} | style))


def percent_axis(axes: Axes, which: str, least: float = 0.0, most: float = 100.0) -> None:
    """Set up an axis in percent with ticks at the ends and the middle."""
    margin = 0.04 * (most - least)
    axes.set(**{f"{which}lim": (least - margin, most + margin)})
    axes.set(**{f"{which}ticks": (least, (least + most) / 2, most)})
    labels = [f"{tick:g}" for tick in (least, (least + most) / 2, most)]
    axes.set(**{f"{which}ticklabels": labels})
    axes.grid(visible=True, axis=which)  # type: ignore[arg-type]
