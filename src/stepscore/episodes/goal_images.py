"""Goal images chosen by the user for the episodes of a source, in place of the recorded goal images.

================  ===================================================================================================
``goal``          the goal image of an episode
================  ===================================================================================================
a file            that image
a folder          the image in it that is named by the episode's task, or by its instruction
``last-success``  the last frame of a labelled success of the same task in another scene (another ``pair``): the first
                  by id. This uses labels, which the protocol states.
================  ===================================================================================================
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Protocol, overload

from stepscore._untrusted import shown
from stepscore.episodes.episode import Episode
from stepscore.episodes.image_ops import read_image
from stepscore.episodes.view import GoalFrame
from stepscore.errors import EpisodeError, OptionError, VideoError

LAST_SUCCESS = "last-success"
SUFFIXES = frozenset({".png", ".jpg", ".jpeg"})
MAX_ENTRIES = 100_000
"""Largest number of entries read from a folder of goal images."""
MAX_SHOWN = 8
"""Largest number of tasks or files listed in a message."""


GoalImages = Mapping[str, Path | GoalFrame]
"""Goal image by view."""


class ChosenGoals(Protocol):
    """Goal images chosen for the episodes of a source."""

    def describe(self) -> Mapping[str, object]:
        """Describe the choice as JSON values for the protocol; fingerprints cover the images."""

    def sentence(self) -> str:
        """Describe the choice in a sentence."""

    def goals_of(self, episode: Episode) -> GoalImages:
        """Return the goal images of an episode; EpisodeError if there are none."""


def choose_goals(
    goal: str | Path, view: str | None, selected: Sequence[Episode], listed: Sequence[Episode]
) -> ChosenGoals:
    """Return the goal images that ``goal`` names; see the table above.

    Args:
        goal: An image file, a folder of images, or ``last-success``.
        view: The camera view of the images; ``None`` for each episode's main view.
        selected: The episodes that need a goal image.
        listed: All episodes of the source, which are searched for a success.

    Raises:
        OptionError: The image does not exist, a task in ``selected`` has no image, or no episode is labelled
            a success.
    """
    if str(goal) == LAST_SUCCESS:
        return _LastSuccess.found(selected, listed)
    path = Path(goal).expanduser()
    try:
        is_folder, exists = path.is_dir(), path.exists()
    except (OSError, ValueError) as error:  # the name is too long or contains NUL
        raise OptionError(f"The goal {shown(path)} cannot be read: {error}.") from error
    if is_folder:
        return _ImagePerTask.found(path, view, selected)
    if not exists:
        raise OptionError(
            f"No goal image at {shown(path)}. A goal is an image file, a folder with an image for each task, or "
            f"{LAST_SUCCESS}."
        )
    _check_image(path)
    return _OneImage(path, view)


class EpisodesWithGoals(Sequence[Episode]):
    """Episodes that receive their goal images on access, so that a lazy listing stays lazy.

    An episode without a goal image becomes an episode with an error, which gets a separate row of unknown values.
    """

    def __init__(self, episodes: Sequence[Episode], ids: Callable[[], list[str]], goals: ChosenGoals) -> None:
        self._episodes, self._ids, self._goals = episodes, ids, goals

    def __len__(self) -> int:
        return len(self._episodes)

    def ids(self) -> list[str]:
        """Return all ids, in order."""
        return self._ids()

    @overload
    def __getitem__(self, key: int) -> Episode: ...
    @overload
    def __getitem__(self, key: slice) -> Sequence[Episode]: ...
    def __getitem__(self, key: int | slice) -> Episode | Sequence[Episode]:
        if isinstance(key, slice):
            return EpisodesWithGoals(self._episodes[key], lambda: self._ids()[key], self._goals)
        episode = self._episodes[key]
        if episode.error is not None or not episode.views:
            return episode
        try:
            return replace(episode, goals=dict(self._goals.goals_of(episode)))
        except EpisodeError as error:
            return replace(episode, goals={}, error=str(error))


@dataclass(frozen=True)
class _OneImage:
    path: Path
    view: str | None

    def describe(self) -> Mapping[str, object]:
        return {"from": "file", "view": self.view, "labels": False}

    def sentence(self) -> str:
        return f"{shown(self.path)} for every episode"

    def goals_of(self, episode: Episode) -> GoalImages:
        return {self.view or episode.main_view: self.path}


@dataclass(frozen=True)
class _ImagePerTask:
    folder: Path
    view: str | None
    images: Mapping[str, Path]

    @staticmethod
    def found(folder: Path, view: str | None, selected: Sequence[Episode]) -> _ImagePerTask:
        chosen = _ImagePerTask(folder, view, _images_by_name(folder))
        tasks = _by_task(selected)
        missing = [task for task, episodes in tasks.items() if not all(map(chosen.goals_of, episodes))]
        if missing:
            files = sorted(path.name for path in chosen.images.values())
            raise OptionError(
                f"{shown(folder)} has no goal image for {len(missing)} of {len(tasks)} tasks: {_listed(missing)}. "
                f"Its images: {_listed(files) or 'none'}. Name each by its task, as in "
                f"{_file_name(missing[0])}.png, or judge only the others: --task TASK"
            )
        used = {path for of_task in tasks.values() for e in of_task for path in chosen.goals_of(e).values()}
        for path in sorted(used):
            _check_image(path)
        return chosen

    def describe(self) -> Mapping[str, object]:
        return {"from": "folder", "view": self.view, "labels": False}

    def sentence(self) -> str:
        return f"one image a task, of {shown(self.folder)}"

    def goals_of(self, episode: Episode) -> Mapping[str, Path]:
        main = self.view or episode.main_view
        found = {}
        for text in filter(None, (episode.instruction, episode.task)):
            for view in episode.views:
                path = self.images.get(_words(f"{text} {view}"))
                if path is None and view == main:
                    path = self.images.get(_words(text))
                if path is not None:
                    found[view] = path
        return found


@dataclass(frozen=True)
class _LastSuccess:
    successes: Mapping[str, Sequence[Episode]]

    @staticmethod
    def found(selected: Sequence[Episode], listed: Sequence[Episode]) -> _LastSuccess:
        tasks = _by_task(selected)
        successes: dict[str, list[Episode]] = defaultdict(list)
        for episode in listed:
            if episode.error is None and episode.views and episode.labels.success and _task(episode) in tasks:
                successes[_task(episode)].append(episode)
        if not successes:
            raise OptionError(
                f"--goal {LAST_SUCCESS} takes the last frame of a labelled success of the same task, and none of the "
                f"{len(listed)} episodes is a labelled success of {_listed(list(tasks)) or 'any task'}. "
                "Add labels (--labels FILE), or give images: --goal FILE or --goal FOLDER"
            )
        return _LastSuccess({task: sorted(found, key=lambda e: e.id) for task, found in successes.items()})

    def describe(self) -> Mapping[str, object]:
        return {"from": LAST_SUCCESS, "view": None, "labels": True}

    def sentence(self) -> str:
        return "the last frame of a labelled success of the same task in another scene; this uses labels"

    def goals_of(self, episode: Episode) -> GoalImages:
        task = _task(episode)
        known = self.successes.get(task, ())
        for other in known:
            same_scene = other.pair is not None and other.pair == episode.pair
            views = [view for view in episode.views if view in other.views]
            if other.id != episode.id and not same_scene and views:
                return {view: GoalFrame(other.id, other.views[view]) for view in views}
        why = (
            "no labelled success" if not known else "no labelled success in another scene with the same views"
        )
        raise EpisodeError(f"No goal image: the task {shown(task)!r} has {why}.")


def _images_by_name(folder: Path) -> dict[str, Path]:
    """Return the images of a folder, keyed by the words in their names."""
    found: dict[str, Path] = {}
    try:
        paths = sorted(islice(folder.iterdir(), MAX_ENTRIES))
    except OSError as error:
        raise OptionError(f"Cannot list {shown(folder)}: {error.strerror or error}.") from error
    for path in paths:
        if path.suffix.lower() not in SUFFIXES or path.name.startswith("."):
            continue
        words = _words(path.stem)
        if words in found:
            raise OptionError(
                f"{shown(folder)} has two goal images for one name: {shown(found[words].name)} and "
                f"{shown(path.name)}. Remove one."
            )
        found[words] = path
    return found


def _by_task(episodes: Iterable[Episode]) -> dict[str, list[Episode]]:
    """Return one readable episode for each task and set of views."""
    found: dict[str, dict[tuple[str, ...], Episode]] = defaultdict(dict)
    for episode in episodes:
        if episode.error is None and episode.views:
            found[_task(episode)].setdefault((episode.instruction, *episode.views), episode)
    return {task: list(by_views.values()) for task, by_views in found.items()}


def _task(episode: Episode) -> str:
    return episode.task or episode.instruction


def _words(text: str) -> str:
    """Return the words of a name: ``Put_Cup-on plate`` as "put cup on plate"."""
    return " ".join(re.findall(r"[^\W_]+", text.casefold()))


def _file_name(task: str) -> str:
    return "_".join(_words(task).split())[:80] or "task"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_SHOWN} more" if len(names) > MAX_SHOWN else ""
    return ", ".join(repr(shown(name)[:80]) for name in names[:MAX_SHOWN]) + more


def _check_image(path: Path) -> None:
    try:
        read_image(path, 16)
    except VideoError as error:
        raise OptionError(f"The goal image cannot be used: {error}") from error
