"""Manifests: a file that states the episodes of a folder, so that nothing has to be inferred.

``manifest.jsonl`` (one object per line), ``manifest.csv`` (one row per episode; ``views.wrist`` and the like are
columns of a mapping, lists are written as JSON) or ``manifest.yaml``::

    defaults: {policy: pi0, robot: franka}      # optional; an entry's own fields take precedence
    episodes:                                   # or only the list, without defaults
      - video: pour/ep1.mp4
        instruction: pour the water
        success: true
        stages:
          - {name: grasp the cup, start_second: 0, end_second: 2.5}

Paths are relative to the manifest. The fields are those of :class:`Entry`; docs/data/readers.md explains them.
"""

from __future__ import annotations

import difflib
import os
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from stepscore._untrusted import shown
from stepscore._untrusted.limits import MAX_FPS, MIN_FPS
from stepscore.episodes.episode import Episode
from stepscore.episodes.labels.labels import Label, Labels, Stage, check_stages
from stepscore.episodes.labels.subgoals import Subgoal, parse_subgoals
from stepscore.episodes.naming import MAIN, safe_name
from stepscore.episodes.readers.folder_names import SEQUENCE_FPS, image_sequence
from stepscore.episodes.readers.manifest_rows import Row, read_rows
from stepscore.episodes.readers.sidecar_files import STEP_METRICS, curve_stem, looks_like_curve, read_success
from stepscore.episodes.source import Listing, Problem
from stepscore.episodes.video.image_files import ImageSequenceView
from stepscore.episodes.video.video_view import VideoView
from stepscore.episodes.view import View
from stepscore.errors import ManifestError, first_field_error
from stepscore.types import SuccessMode

MANIFEST_SUFFIXES = (".jsonl", ".csv", ".yaml", ".yml")


def _parse_bool(value: object) -> bool | None:
    text = "" if value is None else str(value).strip().lower()
    if text in ("true", "1", "1.0", "false", "0", "0.0"):
        return text in ("true", "1", "1.0")
    if text:
        raise ValueError("expected true, false, 1, 0, or nothing for unknown")
    return None


def _check_rate(value: float | None) -> float | None:
    if value is not None and value < MIN_FPS:
        raise ValueError(f"expected at least {MIN_FPS:g}")
    return value


OptionalBool = Annotated[bool | None, BeforeValidator(_parse_bool)]
Text = Annotated[str, Field(min_length=1)]


class StageEntry(BaseModel):
    """One annotated stage of an episode."""

    model_config = ConfigDict(extra="forbid")
    name: Text
    start_second: float
    end_second: float


class Entry(BaseModel):
    """One episode of a manifest.

    Attributes:
        id: The episode's id; from the first video's path (or the curve's) where not given.
        instruction: The text the robot was given.
        task: The task's name; the instruction where not given.
        policy: The policy that acted.
        robot: The robot's name.
        dataset: The dataset's or benchmark's name.
        video: The video, or the folder of images, of an episode with one view.
        views: Videos by camera, the main one first.
        fps: Frames per second of image sequences.
        success: Whether it succeeded; leave it out where not known.
        success_mode: Whether ``success`` means at the end (``holds``) or at some time (``ever``).
        pair: Scene or seed shared between policies.
        subgoals: Texts, or mappings as in a subgoals file.
        subgoal_labels: Which subgoals were reached.
        stages: Spans of the procedure, in order and without overlap.
        curve: A file with its recorded progress.
        goal: The goal image, or one by camera.
        metadata: Further fields.
    """

    model_config = ConfigDict(extra="forbid", coerce_numbers_to_str=True)
    id: Text | None = None
    instruction: Text
    task: Text | None = None
    policy: Text | None = None
    robot: Text | None = None
    dataset: Text | None = None
    video: Text | None = None
    views: dict[str, Text] | None = Field(default=None, min_length=1)
    fps: Annotated[float | None, AfterValidator(_check_rate)] = Field(default=None, gt=0, le=MAX_FPS)
    success: OptionalBool = None
    success_mode: SuccessMode = "holds"
    pair: Text | None = None
    subgoals: list[object] | None = None
    subgoal_labels: dict[str, OptionalBool] = Field(default_factory=dict)
    stages: list[StageEntry] = Field(default_factory=list)
    curve: Text | None = None
    goal: Text | dict[str, Text] | None = None
    metadata: dict[str, object] = Field(default_factory=dict)

    def videos(self) -> dict[str, str]:
        """Return video paths by camera."""
        return self.views or ({MAIN: self.video} if self.video else {})


