"""``export``: judged episodes as one file of another tool."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from stepscore._files import atomic_path
from stepscore._imports import check_extra
from stepscore._progress import doing, track
from stepscore.analysis import measure_episodes
from stepscore.errors import OptionError, UnknownNameError
from stepscore.report.exports.content import EpisodeContent, episode_contents, worst_first
from stepscore.report.exports.rerun_file import write_rerun
from stepscore.runs import Run

VideoMode = Literal["encoded", "images", "none"]
VIDEO_MODES: tuple[VideoMode, ...] = get_args(VideoMode)
"""How videos are exported: as they are encoded, else as images; as images; not at all."""


@dataclass(frozen=True)
class ExportResult:
    """What :func:`export` wrote.

    Attributes:
        path: The file.
        episodes: Episodes in it.
        frames: Frames of all cameras in it.
        points: Points of all curves in it.
        notes: Sentences on what is not in it, or not as it was recorded.
        failed: Id of each episode that is not in it, and why.
    """

    path: Path
    episodes: int
    frames: int
    points: int
    notes: tuple[str, ...]
    failed: Mapping[str, str]


class Target(NamedTuple):
    """A tool that episodes are exported to.

    Attributes:
        title: Its name in sentences.
        suffix: Of its files.
        extra: The extra of this package that it needs.
        command: What opens its files.
        write: Takes the episodes, the file, how videos are written and the episode to open first; returns the
            number of frames and of points, and notes.
    """

    title: str
    suffix: str
    extra: str
    command: str
    write: Callable[[Iterable[EpisodeContent], Path, VideoMode, str | None], tuple[int, int, list[str]]]


TARGETS: Mapping[str, Target] = {"rerun": Target("Rerun", ".rrd", "rerun", "rerun", write_rerun)}
"""The tools, by the name that ``--to`` takes."""


def export(
    runs: Run | Sequence[Run],
    out: str | Path,
    *,
    to: str = "rerun",
    episodes: Sequence[str] | None = None,
    videos: str = "encoded",
    source: str | None = None,
) -> ExportResult:
    """Write judged episodes as one file of another tool: videos, curves, labels and verdicts on one clock.

    Args:
        runs: One run or several: other judges over the same episodes stand beside each other.
        out: The file; an existing one is replaced once the new one is complete.
        to: The tool, one of :data:`TARGETS`: ``rerun`` writes a recording for Rerun's viewer.
        episodes: Ids, in the order in which they are written; default: all. The file opens on the first of them, or
            by default on the worst failure.
        videos: ``encoded`` copies them as they are recorded where the tool plays that codec, and writes images
            elsewhere; ``images`` always writes images (JPEG); ``none`` leaves them out.
        source: Where the recordings are, instead of where the runs say; may be on the Hub.

    An episode that cannot be exported is left out and listed in the result.

    Raises:
        MissingExtraError: What writes the file is not installed.
        EpisodeError: No episode can be exported.
    """
    path, target = check_target(to, out), TARGETS[to]
    mode = next((mode for mode in VIDEO_MODES if mode == videos), None)
    if mode is None:
        raise UnknownNameError("way to export videos", videos, VIDEO_MODES)
    several = [runs] if isinstance(runs, Run) else list(runs)
    metrics = measure_episodes(several)
    known = dict.fromkeys(row["episode_id"] for row in metrics.episodes)
    ids = list(known if episodes is None else dict.fromkeys(episodes))
    for name in ids:
        if name not in known:
            raise UnknownNameError("episode", name, known)
    with doing("Looking for the worst failure"):
        first = worst_first(several) if episodes is None else ids[0]
    failed: dict[str, str] = {}
    episodes_of = episode_contents(several, metrics, ids, source, failed.__setitem__)
    contents = track(episodes_of, "Writing episodes", len(ids))
    with atomic_path(path, make_folder=True) as temporary:
        frames, points, notes = target.write(contents, temporary, mode, first)
    return ExportResult(path, len(ids) - len(failed), frames, points, tuple(notes), failed)


def check_target(to: str, out: str | Path) -> Path:
    """Return the file to write, if there is such a tool, what writes its files is installed, and the name fits it.

    Args:
        to: The tool, one of :data:`TARGETS`.
        out: The file.
    """
    if to not in TARGETS:
        raise UnknownNameError("export target", to, TARGETS)
    target, path = TARGETS[to], Path(out)
    check_extra(target.extra, f"Exporting to {target.title}")
    if path.suffix != target.suffix:
        raise OptionError(
            f"A file for {target.title} ends in {target.suffix}: -o {path.with_suffix(target.suffix)}"
        )
    return path
