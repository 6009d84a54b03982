"""A run folder on disk, read as tables.

::

    run.json         protocol and its hash, source, versions, counts, dates
    journal.jsonl    one line per finished episode
    episodes.parquet judgements.parquet curves.parquet verdicts.parquet calls.parquet usage.parquet
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from stepscore._files import write_json
from stepscore.errors import RunError
from stepscore.runs.protocol import Protocol
from stepscore.runs.tables import tables_are_current, write_tables


class Run:
    """One judge over many episodes, as pyarrow tables.

    >>> run = open_run("runs/x")                               # doctest: +SKIP
    >>> run.curves().column_names                              # doctest: +SKIP
    ['episode_id', 'time_s', 'progress']
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
        """What was judged: a row per episode, with its source, labels, stages and subgoals."""
        return self._table("episodes")

    def judgements(self) -> pa.Table:
        """A row per episode: success score, coverage, and the error where there is no judgement."""
        return self._table("judgements")

    def curves(self) -> pa.Table:
        """A row per point, by episode and time: progress and every channel."""
        return self._table("curves")

    def verdicts(self) -> pa.Table:
        """A row per episode and subgoal."""
        return self._table("verdicts")

    def calls(self) -> pa.Table:
        """A row per call to a model: prompt, frames, raw answer and tokens."""
        return self._table("calls")

    def usage(self) -> pa.Table:
        """A row per episode: seconds, calls, tokens and cost."""
        return self._table("usage")

    def _table(self, name: str) -> pa.Table:
        return pq.read_table(self.path / f"{name}.parquet")

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}, judge={self.judge!r}, protocol={self.protocol.hash})"


def open_run(path: str | Path) -> Run:
    """The run in a folder. Its tables are made anew if the journal has grown since they were written."""
    folder = Path(path)
    info = read_info(folder)
    if info is None:
        raise RunError(
            f"{folder} is no run folder (there is no run.json). "
            f"Make one: stepscore judge SOURCE --judge J -o {folder}"
        )
    run = Run(folder, info)
    if not (folder / "journal.jsonl").is_file():
        raise RunError(f"{folder} has no journal.jsonl: nothing has been judged there yet.")
    if not tables_are_current(folder):
        write_tables(folder, run.judge, run.protocol.hash)
    return run


def read_info(folder: Path) -> dict[str, Any] | None:
    """The content of ``run.json``; ``None`` where there is none."""
    file = folder / "run.json"
    if not file.is_file():
        return None
    try:
        info: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise RunError(f"{file} is not JSON ({error}). Remove the folder and judge again.") from error
    if not isinstance(info, dict) or "protocol" not in info:
        raise RunError(f"{file} is not a StepScore run: it has no protocol.")
    return info


def write_info(folder: Path, info: Mapping[str, Any]) -> None:
    """Replace ``run.json`` at once, so that a reader never sees half of it."""
    write_json(folder / "run.json", info)
