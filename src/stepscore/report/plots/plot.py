"""Figures for papers from run folders: leaderboard, subgoal vectors, curves, contact sheet, overlay video.

Every number is from :mod:`stepscore.analysis`; nothing is computed anew.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from stepscore.analysis import Measures, measure_episodes, subgoal_tables
from stepscore.episodes import Episode
from stepscore.errors import EpisodeError, OptionError, SourceError, UnknownNameError
from stepscore.report.plots.curves import curve_grid, draw_curves
from stepscore.report.plots.leaderboard import board, draw_leaderboard
from stepscore.report.plots.style import COLUMN_INCHES, FORMATS, paper_style, save_figure
from stepscore.report.plots.subgoals import draw_vectors, task_vectors
from stepscore.report.video.contact_sheet import draw_sheet, sheet_frames
from stepscore.report.video.episode_data import OneEpisode, one_episode, pictures_of
from stepscore.report.video.overlay import write_overlay
from stepscore.runs import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LONGEST = 100
"""Letters of an episode's id in a file name."""

NARROWEST = 2.0
"""Inches below which the words no longer fit."""


@dataclass(frozen=True)
class Plotted:
    """What was written, and which kinds were not, with the reason."""

    paths: tuple[Path, ...]
    left_out: Mapping[str, str]


def plot(
    runs: Sequence[Run],
    out: str | Path,
    *,
    kinds: Sequence[str] | None = None,
    episode: str | None = None,
    formats: Sequence[str] = FORMATS,
    by: Sequence[str] = ("policy",),
    names: Sequence[str] | None = None,
    revision: str = "v1.0",
    view: str | None = None,
    width: float = COLUMN_INCHES,
) -> Plotted:
    """Draw one or more runs.

    Runs of different protocols are never pooled: groups are then split by judge, model or protocol, too, and
    on sheet and overlay each has a line of its own.

    Args:
        runs: From :func:`stepscore.open_run`.
        out: Folder for the files; what is there under the same name is replaced.
        kinds: Any of KINDS; an error where one has nothing to show. Without it all that have something.
        episode: Whose sheet and overlay.
        formats: ``svg``, ``png`` or both; the overlay is mp4 whatever is said here.
        by: Groups, see :func:`stepscore.analysis.measures.measure`.
        names: Metrics of the leaderboard.
        revision: The OPD revision: ``paper``, ``v1.0``, ``v1.5`` or ``robust``.
        view: Camera of sheet and overlay; the main one if not given.
        width: Of the figures, in inches.
    """
    for kind in kinds or ():
        if kind not in KINDS:
            raise UnknownNameError("kind of plot", kind, (*KINDS, "all"))
    for form in formats:
        if form not in FORMATS:
            raise UnknownNameError("format", form, FORMATS)
    if not width >= NARROWEST:
        raise OptionError(f"width is {width} inches; it must be at least {NARROWEST}.")
    folder, paths, left_out = Path(out), list[Path](), dict[str, str]()
    with paper_style():
        measures = measure_episodes(runs, revision=revision)
        shown = _Shown(runs, measures, grouping(runs, by), names, episode, view, width)
        for kind in kinds or KINDS:
            try:
                drawn = _DRAW[kind](shown)
            except (OptionError, EpisodeError, SourceError) as error:
                if kinds is not None:
                    raise
                left_out[kind] = str(error)
                continue
            for name, made in drawn.items():
                if isinstance(made, _Film):
                    paths.append(write_overlay(folder / f"{name}.mp4", *made))
                else:
                    paths += save_figure(made, folder, name, formats)
    return Plotted(tuple(paths), left_out)


def grouping(runs: Sequence[Run], by: Sequence[str]) -> tuple[str, ...]:
    """``by``, and the first of judge, model and protocol that keeps runs of different protocols apart."""
    ways = {
        "judge": [run.judge for run in runs],
        "model": [str(run.model) for run in runs],
        "protocol": [run.protocol.hash for run in runs],
    }
    protocols = len(set(ways["protocol"]))
    if protocols == 1 or any(key in by and len(set(names)) == protocols for key, names in ways.items()):
        return tuple(by)
    return (*by, next(key for key, names in ways.items() if len(set(names)) == protocols))


class _Film(NamedTuple):
    """What an overlay video is made of."""

    episode: OneEpisode
    pictures: Episode
    view: str | None


@dataclass(frozen=True)
class _Shown:
    """What all kinds draw from; the episode is looked up once, when a kind needs it."""

    runs: Sequence[Run]
    measures: Measures
    by: tuple[str, ...]
    names: Sequence[str] | None
    episode: str | None
    view: str | None
    width: float

    @cached_property
    def film(self) -> _Film:
        """The one episode with its pictures."""
        if self.episode is None:
            first = self.measures.episodes[0]["episode_id"] if len(self.measures) else "ID"
            raise OptionError(f"It shows one episode: name it, for example --episode {first}.")
        found = one_episode(self.runs, self.measures, self.episode)
        return _Film(found, pictures_of(found), self.view)

    def named(self, kind: str) -> str:
        """A file name for the episode's drawing; an id may be a path, and longer than a file name may be."""
        name = str(self.episode)
        slug = re.sub(r"[^A-Za-z0-9._-]+", "_", name)
        if len(slug) > LONGEST:
            slug = f"{slug[:LONGEST]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"
        return f"{kind}_{slug}"


_Drawn = dict[str, "Figure | _Film"]


def _leaderboard(shown: _Shown) -> _Drawn:
    return {"leaderboard": draw_leaderboard(board(shown.measures, shown.by, shown.names), shown.width)}


def _vectors(shown: _Shown) -> _Drawn:
    tables = subgoal_tables(shown.runs, shown.by)
    if not tables:
        raise OptionError(
            "Nothing is known of any subgoal: no verdict of a judge and no label says yes or no. "
            "Judge with --subgoals FILE, or join --labels FILE."
        )
    pages = draw_vectors(*task_vectors(tables), shown.width)
    return {"vectors" if page == 1 else f"vectors-{page}": figure for page, figure in enumerate(pages, 1)}


def _curves(shown: _Shown) -> _Drawn:
    return {"curves": draw_curves(curve_grid(shown.measures, shown.by), shown.width)}


def _sheet(shown: _Shown) -> _Drawn:
    episode, pictures, view = shown.film
    clip = sheet_frames(episode, pictures, shown.width, view)
    return {shown.named("sheet"): draw_sheet(episode, clip, shown.width)}


def _overlay(shown: _Shown) -> _Drawn:
    return {shown.named("overlay"): shown.film}


_DRAW: Mapping[str, Callable[[_Shown], _Drawn]] = {
    "leaderboard": _leaderboard,
    "vectors": _vectors,
    "curves": _curves,
    "sheet": _sheet,
    "overlay": _overlay,
}
KINDS = tuple(_DRAW)
