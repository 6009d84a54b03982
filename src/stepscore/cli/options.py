"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from stepscore.errors import OptionError

if TYPE_CHECKING:
    from stepscore.episodes import Episodes
    from stepscore.models import Model

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
Instruction = Annotated[
    str | None,
    typer.Option(
        "--instruction",
        metavar="TEXT",
        help="What the robot was told in every episode, if not as SOURCE says.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV.")]

COST = "Models: cost and speed"
ModelOptions = Annotated[
    list[str], typer.Option("-M", metavar="KEY=VALUE", help="An option of the model; may be repeated.")
]
BaseUrl = Annotated[str | None, typer.Option("--base-url", help="Where a served model answers.")]
MaxCalls = Annotated[
    int | None,
    typer.Option("--max-calls", metavar="N", help="Attempts that may be made.", rich_help_panel=COST),
]
MaxCost = Annotated[
    float | None,
    typer.Option("--max-cost", metavar="X", help="Money that may be spent.", rich_help_panel=COST),
]
PriceIn = Annotated[
    float | None,
    typer.Option("--price-in", metavar="X", help="Price of a million tokens read.", rich_help_panel=COST),
]
PriceOut = Annotated[
    float | None,
    typer.Option("--price-out", metavar="X", help="Price of a million tokens written.", rich_help_panel=COST),
]
Connections = Annotated[
    int,
    typer.Option(
        "--connections", metavar="N", help="Calls under way at a time, if served.", rich_help_panel=COST
    ),
]
NoCache = Annotated[
    bool, typer.Option("--no-cache", help="Ask anew what is already answered.", rich_help_panel=COST)
]


def open_model(name: str, pairs: list[str], base_url: str | None) -> Model:
    """The model of ``--model``, ``-M`` and ``--base-url``."""
    from stepscore.models import get_model, model_registry

    backend = name.partition("/")[0]
    # Of a wrong name get_model says what is right.
    given = read_pairs(
        pairs, "-M", model_registry.get(backend) if backend in model_registry.names() else None
    )
    if base_url is not None:
        given["base_url"] = base_url
    return get_model(name, **given)


def read_pairs(pairs: list[str], flag: str, make: Callable[..., object] | None = None) -> dict[str, object]:
    """``["points=16", "path=x.csv"]`` as a mapping; numbers, true, false and null are read as such.

    Args:
        pairs: As given.
        flag: How, for messages.
        make: Whose options they are. What it declares as text (``str``, ``Path``) stays text: the word True
            is no yes there, and ``None`` is nothing only where it may be.
    """
    taken = inspect.signature(make).parameters if make is not None else {}
    found: dict[str, object] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise OptionError(f"{flag} {pair}: expected key=value, for example {flag} points=16.")
        name = key.replace("-", "_")
        kinds = _kinds(taken[name].annotation) if name in taken else set()
        found[name] = text if _stays_text(text, kinds) else _read(text)
    return found


def _read(text: str) -> object:
    spelt = text.lower() if text in ("True", "False", "None") else text
    try:
        return json.loads("null" if spelt == "none" else spelt)
    except json.JSONDecodeError:
        return text


def _kinds(declared: object) -> set[str]:
    """The names of the types a parameter takes; annotations may be types or their text."""
    if isinstance(declared, str):
        return {part.strip() for part in declared.split("|")}
    return {getattr(part, "__name__", str(part)) for part in get_args(declared) or (declared,)}


def _stays_text(text: str, kinds: set[str]) -> bool:
    if _read(text) is None and kinds & {"None", "NoneType"}:
        return False
    return bool(kinds & {"str", "Path"}) and not kinds & {"bool", "int", "float"}


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
