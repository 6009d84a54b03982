"""Join a caller's labels, subgoals and instruction to the episodes of a source, and say what was joined."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import overload

from stepscore._local_modules import place_in_local_code
from stepscore._tracebacks import log_traceback
from stepscore._untrusted import shown
from stepscore.episodes.episode import Episode
from stepscore.episodes.labels.labels import Label, Labels
from stepscore.episodes.labels.subgoals import TaskSubgoals, find_subgoals
from stepscore.errors import MissingExtraError, exits_as_errors

FILES_BESIDE = {
    "labels": ("labels.parquet", "labels.csv", "labels.jsonl"),
    "subgoals": ("subgoals.yaml", "subgoals.yml"),
}
"""File names, next to the data, that suggest labels or subgoals, by the option that takes them."""
MOST_NAMED = 3
"""A message names no more episodes or tasks than these."""
MOST_COMPARED = 10_000
"""Among more ids than these the closest one is not searched."""


@dataclass(frozen=True)
class Additions:
    """What is joined to the episodes of a source.

    Attributes:
        source: The source as it was opened.
        labels: Labels by episode id.
        subgoals: Subgoals by task.
        instruction: The instruction of every episode; ``None`` to keep the source's.
    """

    source: str
    labels: Mapping[str, tuple[Label, ...]] = field(default_factory=dict)
    subgoals: Mapping[str, TaskSubgoals] = field(default_factory=dict)
    instruction: str | None = None

    def replaces_task(self, episode: Episode) -> bool:
        """Return whether the instruction makes another task of an episode, which its labels are not about.

        It does not where the source states the task by name, or no instruction.
        """
        stated = episode.instruction.lower().split()
        if self.instruction is None or not stated or episode.inferred_instruction:
            return False
        return episode.task in (None, episode.instruction) and stated != self.instruction.lower().split()

    def to(self, episode: Episode) -> Episode:
        """Return an episode of the source with what is joined to it."""
        if self.instruction is not None:
            task = self.instruction if episode.task == episode.instruction else episode.task
            if self.replaces_task(episode):
                episode = replace(episode, labels=Labels(), subgoals=(), success_mode=None)
            episode = replace(episode, instruction=self.instruction, task=task)
        entry = find_subgoals(self.subgoals, episode.task, episode.instruction)
        return replace(
            episode,
            source=self.source,
            labels=episode.labels.with_rows(self.labels.get(episode.id, ())),
            subgoals=entry.subgoals if entry else episode.subgoals,
            success_mode=entry.success if entry else episode.success_mode,
        )


class JoinedEpisodes(Sequence[Episode]):
    """Episodes joined with what a caller adds as each is made, so that a lazy listing stays lazy."""

    def __init__(self, episodes: Sequence[Episode], additions: Additions) -> None:
        self._episodes, self._additions = episodes, additions

    def __len__(self) -> int:
        return len(self._episodes)

    def ids(self) -> list[str]:
        """Return all ids, in order."""
        return listed_ids(self._episodes)

    @overload
    def __getitem__(self, key: int) -> Episode: ...
    @overload
    def __getitem__(self, key: slice) -> Sequence[Episode]: ...
    def __getitem__(self, key: int | slice) -> Episode | Sequence[Episode]:
        if isinstance(key, slice):
            return JoinedEpisodes(self._episodes[key], self._additions)
        number = range(len(self))[key]  # past the end an IndexError, which ends an iteration; no other may
        try:
            with exits_as_errors():
                episode = self._episodes[number]
        except MissingExtraError:
            raise
        except (
            Exception
        ) as error:  # a reader may be third-party code, and one bad episode must not hide the others
            log_traceback(error)
            why = f"{type(error).__name__}: {error}{place_in_local_code(error)}"
            episode = Episode(self.ids()[number], instruction="", error=why)
        return self._additions.to(episode)


def listed_ids(episodes: Sequence[Episode]) -> list[str]:
    """Return all ids, in order; makes no episode where the source lists them without."""
    list_ids: Callable[[], list[str]] | None = getattr(episodes, "ids", None)
    return list_ids() if list_ids is not None else [episode.id for episode in episodes]


def no_such_episodes(unknown: Sequence[str], n_labelled: int, ids: Sequence[str]) -> str:
    """Return what is wrong with the ids of a labels file that no episode has, and the closest that one has."""
    known = set(ids)
    named = ", ".join(f"{shown(name)!r}{_closest(name, known)}" for name in unknown[:MOST_NAMED])
    if len(unknown) == 1:
        return f"no episode is called {named}"
    more = f" and {len(unknown) - MOST_NAMED} more" if len(unknown) > MOST_NAMED else ""
    return (
        f"{len(unknown)} of its {n_labelled} episode ids are unknown: {named}{more}. An id is the path below the "
        "source without suffix, as `stepscore inspect` lists it"
    )


def _closest(name: str, ids: set[str]) -> str:
    """Return a question with the closest id, in parentheses; empty where none is close."""
    stem = str(PurePosixPath(name).with_suffix("")) if PurePosixPath(name).name else name
    close = [stem] if stem in ids else []
    if not close and len(ids) <= MOST_COMPARED:
        close = difflib.get_close_matches(name[:200], ids, n=1)
    return f" (did you mean {shown(close[0])!r}?)" if close else ""


def no_task_fits(file: str, by_task: Mapping[str, TaskSubgoals], episode: Episode) -> str:
    """Return a sentence about a subgoals file whose tasks are those of no episode."""
    return (
        f"The tasks of {shown(file)} fit no episode: {listed_tasks(by_task)}. "
        f"The first episode, {episode.id}, has the task {shown(repr(episode.task or episode.instruction))}. "
        'Name tasks as `stepscore inspect` does, or "*" for every task.'
    )


def listed_tasks(by_task: Mapping[str, TaskSubgoals]) -> str:
    """Return the first tasks of a subgoals file, and how many more there are."""
    names = sorted(by_task)
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(shown(repr(name)) for name in names[:MOST_NAMED]) + more


def files_beside(path: Path) -> dict[str, Path]:
    """Return the labels and subgoals files next to the data, by the option that takes them."""
    folder = path if path.is_dir() else path.parent
    found = {
        option: next((folder / name for name in names if (folder / name).is_file()), None)
        for option, names in FILES_BESIDE.items()
    }
    return {option: file for option, file in found.items() if file is not None and file != path}


def not_used(files: Mapping[str, Path], options: Collection[str] = tuple(FILES_BESIDE)) -> str | None:
    """Return a sentence about labels and subgoals next to the data that are not joined; ``None`` without any.

    Args:
        files: The files, by the option that takes them.
        options: The options to name: those of the command that reads the source.
    """
    if not files:
        return None
    names = " and ".join(file.name for file in files.values())
    usable = {option: file for option, file in files.items() if option in options}
    flags = " ".join(f"--{option} {shlex.quote(shown(file))}" for option, file in usable.items())
    use = f" To use {'it' if len(usable) == 1 else 'them'}: {flags}" if usable else ""
    return f"Not used: {names} next to the data.{use}"


def labels_of_another_task(episodes: Sequence[Episode], additions: Additions) -> str | None:
    """Return a sentence about labels where the instruction makes another task; ``None`` where it does not."""
    if additions.instruction is None:
        return None
    first = JoinedEpisodes(
        episodes, Additions(additions.source)
    )  # in which one bad episode is an error of its own
    replaced = [episode for episode in islice(first, 100) if additions.replaces_task(episode)]
    if replaced and additions.labels:
        return "The labels joined count for the instruction given, not for those of the source."
    for episode in replaced:
        if episode.labels.rows or episode.subgoals:
            return (
                f"Not used: labels and subgoals of the source, since they are for its own instructions "
                f"({shown(repr(episode.instruction))}). For the one of --instruction: --labels FILE, --subgoals FILE"
            )
    return None
