"""A folder of videos, with a manifest or without one.

Without a manifest, episodes, views and instructions are inferred from the names of files and folders. The rules are
documented in docs/data/readers.md and are part of :attr:`Listing.rules`, so that ``stepscore inspect`` shows how a
source was read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ParamSpec, TypeVar

from stepscore.episodes.episode import Episode
from stepscore.episodes.labels.labels import Label, Labels
from stepscore.episodes.naming import INSTRUCTION_RULE, instruction_from, policy_from, policy_rule
from stepscore.episodes.readers import sidecar_files as sidecar
from stepscore.episodes.readers.folder_names import (
    IMAGE_SUFFIXES,
    SEQUENCE_FPS,
    VIDEO_SUFFIXES,
    EpisodeFiles,
    find_episodes,
)
from stepscore.episodes.readers.manifest import MANIFEST_SUFFIXES, find_manifest, read_manifest
from stepscore.episodes.readers.scan import Folder, scan
from stepscore.episodes.source import Listing, Problem, ReadOptions
from stepscore.episodes.video.video_view import VideoView
from stepscore.errors import OptionError, SourceError, StepScoreError

T = TypeVar("T")
P = ParamSpec("P")

_SUFFIXES = (*VIDEO_SUFFIXES, *IMAGE_SUFFIXES, *sidecar.CURVE_SUFFIXES)
_RULES = (
    "Id: the path below the source, without suffix.",
    INSTRUCTION_RULE,
    f"{sidecar.INSTRUCTIONS} in the video's folder or the one above it takes precedence: the first of its texts is "
    "the instruction, the others are paraphrases.",
    "Views: files of one name that end in a camera (x_cam_high.mp4, x_wrist.mp4) are one episode x; a folder "
    "of nothing but cameras (episode_001/cam_high.mp4 ...) is one episode.",
    f"Numbered images in a folder are one video, taken to have {SEQUENCE_FPS:g} frames per second.",
    "Goal images: goal.png for a folder, <name>.goal.png for an episode, <name>_<view>.goal.png for a view.",
    f"Success: the column EpisodeSuccess of a {sidecar.STEP_METRICS} beside the only episode of its folder.",
    f"Stages: {sidecar.KEYFRAMES} beside the only episode of its folder.",
    "Recorded curves: <name>.curve.csv, .jsonl or .parquet; else every curve file beside the only episode of "
    "its folder.",
    "Dataset and robot: unknown. A manifest can state everything.",
)


class FolderReader:
    """Videos and image sequences in folders, a single video file, or a manifest."""

    def matches(self, path: Path) -> bool:
        """Return whether ``path`` is a folder, a video or a manifest."""
        return path.is_dir() or path.suffix.lower() in (*VIDEO_SUFFIXES, *MANIFEST_SUFFIXES)

    def read(self, path: Path, options: ReadOptions) -> Listing:
        """List the episodes of a folder, a video file or a manifest."""
        manifest = find_manifest(path) if path.is_dir() else path
        if manifest is not None and manifest.suffix.lower() in MANIFEST_SUFFIXES:
            if options.policy_from is not None:
                raise OptionError(
                    f"policy-from {options.policy_from}: {manifest} states the policy in its field 'policy'."
                )
            return read_manifest(manifest)
        if path.is_dir():
            return _by_names(path, options)
        if path.suffix.lower() in VIDEO_SUFFIXES:
            return _one_video(path, options)
        raise SourceError(
            f"{path} is neither a folder, nor a video ({', '.join(VIDEO_SUFFIXES)}), "
            f"nor a manifest ({', '.join(MANIFEST_SUFFIXES)})."
        )


def _by_names(source: Path, options: ReadOptions) -> Listing:
    folders, problems = scan(source, _SUFFIXES)
    found, unplaced = find_episodes(source.resolve(), folders)
    problems += unplaced
    builder = _EpisodeBuilder(str(source), options, problems)
    episodes: dict[str, Episode] = {}
    for item in found:
        if item.id in episodes:
            problems.append(Problem(item.id, "two episodes would have this id; the second is left out"))
        else:
            episodes[item.id] = builder.episode(item)
    problems += _unclaimed(folders, found)
    if not episodes and not problems:
        problems.append(Problem(str(source), f"no file ends in {', '.join(_SUFFIXES)}"))
    ordered = [episodes[key] for key in sorted(episodes)]
    return Listing(ordered, tuple(problems), (*_RULES, policy_rule(options.policy_from)))


def _unclaimed(folders: Sequence[Folder], found: Sequence[EpisodeFiles]) -> Iterator[Problem]:
    """Yield a problem for each step_metrics.csv beside several episodes, since it belongs to none of them."""
    shared = {item.folder.parts for item in found} - {f.parts for item in found for f in item.alone}
    for folder in folders:
        if sidecar.STEP_METRICS in folder.files and folder.parts in shared:
            why = "is beside several episodes, so it belongs to none of them; name it <video>.curve.csv"
            yield Problem(folder.id_of(sidecar.STEP_METRICS), why)


def _one_video(path: Path, options: ReadOptions) -> Listing:
    """List one video file as its folder describes it, with this file as its only view."""
    folders, problems = scan(path.parent, _SUFFIXES, deep=False)
    found, unplaced = find_episodes(path.parent.resolve(), folders)
    why = next((p.why for p in (*problems, *unplaced) if p.where == path.name), "cannot be listed")
    view = VideoView(folders[0].path / path.name) if folders else None
    for item in found:
        name = next((name for name, other in item.views.items() if other == view), None)
        if name is not None:
            one = replace(item, id=path.stem, views={name: item.views[name]})
            problems = []
            episode = _EpisodeBuilder(str(path), options, problems).episode(one)
            return Listing([episode], tuple(problems), (*_RULES, policy_rule(options.policy_from)))
    raise SourceError(f"{path}: {why}.")


class _EpisodeBuilder:
    """Builds episodes from the files found for them, reading their sidecar files.

    A file that is wrong becomes a problem, and the episode is built without it.
    """

    def __init__(self, source: str, options: ReadOptions, problems: list[Problem]) -> None:
        self.source, self.options, self.problems = source, options, problems
        self._instructions: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._goals: dict[tuple[str, ...], dict[str, Path]] = {}

    def episode(self, found: EpisodeFiles) -> Episode:
        """Return the episode with the content of its sidecar files."""
        folder = found.folder
        if folder.parts not in self._goals:
            self._goals[folder.parts] = sidecar.goals_by_name(folder.path, folder.files)
        stated = self._stated_instruction(found)
        instruction, *others = stated or (self._inferred_instruction(found),)
        return Episode(
            id=found.id,
            instruction=instruction,
            source=self.source,
            task=instruction,
            policy=policy_from(found.parts, self.options.policy_from, found.id),
            views=found.views,
            goals=sidecar.goal_images(self._goals[folder.parts], found.name, list(found.views)),
            labels=Labels(tuple(self._labels(found))),
            recorded=found.recorded,
            metadata={"paraphrases": tuple(others)} if others else {},
            inferred_instruction=not stated,
        )

    def _stated_instruction(self, found: EpisodeFiles) -> tuple[str, ...]:
        """Return the instruction and its paraphrases from a file; empty without one."""
        folder = found.folder
        above = folder.parts[:-1] if folder.parts else ("..",)
        for place in (folder.parts, above) if sidecar.INSTRUCTIONS in folder.files else (above,):
            if place not in self._instructions:
                home = folder.path if place == folder.parts else folder.path.absolute().parent
                self._instructions[place] = self._paraphrases(home / sidecar.INSTRUCTIONS, found.id)
            if self._instructions[place]:
                return self._instructions[place]
        return ()

    def _inferred_instruction(self, found: EpisodeFiles) -> str:
        """Return the instruction by the names of folders."""
        depth = self.options.policy_from
        policy = None if depth is None else len(found.above) - len(found.parts) + depth - 1
        return instruction_from([name for number, name in enumerate(found.above) if number != policy])

    def _paraphrases(self, file: Path, where: str) -> tuple[str, ...]:
        return self._try(where, sidecar.read_instructions, file) if os.path.isfile(file) else ()

    def _labels(self, found: EpisodeFiles) -> Iterator[Label]:
        for folder in found.alone:
            if sidecar.STEP_METRICS in folder.files:
                yield from self._try(found.id, sidecar.read_success, folder.path / sidecar.STEP_METRICS)
            if sidecar.KEYFRAMES in folder.files and found.views:
                main = next(iter(found.views.values()))
                yield from self._try(found.id, sidecar.read_keyframes, folder.path / sidecar.KEYFRAMES, main)

    def _try(
        self, where: str, read: Callable[P, tuple[T, ...]], *args: P.args, **kwargs: P.kwargs
    ) -> tuple[T, ...]:
        try:
            return read(*args, **kwargs)
        except StepScoreError as error:
            self.problems.append(Problem(where, str(error)))
            return ()
