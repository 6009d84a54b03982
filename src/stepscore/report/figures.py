"""``plot``: figures of runs (leaderboard, differences, subgoals, curves, VOC), and of one episode figures and videos.

Every number is from :mod:`stepscore.analysis`; nothing is computed here.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from stepscore._options import DEFAULT_REVISION, SceneChoice
from stepscore._progress import track
from stepscore.analysis import (
    EpisodeMetrics,
    add_protocol_keys,
    failure_modes_by_policy,
    measure_episodes,
    metrics_of,
    subgoal_tables,
)
from stepscore.episodes import Episode
from stepscore.errors import EpisodeError, OptionError, SourceError, UnknownNameError
from stepscore.metrics import NO_FAILURE_MODE, UNKNOWN_FAILURE_MODE
from stepscore.report.episode_data import EpisodeData, episode_data, source_episode
from stepscore.report.plots.contact_sheet import draw_sheet, sheet_frames
from stepscore.report.plots.curves import curve_grid, draw_curves
from stepscore.report.plots.differences import differences, draw_differences
from stepscore.report.plots.leaderboard import draw_leaderboard, leaderboard
from stepscore.report.plots.style import (
    COLUMN_INCHES,
    FORMATS,
    paper_style,
    save_figure,
    shown_in_notebooks,
)
from stepscore.report.plots.subgoals import draw_vectors, task_vectors
from stepscore.report.plots.trace import draw_trace
from stepscore.report.plots.voc import draw_voc, voc_distributions
from stepscore.report.video import CLIP_FORMATS, clip_span, write_clip, write_overlay
from stepscore.runs import Run, open_run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_ID_CHARS = 100
"""Characters of an episode's id in a file name."""

MIN_WIDTH_INCHES = 2.0
"""Width below which the text no longer fits."""


@dataclass(frozen=True)
class PlotResult:
    """The files that :func:`plot` wrote, and the kinds that could not be drawn, with the reason."""

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
    revision: str = DEFAULT_REVISION,
    done_at: float | None = None,
    scenes: SceneChoice = "auto",
    view: str | None = None,
    around: str | None = None,
    width: float = COLUMN_INCHES,
    source: str | None = None,
) -> PlotResult:
    """Draw figures of one or more runs.

    Runs of different protocols are never pooled: each judge, model or protocol then has a section, panel or row of
    its own, in which a policy looks the same; trace, sheet and overlay have one line per run.

    Args:
        runs: From :func:`stepscore.open_run`.
        out: Folder for the files; existing ones of the same name are replaced.
        kinds: Any of KINDS; one that cannot be drawn is an error. Default: all that can be drawn.
        episode: Id of the episode of trace, sheet and overlay.
        formats: ``svg`` and ``png`` of figures, ``mp4`` and ``gif`` of the clip; the overlay is always mp4, and so
            is the clip where neither is named.
        by: How episodes are grouped, see :func:`stepscore.analysis.measure`.
        names: Metrics of leaderboard and differences.
        revision: The OPD revision: ``paper``, ``v1.0``, ``v1.5`` or ``robust``.
        done_at: Progress that ``robust`` counts as done; see :func:`stepscore.analysis.measure_episodes`.
        scenes: What intervals and tests speak of; see :func:`stepscore.measure`.
        view: Camera of trace, sheet, overlay and clip; default: the main view.
        around: What the clip shows: ``drop``, ``stall`` or ``START-END`` in seconds; default: the whole episode.
        width: Width of the figures in inches.
        source: Where the frames are, instead of where the runs say; may be on the Hub.
    """
    for kind in kinds or ():
        if kind not in KINDS:
            raise UnknownNameError("kind of plot", kind, (*KINDS, "all"))
    for name in formats:
        if name not in (*FORMATS, *CLIP_FORMATS):
            raise UnknownNameError("format", name, (*FORMATS, *CLIP_FORMATS))
    if kinds is not None and around is not None and "clip" not in kinds:
        raise OptionError("--around chooses the part that a clip shows. Add --kind clip.")
    figures = [name for name in formats if name in FORMATS]
    wrong = [] if figures else [kind for kind in kinds or KINDS if kind not in VIDEOS]
    if wrong:
        raise OptionError(f"{wrong[0]} is drawn as svg or png, not {', '.join(formats)}. Add --kind clip.")
    _check_width(width)
    folder, paths, left_out = Path(out), list[Path](), dict[str, str]()
    with paper_style():
        metrics = measure_episodes(runs, revision=revision, done_at=done_at, scenes=scenes)
        inputs = _inputs(runs, metrics, by, names, episode, view, width, source)
        inputs = replace(inputs, around=around, clip_formats=[n for n in formats if n in CLIP_FORMATS])
        chosen = kinds or KINDS
        for kind in track(chosen, "Drawing figures", len(chosen)):
            try:
                if kind == "clip":
                    paths += _clip(inputs, folder)
                    continue
                drawn = _DRAW[kind](inputs)
            except (OptionError, EpisodeError, SourceError) as error:
                if kinds is not None:
                    raise
                left_out[kind] = str(error)
                continue
            for name, drawing in drawn.items():
                if isinstance(drawing, _EpisodeInputs):
                    paths.append(write_overlay(folder / f"{name}.mp4", *drawing))
                else:
                    paths += save_figure(drawing, folder, name, figures)
    return PlotResult(tuple(paths), left_out)