def find_manifest(folder: Path) -> Path | None:
    """Return the manifest of a folder, if it has one; two are an error."""
    candidates = [folder / f"manifest{suffix}" for suffix in MANIFEST_SUFFIXES]
    manifests = [path for path in candidates if os.path.isfile(path)]
    if len(manifests) > 1:
        names = " and ".join(path.name for path in manifests)
        raise ManifestError(f"{folder} has {names}. Remove one, or give one of them as the source.")
    return manifests[0] if manifests else None


def read_manifest(path: Path) -> Listing:
    """List the episodes of a manifest; a ManifestError names file, line and field of what is wrong in it.

    A missing file of an entry is a problem; the episode is listed nevertheless, and its video fails when it is read.
    """
    episodes: dict[str, Episode] = {}
    lines: dict[str, str] = {}
    problems: list[Problem] = []
    videos: dict[str, Path] = {}
    for row in read_rows(path):
        entry = _validated(row)
        episode = _episode(entry, row, path, problems)
        if episode.id in episodes:
            raise ManifestError(
                f"{row.where}: id {episode.id!r} is also the id at {lines[episode.id]}. Ids are unique."
            )
        episodes[episode.id], lines[episode.id] = episode, row.line
        if entry.videos() and not entry.curve:
            videos[episode.id] = path.parent / next(iter(entry.videos().values()))
    _find_curves(episodes, videos, problems)
    rules = (
        f"Everything is taken from {path.name}; files it does not name are not listed.",
        "Recorded curves: as named there, else <video>.curve.csv, .jsonl or .parquet, else every curve file "
        "beside the only episode of its folder.",
        f"Image sequences whose entry states no fps are taken to have {SEQUENCE_FPS:g} frames per second.",
    )
    return Listing([episodes[key] for key in sorted(episodes)], tuple(problems), rules)


def _find_curves(episodes: dict[str, Episode], videos: Mapping[str, Path], problems: list[Problem]) -> None:
    """Give each episode the curve files beside its video, by name, else all in a folder of its own."""
    neighbours = Counter(video.parent for video in videos.values())
    named: dict[Path, list[Path]] = defaultdict(list)
    loose: dict[Path, list[Path]] = defaultdict(list)
    for folder in neighbours:
        for name in _names(folder):
            if stem := curve_stem(name):
                named[folder / stem].append(folder / name)
            if looks_like_curve(name):
                loose[folder].append(folder / name)
    for key, video in videos.items():
        alone = neighbours[video.parent] == 1
        files = named.get(Path(os.path.splitext(video)[0])) or (loose.get(video.parent, []) if alone else [])
        if files:
            try:
                episodes[key] = _with_curves(episodes[key], tuple(files))
            except ManifestError as error:
                problems.append(Problem(key, str(error)))
                episodes[key] = replace(episodes[key], recorded=tuple(files))


def _names(folder: Path) -> list[str]:
    """Return the names in a folder; none where it cannot be listed."""
    try:
        return sorted(os.listdir(folder))
    except (OSError, ValueError):
        return []


def _with_curves(episode: Episode, files: tuple[Path, ...]) -> Episode:
    """Return the episode with its recorded files, and the success that a step_metrics.csv states."""
    metrics = [path for path in files if path.name == STEP_METRICS]
    labels = episode.labels
    if len(metrics) == 1 and labels.success is None:
        labels = labels.with_rows(read_success(metrics[0]))
    return replace(episode, recorded=files, labels=labels)


def _validated(row: Row) -> Entry:
    try:
        entry = Entry.model_validate(row.fields)
    except ValidationError as error:
        raise ManifestError(f"{row.where}: {_explain(error)}") from None
    if entry.video and entry.views:
        raise ManifestError(f"{row.where}: 'video' and 'views' are both given; give one of them.")
    if not (entry.videos() or entry.curve):
        raise ManifestError(f"{row.where}: none of 'video', 'views' and 'curve' is given; one is needed.")
    return entry


