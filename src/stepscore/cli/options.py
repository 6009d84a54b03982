"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stepscore.errors import OptionError

if TYPE_CHECKING:
    from stepscore.episodes import Episodes

Source = Annotated[str, typer.Argument(metavar="SOURCE", help="A path, or a LeRobot repo id (user/name).")]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
LabelsFile = Annotated[
    Path | None, typer.Option("--labels", metavar="FILE", help="Labels to join (csv, jsonl, parquet).")
]
SubgoalsFile = Annotated[
    Path | None, typer.Option("--subgoals", metavar="FILE", help="Subgoals of each task (YAML).")
]
Task = Annotated[str | None, typer.Option("--task", help="Only episodes of this task.")]
Limit = Annotated[int | None, typer.Option("--limit", metavar="N", help="Only the first N episodes.")]
ReaderName = Annotated[
    str | None, typer.Option("--reader", help="Read the source as this format; see `stepscore ls readers`.")
]
PolicyFrom = Annotated[
    int | None,
    typer.Option(
        "--policy-from",
        metavar="DEPTH",
        help="Take the policy from the folder at this depth below SOURCE (1 is the first).",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV.")]


def read_pairs(pairs: list[str], flag: str) -> dict[str, object]:
    """``["points=16", "path=x.csv"]`` as a mapping; numbers, true, false and null are read as such."""
    found: dict[str, object] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise OptionError(f"{flag} {pair}: expected key=value, for example {flag} points=16.")
        spelt = text.lower() if text in ("True", "False", "None") else text
        try:
            found[key.replace("-", "_")] = json.loads("null" if spelt == "none" else spelt)
        except json.JSONDecodeError:
            found[key.replace("-", "_")] = text
    return found


def split_names(text: str | None) -> list[str] | None:
    """``"a,b"`` as ``["a", "b"]``."""
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def select_episodes(episodes: Episodes, text: str | None) -> Episodes:
    """Only the episodes named: ids, numbers and ranges of numbers, separated by commas (``0,3,7-9``).

    A number is the source's own where it numbers its episodes (LeRobot), else the place in the listing.
    """
    if text is None:
        return episodes
    ids = set(episodes.ids())
    if text in ids:
        return episodes.select([text])
    numbered = {
        str(episode.source_index if episode.source_index is not None else place): episode.id
        for place, episode in enumerate(episodes)
    }
    chosen: list[str] = []
    for part in split_names(text) or []:
        first, dash, last = part.partition("-")
        if part in ids:
            chosen.append(part)
        elif dash and first.isdigit() and last.isdigit():
            chosen += [numbered[str(n)] for n in range(int(first), int(last) + 1) if str(n) in numbered]
        else:
            chosen.append(numbered.get(part, part))
    if not chosen:
        raise OptionError(f"--episodes {text} names none of the {len(episodes)} episodes.")
    return episodes.select(chosen)
