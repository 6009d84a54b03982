"""Output paths, checked before any work.

A command writes to a new or empty place, or over its own earlier output, which it recognizes by the content.
Anything else is refused with exit code 2 unless ``--force`` is given; see docs/reference/outputs.md. Labels, stages
and subgoals always need ``--force``, because a person may have corrected them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from stepscore._untrusted import shown
from stepscore.errors import OptionError

Force = Annotated[
    bool,
    typer.Option("--force", help="Overwrite what StepScore did not write, or a person may have changed."),
]
HEAD_BYTES = 1 << 16


@dataclass(frozen=True)
class Output:
    """What a command writes; ``is_own`` returns whether an existing file or folder is such an output."""

    what: str
    is_own: Callable[[Path], bool]


def check_output(path: Path, output: Output, *, force: bool) -> None:
    """Raise OptionError if ``path`` has something else than this output, unless forced."""
    try:
        if force or not os.path.lexists(path) or _is_empty(path) or output.is_own(path):
            return
    except ValueError:  # an impossible file name: writing reports it
        return
    there, anyway = ("is not empty", "write into it") if path.is_dir() else ("exists", "overwrite it")
    raise OptionError(
        f"{shown(path)} {there} and is not {output.what} written by StepScore. Choose another place, or {anyway} "
        "anyway: --force"
    )


def check_overwrite(file: Path, *, force: bool) -> None:
    """Refuse to overwrite a file that a person may have worked on, unless ``--force`` is given."""
    if os.path.lexists(file) and not force:
        raise OptionError(f"{file} exists and may hold a person's work. Overwrite it with --force.")


def _is_empty(path: Path) -> bool:
    """Return whether a file has no content, or no file is below a folder."""
    if path.is_dir():
        return not any(names for _, _, names in os.walk(path))
    return path.is_file() and not path.stat().st_size


def _head(path: Path, size: int = HEAD_BYTES) -> bytes:
    """Return the beginning of a regular file; empty for anything else or an unreadable file."""
    try:
        if not path.is_file():
            return b""
        with path.open("rb") as file:
            return file.read(size)
    except OSError:
        return b""


def _begins(pattern: str, size: int = HEAD_BYTES) -> Callable[[Path], bool]:
    compiled = re.compile(pattern.encode("latin-1"), re.DOTALL)
    return lambda path: compiled.match(_head(path, size)) is not None


def _lines_with(*keys: str) -> Callable[[Path], bool]:
    """Return a check that the first line is a JSON object with these keys."""

    def check(path: Path) -> bool:
        try:
            first = json.loads(_head(path, 1 << 22).partition(b"\n")[0])
        except (ValueError, RecursionError):
            return False
        return isinstance(first, dict) and all(key in first for key in keys)

    return check


def _has(*patterns: str, named: dict[str, Callable[[Path], bool]] | None = None) -> Callable[[Path], bool]:
    """Return a check that a folder has a file of one of these names, or of ``named`` with our content."""

    def check(folder: Path) -> bool:
        found = [(one, is_own(one)) for name, is_own in (named or {}).items() for one in folder.glob(name)]
        if any(not own and not _is_empty(one) for one, own in found):
            return False
        return any(own for _, own in found) or any(
            next(folder.glob(pattern), None) is not None for pattern in patterns
        )

    return check


def _has_provenance(path: Path) -> bool:
    """Return whether a file is a Parquet table with the provenance that ``weights`` writes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from stepscore.curation import METADATA

    try:
        return METADATA.encode() in (pq.read_schema(path).metadata or {}) if path.is_file() else False
    except (OSError, pa.ArrowException, ValueError):
        return False


_JSON = r'\{\s*"format":\s*\d+,\s*'
_RUN = ("run.json", "journal.jsonl", "shards.json")
"""Files of a run folder, one of which exists from its beginning."""
PAGE = Output("a report page", _begins("<!doctype html>.*stepscore-data", 1 << 22))
MAP = Output("a calibration map", _begins(_JSON + '"judge"'))
PAIRS = Output("pairs", _lines_with("id", "episode", "before_s", "after_s", "change"))
TEMPLATE = Output("a chat template", _begins(r"\{%- if raw_turn is defined"))
WEIGHTS = Output("weights", _has_provenance)
EPISODE_LIST = Output("a list of episodes", _begins(r"\[[\d, ]*\]\s*$"))
# Where a figure of each format names its maker: any text may have the word.
_MADE = (
    r"<\?xml .*<dc:title>StepScore</dc:title>|\x89PNG\r\n.*Software\0StepScore|.{4}ftyp.*StepScore"
    r"|GIF8.*StepScore"
)
FIGURE = Output("a figure", _begins(_MADE, 1 << 20))
RECORDING = Output("a recording for Rerun", _begins("RRF[0-9].*stepscore"))
QUESTIONS = Output("exported questions", _has(named={"vqa.json": _begins(_JSON + '"questions"')}))
ANSWERS = Output("exported answers", _lines_with("key", "model", "created"))
AUDIT = Output(
    "an audit",
    _has(*(f"judge/{name}" for name in _RUN), named={"audit.json": _begins(_JSON + '"stepscore"')}),
)
BOARD = Output(
    "a board of judges",
    _has(
        *(f"runs/*/*/{name}" for name in _RUN),
        named={
            name: _begins(_JSON + '"benchmark"') for name in ("board.json", "rows/*.json", "claims/*.json")
        },
    ),
)
TUNING = Output(
    "a tuning",
    _has(*(f"trials/*/{name}" for name in _RUN), named={"tuned.json": _begins(_JSON + '"stepscore"')}),
)
DEMO = Output("a demo", _has(*(f"{judge}/{name}" for judge in ("topreward", "stepeval") for name in _RUN)))
CHECKPOINT = Output("a checkpoint", _has("training.jsonl", "training.pt"))


def new_folder(context: typer.Context, folder: Path | None) -> Path | None:
    """Return the folder of ``-o`` (an option callback); raise OptionError if it cannot be a folder."""
    if folder is not None and not context.resilient_parsing:  # no refusals during shell completion
        _refuse_below_a_file(folder, folder)
    return folder


def new_file(context: typer.Context, file: Path | None) -> Path | None:
    """Return the file of ``-o`` (an option callback); raise OptionError if it cannot be a file."""
    if file is not None and not context.resilient_parsing:
        check_file(file)
    return file


def check_file(file: Path) -> None:
    """Raise OptionError if a path cannot be a file."""
    if _is_folder(file):
        raise OptionError(f"-o {file}: that is a folder. Name the file to write.")
    _refuse_below_a_file(file, file.parent)


def new_table(context: typer.Context, file: Path | None) -> Path | None:
    """Return the Parquet file of ``-o`` (an option callback); raise OptionError if it cannot be one."""
    file = new_file(context, file)
    if file is not None and file.suffix != ".parquet" and not context.resilient_parsing:
        raise OptionError(
            f"-o {shown(file)}: the table is Parquet. Name the file {shown(file.with_suffix('.parquet'))}."
        )
    return file


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # a name too long, a NUL: writing reports it
        return False


def _refuse_below_a_file(path: Path, folder: Path) -> None:
    try:
        there = next((each for each in (folder, *folder.parents) if each.exists()), None)
    except (OSError, ValueError):
        return
    if there is not None and not there.is_dir():
        raise OptionError(f"-o {path}: {there} is a file, not a folder. Name another place.")
