"""Open a source: choose its reader and list its episodes."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol, overload

from stepscore._local_modules import place_in_local_code
from stepscore.episodes.episode import Episode
from stepscore.episodes.goal_images import ChosenGoals, EpisodesWithGoals, choose_goals
from stepscore.episodes.labels.joining import (
    Additions,
    JoinedEpisodes,
    files_beside,
    labels_of_another_task,
    listed_ids,
    no_such_episodes,
    no_task_fits,
    not_used,
)
from stepscore.episodes.labels.labels import read_labels
from stepscore.episodes.labels.subgoals import TaskSubgoals, find_subgoals, read_subgoals
from stepscore.errors import OptionError, SourceError, StepScoreError, UnknownNameError, exits_as_errors
from stepscore.registry import Registry


class Problem(NamedTuple):
    """Something in a source that could not be read, and why."""

    where: str
    why: str


@dataclass(frozen=True)
class Listing:
    """The result of a reader.

    Attributes:
        episodes: Handles, sorted by id; may be a lazy sequence that makes each on demand, with a method
            ``ids()`` that lists the ids without making any.
        problems: Files and folders that could not be read, and why.
        rules: How names were turned into instructions, tasks, views and policies, in sentences for a person.
    """

    episodes: Sequence[Episode]
    problems: tuple[Problem, ...] = ()
    rules: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReadOptions:
    """Options of a reader.

    Attributes:
        policy_from: Take the policy from the folder at this depth below the source (1 is the first).
    """

    policy_from: int | None = None


class Reader(Protocol):
    """One format of recorded rollouts."""

    def matches(self, path: Path) -> bool:
        """Return whether ``path`` has this format; cheap, and never raises."""

    def read(self, path: Path, options: ReadOptions) -> Listing:
        """List the episodes at ``path`` without decoding. Raises SourceError when nothing there can be used."""


reader_registry: Registry[Callable[[], Reader]] = Registry(
    "reader",
    {
        # In the order in which they are tried: the most specific layout first, plain videos last.
        "lerobot": "stepscore.episodes.lerobot.reader:LeRobotReader",
        "lerobot-eval": "stepscore.episodes.lerobot.eval_output:LeRobotEvalReader",
        "vla-eval": "stepscore.episodes.readers.vla_eval:VlaEvalReader",
        "inspect-robots": "stepscore.episodes.readers.inspect_robots:InspectRobotsReader",
        "hdf5": "stepscore.episodes.readers.hdf5:Hdf5Reader",
        "curves": "stepscore.episodes.readers.curves:CurvesReader",
        "prm": "stepscore.episodes.readers.prm:PrmReader",
        "folder": "stepscore.episodes.readers.folder:FolderReader",
    },
    group="stepscore.readers",
)
_ORDER = ("lerobot", "lerobot-eval", "vla-eval", "inspect-robots", "hdf5", "curves", "prm")


class Episodes(Sequence[Episode]):
    """The episodes of a source, in the order of their ids. Listing them decodes nothing.

    ``len(episodes)``, iteration, ``episodes[3]``, ``episodes["episode_000012"]``.

    Attributes:
        notes: What was joined to the source and what was not, such as labels next to it, in sentences.
        subgoals_file: Subgoals by task that were given; empty without.
        unused: Labels and subgoals files next to the data that were not given, by the option that takes them.
    """

    def __init__(
        self,
        source: str,
        reader: str,
        listing: Listing,
        reader_code: Mapping[str, str] | None = None,
        goals: ChosenGoals | None = None,
        notes: tuple[str, ...] = (),
        subgoals_file: Mapping[str, TaskSubgoals] | None = None,
        unused: Mapping[str, Path] | None = None,
    ) -> None:
        self.source = source
        self.reader = reader
        self.reader_code = reader_code
        self.goals = goals
        self.notes = notes
        self.subgoals_file = subgoals_file or {}
        self.unused = unused or {}
        self.problems = listing.problems
        self.rules = listing.rules
        self._episodes = listing.episodes
        self._by_id: dict[str, int] | None = None

    def __len__(self) -> int:
        return len(self._episodes)

    def __iter__(self) -> Iterator[Episode]:
        return iter(self._episodes)

    @overload
    def __getitem__(self, key: int | str) -> Episode: ...
    @overload
    def __getitem__(self, key: slice) -> Episodes: ...
    def __getitem__(self, key: int | str | slice) -> Episode | Episodes:
        if isinstance(key, slice):
            return self._with(self._episodes[key])
        if isinstance(key, int):
            return self._episodes[key]
        if self._by_id is None:
            self._by_id = {name: number for number, name in enumerate(self.ids())}
        if key not in self._by_id:
            raise UnknownNameError("episode", key, self._by_id, where=self.source)
        return self._episodes[self._by_id[key]]

    def ids(self) -> list[str]:
        """Return all ids, in order; makes no episode where the source lists them without."""
        return listed_ids(self._episodes)

    def select(self, ids: Sequence[str]) -> Episodes:
        """Return only these episodes; the error for an unknown id names the closest one."""
        return self._with([self[name] for name in sorted(set(ids))])

    def _with(self, episodes: Sequence[Episode]) -> Episodes:
        listing = Listing(episodes, self.problems, self.rules)
        return Episodes(
            self.source,
            self.reader,
            listing,
            self.reader_code,
            self.goals,
            self.notes,
            self.subgoals_file,
            self.unused,
        )

    def __repr__(self) -> str:
        return "\n  ".join(
            (f"Episodes({len(self)} from {self.source!r}, read as {self.reader})", *self.notes)
        )


def open_episodes(
    source: str | Path,
    labels: str | Path | None = None,
    subgoals: str | Path | None = None,
    task: str | None = None,
    limit: int | None = None,
    *,
    reader: str | None = None,
    policy_from: int | None = None,
    instruction: str | None = None,
    goal: str | Path | None = None,
    goal_view: str | None = None,
) -> Episodes:
    """List the episodes of a source, as handles that read on demand.

    Args:
        source: A path (folder of videos, LeRobot dataset, HDF5 file ...), a LeRobot repo id ``user/name`` (of
            another revision: ``user/name@v2.0``), or the URL of a LeRobot dataset (``s3://``, ``gs://``, ``hf://``
            ...). The last two are read by range.
        labels: A labels file (csv, jsonl, parquet) to join by episode id. One next to the data is not joined
            unless it is given; ``notes`` of the result names it.
        subgoals: A YAML file with the subgoals of each task; as with labels.
        task: Keep only episodes of this task.
        limit: Keep only this many, the first in the order of their ids.
        reader: Read it as this format instead of detecting it; see ``stepscore ls readers``.
        policy_from: Take the policy from the folder at this depth below the source (1 is the first).
        instruction: The instruction of every episode, instead of the source's. Labels and subgoals that the source
            states for another one are left out.
        goal: Goal images instead of the source's: an image file, a folder with an image named by each task, or
            ``last-success``, the last frame of a labelled success of the same task in another scene (``pair``).
        goal_view: The view that an image of ``goal`` is of; by default each episode's main one.
    """
    if instruction is not None and not instruction.strip():
        raise OptionError(
            "The instruction is empty. Give the text the robot was given, or leave it to the source."
        )
    path = _locate(source)
    name = reader or _detect(path)
    make = reader_registry.get(name)
    try:
        with exits_as_errors():
            listing = make().read(path, ReadOptions(policy_from=policy_from))
    except Exception as error:
        if isinstance(error, StepScoreError | OSError) or reader_registry.is_builtin(name):
            raise
        raise SourceError(
            f"Reader {name!r} cannot read {path}: {type(error).__name__}: {error}{place_in_local_code(error)}"
        ) from error
    episodes: Sequence[Episode] = listing.episodes
    if not len(episodes):
        why = f" {listing.problems[0].where}: {listing.problems[0].why}" if listing.problems else ""
        raise SourceError(f"No episodes in {path} (read as {name}).{why}")
    problems, notes = listing.problems, []
    rows = read_labels(Path(labels)) if labels is not None else {}
    if rows:
        ids = listed_ids(episodes)
        unknown = sorted(set(rows) - set(ids))
        if unknown:
            problems += (Problem(str(labels), no_such_episodes(unknown, len(rows), ids)),)
        notes.append(
            f"{len(rows) - len(unknown)} of {len(ids)} episodes labelled by {Path(str(labels)).name}."
        )
    is_local = Path(source).expanduser().exists()
    where = str(path) if is_local else str(source)
    by_task = read_subgoals(Path(subgoals)) if subgoals is not None else {}
    additions = Additions(where, rows, by_task, instruction)
    notes += filter(None, [labels_of_another_task(episodes, additions)])
    given = {"labels": labels, "subgoals": subgoals}
    beside = files_beside(Path(source).expanduser()) if is_local else {}
    unused = {option: file for option, file in beside.items() if given[option] is None}
    notes += filter(None, [not_used(unused)])
    listed = episodes = JoinedEpisodes(episodes, additions)
    if by_task and not any(find_subgoals(by_task, one.task, one.instruction) for one in episodes):
        warnings.warn(no_task_fits(str(subgoals), by_task, episodes[0]), stacklevel=2)
    if task is not None:
        episodes = _of_task(episodes, task)
    if limit is not None:
        if limit < 1:
            raise OptionError(f"limit must be at least 1, got {limit}.")
        episodes = episodes[:limit]
    code = getattr(make, "local_code", None)  # of a class in a file that the command line named
    goals = None
    if goal is not None:
        goals = choose_goals(goal, goal_view, episodes, listed)
        episodes = EpisodesWithGoals(episodes, partial(listed_ids, episodes), goals)
    found = Listing(episodes, problems, listing.rules)
    return Episodes(where, name, found, code, goals, tuple(notes), by_task, unused)


def _of_task(episodes: Sequence[Episode], task: str) -> list[Episode]:
    kept = [episode for episode in episodes if (episode.task or episode.instruction) == task]
    if not kept:
        names = {episode.task or episode.instruction for episode in episodes}
        raise UnknownNameError("task", task, names)
    return kept


def _locate(source: str | Path) -> Path:
    if "://" in str(source):
        from stepscore.episodes.remote import dataset_folder

        return dataset_folder(str(source))
    path = Path(source).expanduser()
    if path.exists():
        return Path(os.path.abspath(path))
    parts = str(source).split("/")
    if len(parts) == 2 and all(parts) and not str(source).startswith((".", "~")) and not path.parent.exists():
        from stepscore.episodes.remote import dataset_folder, dataset_url

        return dataset_folder(dataset_url(str(source)))
    raise SourceError(
        f"No such file or folder: {source}. A source is a path, a LeRobot repo id (user/name), or the URL of a "
        "LeRobot dataset (s3://bucket/name)."
    )


def _detect(path: Path) -> str:
    others = [name for name in reader_registry.names() if name not in (*_ORDER, "folder")]
    for name in (*others, *_ORDER):
        with exits_as_errors():
            matches = reader_registry.get(name)().matches(path)
        if matches:
            return name
    return "folder"