def _explain(error: ValidationError) -> str:
    """Return the first error as text, with the field's name and the allowed values."""
    first = first_field_error(error)
    field, names = first.field, first.field.split(".")
    if first.kind == "extra_forbidden":
        allowed = StageEntry.model_fields if names[0] == "stages" else Entry.model_fields
        close = difflib.get_close_matches(names[-1], allowed, n=1)
        meant = f" Did you mean {close[0]!r}?" if close else ""
        return f"unknown field {field!r}.{meant} Allowed: {', '.join(allowed)}."
    if first.kind == "missing":
        return f"field {field!r} is missing."
    return f"field {field!r} is {_short(first.value)}: {first.message[0].lower()}{first.message[1:]}."


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}…"


def _episode(entry: Entry, row: Row, manifest: Path, problems: list[Problem]) -> Episode:
    base, videos = manifest.parent, entry.videos()
    episode_id = safe_name(entry.id or _default_id(next(iter(videos.values()), entry.curve or "")))
    named = {**{f"views.{view}": text for view, text in videos.items()}, "curve": entry.curve}
    goals = entry.goal if isinstance(entry.goal, dict) else {}
    if isinstance(entry.goal, str):
        goals = {next(iter(videos), MAIN): entry.goal}
    named |= {f"goal.{view}": text for view, text in goals.items()}
    missing = {field for field, text in named.items() if text and not os.path.exists(base / text)}
    problems += [
        Problem(episode_id, f"{row.where}: {field} {shown(named[field] or '')!r} does not exist")
        for field in sorted(missing)
    ]
    subgoals = parse_subgoals(entry.subgoals, row.where) if entry.subgoals else ()
    return Episode(
        id=episode_id,
        instruction=entry.instruction,
        source=str(manifest),
        task=entry.task or entry.instruction,
        policy=entry.policy,
        robot=entry.robot,
        dataset=entry.dataset,
        views={view: _view(base / text, entry.fps) for view, text in videos.items()},
        goals={view: base / text for view, text in goals.items() if f"goal.{view}" not in missing},
        pair=entry.pair,
        subgoals=subgoals,
        labels=_labels(entry, subgoals, row, manifest.name),
        recorded=(base / entry.curve,) if entry.curve and "curve" not in missing else (),
        metadata=entry.metadata,
    )


def _default_id(text: str) -> str:
    path = Path(text.removesuffix("/"))
    name = path.name[: -len(path.suffix)] if path.suffix else path.name
    name = name.removesuffix(".curve")
    return (name or text) if path.is_absolute() else (path.parent / name).as_posix()


def _view(path: Path, fps: float | None) -> View:
    if not os.path.isdir(path):
        return VideoView(path)
    frames = image_sequence(_names(path))
    return ImageSequenceView(tuple(path / name for name in frames), fps or SEQUENCE_FPS)


def _labels(entry: Entry, subgoals: tuple[Subgoal, ...], row: Row, author: str) -> Labels:
    names = [subgoal.name for subgoal in subgoals]
    for name in entry.subgoal_labels if names else ():
        if name not in names:
            close = difflib.get_close_matches(name, names, n=1)
            meant = f" Did you mean {close[0]!r}?" if close else ""
            raise ManifestError(
                f"{row.where}: subgoal_labels names {name!r}, which is not a subgoal.{meant} "
                f"Subgoals: {', '.join(names)}."
            )
    stages = check_stages(
        (Stage(stage.name, stage.start_second, stage.end_second) for stage in entry.stages), row.where
    )
    rows = [Label("stage", stage.name, stage.start_s, stage.end_s, author=author) for stage in stages]
    rows += [
        Label("subgoal", name, value=float(reached), author=author)
        for name, reached in entry.subgoal_labels.items()
        if reached is not None
    ]
    if entry.success is not None:
        rows.append(Label("success", entry.success_mode, value=float(entry.success), author=author))
    return Labels(tuple(rows))
