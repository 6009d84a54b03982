"""Options that several commands share, and the parsing of their values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stepscore._defaults import DEFAULT_REVISION
from stepscore.cli.key_values import read_pairs
from stepscore.cli.local_code import reader_name
from stepscore.cli.numbers import MANY, MAX_PARALLEL, between
from stepscore.errors import OptionError

if TYPE_CHECKING:
    from stepscore.episodes import Episodes
    from stepscore.models import Model
    from stepscore.runs import Engine, Run

_PUBLISHED = ("paper", "v1.0", "v1.5")

Source = Annotated[
    str, typer.Argument(metavar="SOURCE", help="A file or folder, or a LeRobot repo id (user/name).")
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
RunFolders = Annotated[list[Path], typer.Argument(metavar="RUN", help="One or more run folders.")]
RunSource = Annotated[
    str | None,
    typer.Option(
        "--source",
        metavar="SOURCE",
        help="Where the videos are: a path or a Hub id; default: where the runs say, on this machine alone.",
    ),
]
Revision = Annotated[
    str, typer.Option("--revision", metavar="NAME", help="OPD revision: paper, v1.0, v1.5 or robust.")
]
DoneAt = Annotated[
    float | None,
    typer.Option(
        "--done-at",
        callback=between(0, 1, above=True),
        metavar="P",
        help="Progress that robust counts as done; default: the success probability where the judge gives one, "
        "else the calibration map's, else 0.99.",
    ),
]
GroupBy = Annotated[
    str,
    typer.Option(
        "--by", metavar="A,B", help="Group by any of dataset, robot, task, policy, judge, model, protocol."
    ),
]
LabelsFile = Annotated[
    Path | None,
    typer.Option("--labels", metavar="FILE", help="Labels to add to the episodes (csv, jsonl, parquet)."),
]
TruthFile = Annotated[
    Path | None,
    typer.Option(
        "--labels", metavar="FILE", help="Labelled progress or stages; default: the run's own labels."
    ),
]
Potential = Annotated[
    str | None,
    typer.Option(
        "--potential", metavar="NAME", help="Progress label that is the truth, where there are several."
    ),
]
JudgeOptions = Annotated[
    list[str], typer.Option("-J", metavar="KEY=VALUE", help="An option of the judge; may be repeated.")
]
JudgeModel = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="MODEL",
        help="Model that answers the judge: hf/PATH-OR-ID, openai-api/..., embedded (simulated scenes only); "
        "see `stepscore ls models`.",
    ),
]
CalibrationFile = Annotated[
    Path | None,
    typer.Option("--calibration", metavar="FILE", help="Calibration map of `stepscore calibrate`."),
]
Views = Annotated[
    str | None, typer.Option("--views", metavar="A,B", help="Only these cameras, in this order.")
]
SubgoalsFile = Annotated[
    Path | None, typer.Option("--subgoals", metavar="FILE", help="Subgoals of each task (YAML).")
]
Task = Annotated[str | None, typer.Option("--task", metavar="TASK", help="Only episodes of this task.")]
Limit = Annotated[
    int | None,
    typer.Option("--limit", callback=between(1, MANY), metavar="N", help="Only the first N episodes."),
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
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
HeldOut = Annotated[
    bool,
    typer.Option("--held-out", help="Leave out episodes that a calibration map of the run was fitted on."),
]

ValidationFile = Annotated[
    Path | None,
    typer.Option(
        "--validation",
        metavar="FILE",
        help="validation.json of an audit of this judge; it is kept in the run and quoted below its scores.",
    ),
]


def keep_validation(runs: Sequence[Run], file: Path | None) -> None:
    """Keep the file of --validation in the runs, where it is given."""
    from stepscore.analysis.validation import add_validation

    if file is not None:
        add_validation(runs, file)


COST = "Models: cost and speed"
ModelOptions = Annotated[
    list[str], typer.Option("-M", metavar="KEY=VALUE", help="An option of the model; may be repeated.")
]
BaseUrl = Annotated[
    str | None, typer.Option("--base-url", metavar="URL", help="URL of a served model's API.")
]
MaxCalls = Annotated[
    int | None,
    typer.Option(
        "--max-calls",
        callback=between(0, MANY),
        metavar="N",
        help="Stop after this many calls, retries included.",
        rich_help_panel=COST,
    ),
]
MaxCost = Annotated[
    float | None,
    typer.Option(
        "--max-cost",
        callback=between(0, MANY),
        metavar="AMOUNT",
        help="Stop before the calls cost more than this.",
        rich_help_panel=COST,
    ),
]
PriceIn = Annotated[
    float | None,
    typer.Option(
        "--price-in",
        callback=between(0, MANY),
        metavar="AMOUNT",
        help="Price of a million input tokens.",
        rich_help_panel=COST,
    ),
]
PriceOut = Annotated[
    float | None,
    typer.Option(
        "--price-out",
        callback=between(0, MANY),
        metavar="AMOUNT",
        help="Price of a million output tokens.",
        rich_help_panel=COST,
    ),
]
Connections = Annotated[
    int,
    typer.Option(
        "--connections",
        callback=between(1, MAX_PARALLEL),
        metavar="N",
        help="Calls in flight at a time, for served models.",
        rich_help_panel=COST,
    ),
]
SHARDS = "Many machines"
LabelsShardName = Annotated[
    str | None,
    typer.Option(
        "--shard",
        metavar="I/N",
        help="Label only part I of N of the episodes, counted from 1; slurm or slurm/N takes I from a SLURM array. "
        "Every shard has a FILE of its own. At the end: stepscore merge FILE FILE -o LABELS.",
        rich_help_panel=SHARDS,
    ),
]
ShardName = Annotated[
    str | None,
    typer.Option(
        "--shard",
        metavar="I/N",
        help="Judge only part I of N, counted from 1, into a folder of its own inside RUN, with its share of the "
        "budget; slurm or slurm/N takes I from a SLURM array. At the end: stepscore merge RUN.",
        rich_help_panel=SHARDS,
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        callback=between(1, MAX_PARALLEL),
        metavar="N",
        help="Processes that judge, each with a model of its own; for a served model, episodes judged at a time. "
        "Default: 1, for a served model as many as --connections.",
    ),
]
EngineName = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="NAME",
        help="Where episodes are judged: local (this process), processes, ray, or auto (as --workers says).",
        rich_help_panel=SHARDS,
    ),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray-address",
        metavar="HOST:PORT",
        help="Ray cluster of --engine ray; default: RAY_ADDRESS, else one of this machine, for this run alone.",
        rich_help_panel=SHARDS,
    ),
]
Replicas = Annotated[
    int | None,
    typer.Option(
        "--replicas",
        callback=between(1, MAX_PARALLEL),
        metavar="N",
        help="Actors that hold the model, with --engine ray; default: one for every GPU, else for every worker.",
        rich_help_panel=SHARDS,
    ),
]
LeaseSeconds = Annotated[
    float | None,
    typer.Option(
        "--lease",
        callback=between(1, 86_400),
        metavar="SECONDS",
        help="Hold RUN by a lease that ends when it is not renewed for so long, instead of a lock; done by itself "
        "where the file system has no locks; shards always do, by default for 60.",
        rich_help_panel=SHARDS,
    ),
]
NoCache = Annotated[
    bool, typer.Option("--no-cache", help="Neither read nor write the answer cache.", rich_help_panel=COST)
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Print the calls, tokens and cost of the run; send nothing.",
        rich_help_panel=COST,
    ),
]


def open_engine(
    name: str, workers: int | None, ray_address: str | None, replicas: int | None, connections: int
) -> str | Engine:
    """Return the engine of ``--engine``: its name, or the one on a Ray cluster."""
    if name != "ray":
        if ray_address is not None or replicas is not None:
            raise OptionError("--ray-address and --replicas are options of a Ray cluster: --engine ray")
        return name
    from stepscore.runs import RayEngine

    return RayEngine(workers, ray_address, replicas, connections)


def open_model(name: str, pairs: list[str], base_url: str | None) -> Model:
    """Return the model of ``--model``, ``-M`` and ``--base-url``."""
    from stepscore.models import get_model, model_registry

    backend = name.partition("/")[0]
    # get_model has the message for a wrong name.
    given = read_pairs(
        pairs, "-M", model_registry.get(backend) if backend in model_registry.names() else None
    )
    if base_url is not None:
        given["base_url"] = base_url
    return get_model(name, **given)


def published_revision_command(runs: Sequence[Run], revision: str = DEFAULT_REVISION) -> str | None:
    """Return the command that measures rollouts in PRM-as-a-Judge's layout as published; ``None`` for others."""
    if revision in _PUBLISHED or not any(run.info.get("reader") == "prm" for run in runs):
        return None
    return f"stepscore metrics {' '.join(str(run.path) for run in runs)} --revision v1.0"


def split_names(text: str | None) -> list[str] | None:
    """Return ``"a,b"`` as ``["a", "b"]``; ``None`` for ``None``."""
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


_SPAN = re.compile(r"(?P<first>[0-9]+)(?:-(?P<last>[0-9]+))?")


def _index(digits: str) -> int:
    """Return a number of an episode; of absurdly many digits, one that no episode has."""
    return int(digits) if len(digits) < 19 else 10**18


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
