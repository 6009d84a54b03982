"""A run folder, read as tables.

::

    run.json         protocol and its hash, source, versions, counts, dates
    journal.jsonl    one line per finished episode
    tables.lock      held while the tables are replaced
    episodes.parquet labelled_progress.parquet judgements.parquet curves.parquet verdicts.parquet calls.parquet
    usage.parquet
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stepscore._imports import import_extra
from stepscore._untrusted import shown
from stepscore.errors import RunError, UnknownNameError
from stepscore.runs.protocol import Protocol
from stepscore.runs.run_info import read_info
from stepscore.runs.shards.manifest import unmerged_sentence
from stepscore.runs.stored_tables import StoredTables
from stepscore.runs.tables import TABLES

if TYPE_CHECKING:
    import pandas as pd


class Run:
    """One judge over many episodes, as pyarrow tables; from :func:`open_run` or :func:`score`.

    The tables belong together and stay as they were when the run was opened, even if it grows.

    >>> run = open_run("runs/x")
    >>> run.curves().column_names
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
        self._tables = StoredTables(path, self.judge, self.protocol.hash)

    @property
    def judge(self) -> str:
        """The judge's name."""
        return str(self.info["protocol"]["judge"]["name"])

    @property
    def model(self) -> str | None:
        """The model string; ``None`` for a judge without a model."""
        model = self.info["protocol"].get("model")
        return None if model is None else str(model["name"])

    @property
    def non_commercial(self) -> dict[str, str]:
        """Models of the run whose licence forbids commercial use, with the name of the licence."""
        licences = self.info.get("licences", {}).items()
        return {model: licence["name"] for model, licence in licences if licence.get("non_commercial")}

    @property
    def count(self) -> int:
        """Number of episodes in the tables, including failed ones."""
        return self._count("usage")

    @cached_property
    def channels(self) -> tuple[str, ...]:
        """Names of the series of its curves."""
        return tuple(self._tables.columns("curves")[2:])  # after episode_id and time_s

    def episodes(self) -> pa.Table:
        """Return a row per episode: source, frames, instruction, task, policy, labels, stages and subgoals."""
        return self._table("episodes")

    def labelled_progress(self) -> pa.Table:
        """Return a row per progress label, by episode, name and time; empty if the source has none."""
        return self._table("labelled_progress")

    def judgements(self) -> pa.Table:
        """Return a row per episode: success score and probability, coverage, and any error."""
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
        """Return a table as a pandas DataFrame, by the name of its method, e.g. ``"curves"``.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        if table not in TABLES:
            raise UnknownNameError("table", table, TABLES, where=f"the run {self.path}")
        import_extra("pandas", extra="pandas", purpose="Run.to_pandas")
        return self._table(table).to_pandas()

    def _table(self, name: str) -> pa.Table:
        """Return a table; a part of a run overrides it (``report/page/audits``)."""
        return self._tables.read(name)

    def _count(self, name: str) -> int:
        return int(self._table(name).num_rows)

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


def _holds_something(path: Path) -> bool:
    try:
        return path.is_file() or next(path.iterdir(), None) is not None
    except OSError:
        return False


def open_run(path: str | Path) -> Run:
    """Open the run in a folder, and update its tables if the journal has grown since they were written.

    Any number of processes may open a run while another judges into it. If the folder is not writable, the tables are
    made in memory.

    Raises:
        RunError: There is no run, nothing has been judged yet, this version cannot read its format, or it is damaged.
    """
    folder = Path(path)
    info = read_info(folder)
    if info is None:
        if (unmerged := unmerged_sentence(folder)) is not None:
            raise RunError(unmerged)
        # The path may be that of the recordings; suggest another folder for the run then.
        source, out = (shown(folder), "RUN") if _holds_something(folder) else ("SOURCE", shown(folder))
        raise RunError(
            f"{shown(folder)} is not a run folder (it has no run.json). "
            f"Make one: stepscore judge {shlex.quote(source)} --judge J -o {shlex.quote(out)}"
        )
    if not (folder / "journal.jsonl").exists():
        raise RunError(f"{shown(folder)} has no journal.jsonl: nothing has been judged yet.")
    return Run(folder, info)
