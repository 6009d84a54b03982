"""Options that choose what is read: a source, its episodes, their labels and cameras."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stepscore.cli.local_code import reader_name
from stepscore.cli.numbers import MANY, between
from stepscore.cli.options.groups import After
from stepscore.cli.progress import with_bar
from stepscore.cli.tables import err
from stepscore.errors import OptionError

if TYPE_CHECKING:
    from stepscore.episodes import Episodes

Source = Annotated[
    str, typer.Argument(metavar="SOURCE", help="A file or folder, or a LeRobot repo id (user/name).")
]
LabelsFile = Annotated[
    Path | None,
    typer.Option("--labels", metavar="FILE", help="Labels to add to the episodes (csv, jsonl, parquet)."),
]
SubgoalsFile = Annotated[
    Path | None, typer.Option("--subgoals", metavar="FILE", help="Subgoals of each task (YAML).")
]
Views = Annotated[
    str | None, typer.Option("--views", metavar="A,B", help="Only these cameras, in this order.")
]
Task = Annotated[str | None, typer.Option("--task", metavar="TASK", help="Only episodes of this task.")]
Limit = Annotated[
    int | None,
    typer.Option("--limit", callback=between(1, MANY), metavar="N", help="Only the first N episodes."),
]
EpisodeIds = Annotated[
    str | None,
    typer.Option("--episodes", metavar="IDS", help="Only these episodes: ids, numbers, ranges (0,3,7-9)."),
    After("limit"),
]
ReaderName = Annotated[
    str | None,
    typer.Option(
        "--reader",
        callback=reader_name,
        metavar="NAME",
        help="Read the source as this format, see `stepscore ls readers`; or by a class of yours: FILE.py:CLASS.",
    ),
]
PolicyFrom = Annotated[
    int | None,
    typer.Option(
        "--policy-from",
        callback=between(1, 1000),
        metavar="DEPTH",
        help="Take the policy from the folder at this depth below SOURCE (1 is the first).",
    ),
]
Instruction = Annotated[
    str | None,
    typer.Option(
        "--instruction",
        metavar="TEXT",
        help="The instruction of every episode, instead of those in SOURCE.",
    ),
]
Goal = Annotated[
    str | None,
    typer.Option(
        "--goal",
        metavar="FILE|FOLDER|last-success",
        help="Goal images instead of those in SOURCE: an image, a folder with one named by each task, or the last "
        "frame of a labelled success of the same task in another scene.",
    ),
]


@dataclass(frozen=True)
class SourceFlags:
    """What is read of a source that is judged."""

    views: Views = None
    task: Task = None
    limit: Limit = None
    subgoals: SubgoalsFile = None
    labels: LabelsFile = None
    reader: ReaderName = None
    policy_from: PolicyFrom = None
    instruction: Instruction = None
    goal: Goal = None

    @property
    def cameras(self) -> list[str] | None:
        """The names of ``--views``; ``None`` for all cameras."""
        return split_names(self.views)

    def open(self, source: str) -> Episodes:
        """Return the episodes; goal images are of the first camera."""
        from stepscore.episodes import open_episodes

        episodes = with_bar(open_episodes, "Listing episodes")(
            source,
            labels=self.labels,
            subgoals=self.subgoals,
            task=self.task,
            limit=self.limit,
            reader=self.reader,
            policy_from=self.policy_from,
            instruction=self.instruction,
            goal=self.goal,
            goal_view=self.cameras[0] if self.cameras else None,
        )
        print_notes(episodes)
        return episodes

    def inspect_command(self, source: str) -> str:
        """Return the command that lists what is wrong with a source and the files joined to it."""
        flags = {"--labels": self.labels, "--subgoals": self.subgoals, "--reader": self.reader}
        words = [word for flag, value in flags.items() if value is not None for word in (flag, str(value))]
        return shlex.join(["stepscore", "inspect", source, *words])


def print_notes(episodes: Episodes) -> None:
    """Print what was joined to a source, and what lies beside it and was not."""
    for note in episodes.notes:
        err().print(note, soft_wrap=True, markup=False)


def split_names(text: str | None) -> list[str] | None:
    """Return ``"a,b"`` as ``["a", "b"]``; ``None`` for ``None``."""
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def select_episodes(episodes: Episodes, text: str | None) -> Episodes:
    """Return only the episodes named, see :func:`chosen_ids`."""
    if text is None:
        return episodes
    return episodes.select(chosen_ids([(episode.id, episode.source_index) for episode in episodes], text))


def chosen_ids(listed: Sequence[tuple[str, int | None]], text: str) -> list[str]:
    """Return the ids that ``--episodes`` names: ids, numbers and ranges of numbers (``0,3,7-9``).

    A number is the source's own where it numbers its episodes (LeRobot), else the index in the listing. A name that
    is not there is returned as it is, for the error that lists those that are.

    Args:
        listed: Id and the source's own number of every episode.
        text: The value of the option.
    """
    ids = {name for name, _ in listed}
    if text in ids:
        return [text]
    numbered = {number if number is not None else index: name for index, (name, number) in enumerate(listed)}
    chosen: list[str] = []
    for part in dict.fromkeys(split_names(text) or []):
        span = _SPAN.fullmatch(part)
        if part in ids or span is None:
            chosen.append(part)
        elif span["last"] is None:
            chosen.append(numbered.get(_index(part), part))
        else:
            # Of a range only what is there is looked at: its end may be any number.
            first, last = _index(span["first"]), _index(span["last"])
            chosen += [name for number, name in numbered.items() if first <= number <= last]
    if not chosen:
        raise OptionError(f"--episodes {text} names none of the {len(listed)} episodes.")
    return chosen


_SPAN = re.compile(r"(?P<first>[0-9]+)(?:-(?P<last>[0-9]+))?")


def _index(digits: str) -> int:
    """Return a number of an episode; of absurdly many digits, one that no episode has."""
    return int(digits) if len(digits) < 19 else 10**18