def draw(
    runs: Run | str | Path | Sequence[Run | str | Path],
    kind: str = "leaderboard",
    *,
    episode: str | None = None,
    by: str | Sequence[str] = ("policy",),
    metrics: Sequence[str] | None = None,
    revision: str = DEFAULT_REVISION,
    done_at: float | None = None,
    scenes: SceneChoice = "auto",
    view: str | None = None,
    width: float = COLUMN_INCHES,
    source: str | None = None,
    page: int = 1,
) -> Figure:
    """Draw one figure and return it, for a notebook or for further changes in matplotlib.

    Args:
        runs: A run, a run folder, or several.
        kind: ``leaderboard``, ``differences``, ``vectors``, ``curves``, ``voc``; of an episode ``trace``, ``sheet``.
        episode: Id of the episode of trace and sheet.
        by: How episodes are grouped, see :func:`stepscore.measure`.
        metrics: Metrics of leaderboard and differences.
        revision: The OPD revision: ``paper``, ``v1.0``, ``v1.5`` or ``robust``.
        done_at: Progress that ``robust`` counts as done; see :func:`stepscore.analysis.measure_episodes`.
        scenes: What intervals and tests speak of; see :func:`stepscore.measure`.
        view: Camera of trace and sheet; default: the main view.
        width: Width of the figure in inches; 3.4 is a paper's column.
        source: Where the frames are, instead of where the runs say; may be on the Hub.
        page: Which page of ``vectors``, where many tasks take several.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    if kind not in KINDS or kind in VIDEOS:
        raise UnknownNameError("figure", kind, tuple(name for name in KINDS if name not in VIDEOS))
    _check_width(width)
    several = [runs] if isinstance(runs, Run | str | Path) else runs
    opened = [run if isinstance(run, Run) else open_run(run) for run in several]
    with paper_style():
        measured = measure_episodes(opened, revision=revision, done_at=done_at, scenes=scenes)
        keys = [by] if isinstance(by, str) else by
        inputs = _inputs(opened, measured, keys, metrics, episode, view, width, source)
        drawn = [figure for figure in _DRAW[kind](inputs).values() if not isinstance(figure, _EpisodeInputs)]
    if not 1 <= page <= len(drawn):
        raise OptionError(f"page is {page}; the figure has {len(drawn)}.")
    return shown_in_notebooks(drawn[page - 1])


def _check_width(width: float) -> None:
    if not width >= MIN_WIDTH_INCHES:
        raise OptionError(f"width must be at least {MIN_WIDTH_INCHES} inches, got {width}.")


def grouping(runs: Sequence[Run], by: Sequence[str]) -> tuple[str, ...]:
    """Return ``by``, plus what is needed of judge, model and protocol to keep different protocols apart."""
    rows = [{"judge": run.judge, "model": run.model, "protocol": run.protocol.hash} for run in runs]
    return add_protocol_keys(rows, by)


class _EpisodeInputs(NamedTuple):
    """The inputs of trace, sheet, overlay and clip."""

    episode: EpisodeData
    source: Episode
    view: str | None


@dataclass(frozen=True)
class _Inputs:
    """The inputs of all kinds; the episode is looked up once, when a kind needs it."""

    runs: Sequence[Run]
    metrics: EpisodeMetrics
    by: tuple[str, ...]
    apart: tuple[str, ...]
    names: Sequence[str] | None
    episode: str | None
    view: str | None
    width: float
    source: str | None
    around: str | None = None
    clip_formats: Sequence[str] = ()

    @property
    def every_key(self) -> tuple[str, ...]:
        """Return what makes a group where judges have no section of their own."""
        return (*self.by, *self.apart)

    @cached_property
    def episode_inputs(self) -> _EpisodeInputs:
        """Look up the episode and open it in its source."""
        if self.episode is None:
            first = self.metrics.episodes[0]["episode_id"] if len(self.metrics) else "ID"
            raise OptionError(f"It shows one episode; choose it, for example: --episode {shlex.quote(first)}")
        data = episode_data(self.runs, self.metrics, self.episode)
        return _EpisodeInputs(data, source_episode(data, self.source), self.view)

    def file_name(self, kind: str) -> str:
        """Return a file name for the episode; an id may be a path, and longer than a file name may be."""
        name = str(self.episode)
        slug = re.sub(r"[^A-Za-z0-9._-]+", "_", name)
        if len(slug) > MAX_ID_CHARS:
            slug = f"{slug[:MAX_ID_CHARS]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"
        return f"{kind}_{slug}"


def _inputs(
    runs: Sequence[Run],
    metrics: EpisodeMetrics,
    by: Sequence[str],
    names: Sequence[str] | None,
    episode: str | None,
    view: str | None,
    width: float,
    source: str | None,
) -> _Inputs:
    apart = tuple(key for key in grouping(runs, by) if key not in by)
    return _Inputs(runs, metrics, tuple(by), apart, names, episode, view, width, source)


_Drawings = dict[str, "Figure | _EpisodeInputs"]


def _with_curves(inputs: _Inputs) -> EpisodeMetrics:
    """Return the metrics that have curves of judges; refuse runs in which only baselines have curves."""
    metrics = metrics_of(inputs.metrics, inputs.by)
    if metrics is not inputs.metrics and not any(len(times) for times, _ in metrics.curves):
        raise OptionError(metrics.notes[0])
    return metrics


def _leaderboard(inputs: _Inputs) -> _Drawings:
    board = leaderboard(metrics_of(inputs.metrics, inputs.by), inputs.by, inputs.names, apart=inputs.apart)
    return {"leaderboard": draw_leaderboard(board, inputs.width)}


def _differences(inputs: _Inputs) -> _Drawings:
    found = differences(metrics_of(inputs.metrics, inputs.by), inputs.by, inputs.names, apart=inputs.apart)
    return {"differences": draw_differences(found, inputs.width)}


def _voc(inputs: _Inputs) -> _Drawings:
    return {"voc": draw_voc(voc_distributions(_with_curves(inputs), inputs.every_key), inputs.width)}


def _vectors(inputs: _Inputs) -> _Drawings:
    tables = subgoal_tables(
        inputs.runs, inputs.every_key, left_out=inputs.metrics.repeated, scenes=inputs.metrics.scenes
    )
    if not tables:
        raise OptionError(
            "No subgoal has a known verdict or label. "
            "Judge with --subgoals FILE, or add labels with --labels FILE."
        )
    pages = draw_vectors(*task_vectors(tables, apart=inputs.apart), inputs.width)
    return {"vectors" if page == 1 else f"vectors-{page}": figure for page, figure in enumerate(pages, 1)}


def _curves(inputs: _Inputs) -> _Drawings:
    return {"curves": draw_curves(curve_grid(_with_curves(inputs), inputs.every_key), inputs.width)}


def _sheet(inputs: _Inputs) -> _Drawings:
    episode, source, view = inputs.episode_inputs
    clip = sheet_frames(episode, source, inputs.width, view)
    return {inputs.file_name("sheet"): draw_sheet(episode, clip, inputs.width)}


def _trace(inputs: _Inputs) -> _Drawings:
    episode, source, view = inputs.episode_inputs
    clip = sheet_frames(episode, source, inputs.width, view)
    return {inputs.file_name("trace"): draw_trace(episode, clip, inputs.width)}


def _overlay(inputs: _Inputs) -> _Drawings:
    return {inputs.file_name("overlay"): inputs.episode_inputs}


def _clip(inputs: _Inputs, folder: Path) -> list[Path]:
    episode, source, view = inputs.episode_inputs
    span = clip_span(episode, inputs.around)
    modes = failure_modes_by_policy(inputs.metrics).by_episode
    named = (
        m.name
        for m, row in zip(modes, inputs.metrics.episodes, strict=True)
        if row["episode_id"] == episode.id
    )
    happened = next((name for name in named if name not in (NO_FAILURE_MODE, UNKNOWN_FAILURE_MODE)), "")
    name, formats = inputs.file_name("clip"), inputs.clip_formats or ("mp4",)
    return write_clip(folder, name, episode, source, span=span, happened=happened, view=view, formats=formats)


_DRAW: Mapping[str, Callable[[_Inputs], _Drawings]] = {
    "leaderboard": _leaderboard,
    "differences": _differences,
    "vectors": _vectors,
    "curves": _curves,
    "voc": _voc,
    "trace": _trace,
    "sheet": _sheet,
    "overlay": _overlay,
}
VIDEOS = ("overlay", "clip")
"""The kinds that are no figures."""
KINDS = (*_DRAW, "clip")
