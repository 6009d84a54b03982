"""Options that choose what is read: a source, its episodes, their labels and cameras."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
        help="Format of the source (`stepscore ls readers`), or your own FILE.py:CLASS.",
    ),
]
PolicyFrom = Annotated[
    int | None,
    typer.Option(
        "--policy-from",
        callback=between(1, 1000),
        metavar="DEPTH",
        help="Take the policy from the folder at this depth below SOURCE.",
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
        help="Goal images: an image, a folder with one per task, or last-success.",
    ),
]


@dataclass(frozen=True)
class SourceFlags:
    """The episodes to judge: their source, cameras, labels and goals."""

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
        return list_source(
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

    def inspect_command(self, source: str) -> str:
        """Return the command that lists the problems of a source and the files joined to it."""
        flags = {"--labels": self.labels, "--subgoals": self.subgoals, "--reader": self.reader}
        words = [word for flag, value in flags.items() if value is not None for word in (flag, str(value))]
        return shlex.join(["stepscore", "inspect", source, *words])


def list_source(source: str, **given: Any) -> Episodes:
    """Open a source with a progress bar, and print what was joined to it and what was not.

    Args:
        source: The source.
        **given: Arguments of ``open_episodes``; ``labels`` and ``subgoals`` where the command has these options.
    """
    from stepscore.episodes import open_episodes

    episodes = with_bar(open_episodes, "Listing episodes")(source, **given)
    print_notes(episodes, given)
    return episodes


def print_notes(episodes: Episodes, options: Collection[str] = ("labels", "subgoals")) -> None:
    """Print which files were joined to a source, and which files next to it were not.

    Args:
        episodes: The source.
        options: Options of the command; of those that would use a file, only these are named.
    """
    from stepscore.episodes import not_used

    stated, own = not_used(episodes.unused), not_used(episodes.unused, options)
    for note in episodes.notes:
        err().print(own if note == stated else note, soft_wrap=True, markup=False)


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

    A number is the source's own if it numbers its episodes (LeRobot), else the index in the listing. An unknown name
    is returned unchanged, for the error that lists the known ones.
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
            # Only existing numbers of a range are visited: its end may be any number.
            first, last = _index(span["first"]), _index(span["last"])
            chosen += [name for number, name in numbered.items() if first <= number <= last]
    if not chosen:
        raise OptionError(f"--episodes {text} names none of the {len(listed)} episodes.")
    return chosen


_SPAN = re.compile(r"(?P<first>[0-9]+)(?:-(?P<last>[0-9]+))?")


def _index(digits: str) -> int:
    """Return an episode's number; for absurdly many digits, one that no episode has."""
    return int(digits) if len(digits) < 19 else 10**18
