"""A run folder, read as tables.

::

    run.json         protocol and its hash, source, versions, counts, dates
    journal.jsonl    one line per finished episode
    episodes.parquet judgements.parquet curves.parquet verdicts.parquet calls.parquet usage.parquet
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from stepscore import __version__
from stepscore._files import write_json
from stepscore._lazy import import_extra
from stepscore.errors import RunError, UnknownNameError
from stepscore.runs.protocol import Protocol
from stepscore.runs.tables import TABLES, tables_are_current, write_tables

if TYPE_CHECKING:
    import pandas as pd

FORMAT = 1
"""Format of the run folder that this version writes; it reads this one and all before it."""


class Run:
    """One judge over many episodes, as pyarrow tables; from :func:`open_run` or :func:`score`.

    >>> run = open_run("runs/x")                               # doctest: +SKIP
    >>> run.curves().column_names                              # doctest: +SKIP
    ['episode_id', 'time_s', 'progress']

    Attributes:
        path: The run folder.
        info: The content of ``run.json``.
        protocol: All that can change a number, with its hash.
    """

    def __init__(self, path: Path, info: Mapping[str, Any]) -> None:
        self.path = path
        self.info = info
        self.protocol = Protocol(info["protocol"])

    @property
    def judge(self) -> str:
        """The judge's name."""
        return str(self.info["protocol"]["judge"]["name"])

    @property
    def model(self) -> str | None:
        """The model string; ``None`` for a judge that asks none."""
        model = self.info["protocol"].get("model")
        return None if model is None else str(model["name"])

    def episodes(self) -> pa.Table:
        """Return a row per episode: source, frames, instruction, task, policy, labels, stages and subgoals."""
        return self._table("episodes")

    def judgements(self) -> pa.Table:
        """Return a row per episode: success score, coverage, and the error where there is no judgement."""
        return self._table("judgements")

    def curves(self) -> pa.Table:
        """Return a row per point, by episode and time: progress and every channel."""
        return self._table("curves")

    def verdicts(self) -> pa.Table:
        """Return a row per episode and subgoal: answer, score, when and why."""
        return self._table("verdicts")

    def calls(self) -> pa.Table:
        """Return a row per call to a model: prompt, frames, raw answer and tokens."""
        return self._table("calls")

    def usage(self) -> pa.Table:
        """Return a row per episode: seconds, calls, tokens and cost."""
        return self._table("usage")

    def to_pandas(self, table: str) -> pd.DataFrame:
        """Return one of the tables as a pandas DataFrame.

        Args:
            table: ``"episodes"``, ``"judgements"``, ``"curves"``, ``"verdicts"``, ``"calls"`` or ``"usage"``.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        if table not in TABLES:
            raise UnknownNameError("table", table, TABLES, where=f"the run {self.path}")
        import_extra("pandas", extra="pandas", purpose="Run.to_pandas")
        return self._table(table).to_pandas()

    def _table(self, name: str) -> pa.Table:
        return pq.read_table(self._file(name))

    def _file(self, name: str) -> Path:
        return self.path / f"{name}.parquet"

    def _count(self, name: str) -> int:
        """Return the number of rows of a table, without reading it."""
        return int(pq.read_metadata(self._file(name)).num_rows)

    def __repr__(self) -> str:
        return (
            f"Run({str(self.path)!r}, episodes={self._count('judgements')}, judge={self.judge!r}, "
            f"model={self.model!r}, protocol={self.protocol.hash!r})"
        )

    def _repr_html_(self) -> str:
        errors = self._count("judgements") - self.judgements().column("error").null_count
        facts = {
            "folder": self.path,
            "episodes": f"{self._count('judgements')}" + (f", {errors} with errors" if errors else ""),
            "judge": self.judge,
            "model": self.model or "none",
            "protocol": self.protocol.hash,
            "source": self.info.get("source", ""),
            "tables": ", ".join(f"{name} ({self._count(name)} rows)" for name in TABLES),
        }
        rows = (f"<tr><th>{name}</th><td>{escape(str(value))}</td></tr>" for name, value in facts.items())
        return f"<table>{''.join(rows)}</table>"


def open_run(path: str | Path) -> Run:
    """Open the run in a folder. Its tables are made anew if the journal has grown since they were written.

    Raises:
        RunError: There is no run, nothing has been judged yet, or its format is newer than this version reads.
    """
    folder = Path(path)
    info = read_info(folder)
    if info is None:
        raise RunError(
            f"{folder} is not a run folder (it has no run.json). "
            f"Make one: stepscore judge SOURCE --judge J -o {folder}"
        )
    run = Run(folder, info)
    if not (folder / "journal.jsonl").is_file():
        raise RunError(f"{folder} has no journal.jsonl: nothing has been judged there yet.")
    if not tables_are_current(folder):
        write_tables(folder, run.judge, run.protocol.hash)
    return run


def read_info(folder: Path) -> dict[str, Any] | None:
    """Return the content of ``run.json``; ``None`` where there is none."""
    file = folder / "run.json"
    if not file.is_file():
        return None
    try:
        info: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise RunError(f"{file} is not JSON ({error}). Remove the folder and judge again.") from error
    if not isinstance(info, dict) or "protocol" not in info:
        raise RunError(f"{file} is not a StepScore run: it has no protocol.")
    _check_format(info, file)
    return info


def _check_format(info: Mapping[str, Any], file: Path) -> None:
    """Refuse a format newer than this version reads; a run.json without one is of the first."""
    written = info.get("format", 1)
    if not isinstance(written, int):
        raise RunError(
            f"{file} has the invalid format {written!r}; a number from 1 to {FORMAT} was expected."
        )
    if written > FORMAT:
        versions = info.get("versions")
        writer = versions.get("stepscore") if isinstance(versions, Mapping) else None
        needed = f"stepscore {writer}, which wrote it," if writer else "the version that wrote it"
        raise RunError(
            f"{file} has format {written}; stepscore {__version__} reads formats up to {FORMAT}. "
            f"Install {needed} or a newer one: pip install --upgrade stepscore"
        )


def write_info(folder: Path, info: Mapping[str, Any]) -> None:
    """Replace ``run.json``."""
    write_json(folder / "run.json", info)
