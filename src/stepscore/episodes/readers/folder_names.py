"""Find the episodes of a folder from the names of files and folders, without opening any."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from stepscore.episodes.naming import MAIN, is_number, views_by_stem, views_of_folder
from stepscore.episodes.readers.scan import Folder
from stepscore.episodes.readers.sidecar_files import curve_stem, is_goal, looks_like_curve
from stepscore.episodes.source import Problem
from stepscore.episodes.video.image_files import ImageSequenceView
from stepscore.episodes.video.video_view import VideoView
from stepscore.episodes.view import View

VIDEO_SUFFIXES = (".mp4", ".webm", ".mkv", ".avi", ".mov", ".gif")
IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg")
SEQUENCE_FPS = 25.0
"""Frames per second of an image sequence whose rate is not stated; the default of ffmpeg, too."""

_FRAME = re.compile(r"(?P<prefix>.*?)(?P<number>\d+)")
_Parts = tuple[str, ...]


@dataclass(frozen=True)
class EpisodeFiles:
    """The files of one episode, by their names.

    Attributes:
        id: The episode's id.
        name: Common beginning of the names of its files.
        folder: The folder of those files.
        parts: Names of the folders from the source down to its video or images.
        above: Folders whose names may be its instruction, the nearest last; ends with ``parts``.
        views: Views by camera name.
        alone: Folders in which it is the only episode, so that their other files belong to it.
        recorded: Files that may hold its curve.
    """

    id: str
    name: str
    folder: Folder
    parts: _Parts
    above: _Parts
    views: Mapping[str, View] = field(default_factory=dict)
    alone: tuple[Folder, ...] = ()
    recorded: tuple[Path, ...] = ()


def find_episodes(root: Path, folders: Sequence[Folder]) -> tuple[list[EpisodeFiles], list[Problem]]:
    """Find the episodes in ``folders`` (a walk from ``root``); return them and the files that fit none."""
    if folders and (frames := image_sequence(folders[0].files)):
        views = {MAIN: _images(folders[0], frames)}
        above = (root.parent.name, root.name)
        whole = EpisodeFiles(root.name, root.name, folders[0], (), above, views, (folders[0],))
        return _with_curves(root, folders[:1], [whole]), []
    videos, problems = _videos_by_folder(root, folders)
    by_parts = {folder.parts: folder for folder in folders}
    found = [e for folder in folders for e in _in_folder(root, folder, videos[folder.parts], by_parts)]
    return _with_curves(root, folders, found), problems


def image_sequence(files: Sequence[str]) -> list[str]:
    """Return the numbered images among ``files`` in order; empty where they are not a sequence.

    A sequence is two or more images whose names differ only in their number, in a folder without videos.
    """
    sequences = _sequences(files)
    return next(iter(sequences.values())) if len(sequences) == 1 else []


def _sequences(files: Sequence[str]) -> dict[str, list[str]]:
    """Return image sequences by the text before the number."""
    frames: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for name in files:
        stem, _, suffix = name.rpartition(".")
        if f".{suffix.lower()}" in VIDEO_SUFFIXES:
            return {}
        match = _FRAME.fullmatch(stem) if f".{suffix.lower()}" in IMAGE_SUFFIXES else None
        if match and not is_goal(name):
            frames[match["prefix"]].append((int(match["number"]), name))
    ordered = {prefix: [name for _, name in sorted(numbered)] for prefix, numbered in frames.items()}
    return {prefix: names for prefix, names in ordered.items() if len(names) > 1}


def _videos_by_folder(
    root: Path, folders: Sequence[Folder]
) -> tuple[dict[_Parts, dict[str, View]], list[Problem]]:
    """Return views by stem in each folder; an image sequence counts as a video of the folder above its own."""
    videos: dict[_Parts, dict[str, View]] = defaultdict(dict)
    problems: list[Problem] = []
    for folder in folders:
        names = sorted(_sequences(folder.files))
        if len(names) > 1:
            why = f"image sequences of several names ({', '.join(names)}) share the folder; give each its own"
            problems.append(Problem("/".join(folder.parts) or root.name, why))
        elif names:
            videos[folder.parts[:-1]][folder.parts[-1]] = _images(folder, image_sequence(folder.files))
    for folder in folders:
        for stem, file in _video_files(folder.files):
            if stem in videos[folder.parts]:
                problems.append(Problem(folder.id_of(file), f"{folder.id_of(stem)} is already another video"))
            else:
                videos[folder.parts][stem] = VideoView(folder.path / file)
    return videos, problems


def _images(folder: Folder, frames: Sequence[str]) -> ImageSequenceView:
    return ImageSequenceView(tuple(folder.path / name for name in frames), SEQUENCE_FPS)


def _video_files(files: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield stem and name of every video, the more usual format first where two share a stem."""
    named = [(name.lower(), name) for name in files]
    for suffix in VIDEO_SUFFIXES:
        yield from ((name[: -len(suffix)], name) for lower, name in named if lower.endswith(suffix))


def _in_folder(
    root: Path, folder: Folder, videos: Mapping[str, View], by_parts: Mapping[_Parts, Folder]
) -> Iterator[EpisodeFiles]:
    """Yield the episodes whose videos (or image sequences, by folder name) are in ``folder``."""
    name = folder.parts[-1] if folder.parts else root.name
    above = (root.name, *folder.parts)
    numbered = is_number(name) and not name.isalpha()
    cameras = views_of_folder(list(videos), numbered=numbered) if videos else None
    if cameras:
        views = {camera: videos[stem] for camera, stem in cameras.items()}
        whole = EpisodeFiles(
            "/".join(folder.parts) or name, name, folder, folder.parts, above, views, (folder,)
        )
        # The source itself is the episode: then its parent folder may name the instruction.
        yield whole if folder.parts else replace(whole, above=(root.parent.name, name))
        return
    episodes = views_by_stem(list(videos))
    for stem, cameras in episodes.items():
        views = {camera: videos[file] for camera, file in cameras.items()}
        parts, alone = folder.parts, (folder,) if len(episodes) == 1 else ()
        if isinstance(views.get(MAIN), ImageSequenceView):
            inside = by_parts[(*folder.parts, stem)]
            parts, alone = inside.parts, (*alone, inside)
        yield EpisodeFiles(folder.id_of(stem), stem, folder, parts, (root.name, *parts), views, alone)


def _with_curves(root: Path, folders: Sequence[Folder], found: Sequence[EpisodeFiles]) -> list[EpisodeFiles]:
    """Return the episodes with the files that may hold their curves, and episodes that have only a curve.

    A curve is named after its episode (``<name>.curve.csv``); an episode without one may have any file in a
    folder of its own that looks like a curve.
    """
    named: dict[str, list[tuple[Folder, str]]] = defaultdict(list)
    for folder in folders:
        for file in folder.files:
            if stem := curve_stem(file):
                named[folder.id_of(stem)].append((folder, file))
    episodes: list[EpisodeFiles] = []
    taken: set[Path] = set()
    for item in found:
        near = [(folder, file) for folder in item.alone for file in folder.files if looks_like_curve(file)]
        files = tuple(folder.path / file for folder, file in named.pop(item.id, near))
        taken.update(files)
        episodes.append(replace(item, recorded=files) if files else item)
    for episode_id, places in named.items():
        files = tuple(folder.path / file for folder, file in places)
        if not taken.intersection(files):
            folder, name = places[0][0], episode_id.rpartition("/")[2]
            above = (root.name, *folder.parts)
            episodes.append(EpisodeFiles(episode_id, name, folder, folder.parts, above, recorded=files))
    return episodes
