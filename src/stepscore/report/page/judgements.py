"""The judgements of each run: metrics, curves, verdicts and calls as columns of the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stepscore._progress import doing
from stepscore.analysis import DoneRule, curves_by_episode, done_rule
from stepscore.report.page import columns
from stepscore.report.page.episodes import EpisodeIndex
from stepscore.report.page.leaderboards import Leaderboard
from stepscore.report.page.packing import (
    Table,
    dictionary,
    pack_floats,
    pack_progress,
    pack_range,
    pack_times,
)
from stepscore.report.page.paging import (
    Parts,
    RunRows,
    always_kept,
    data_bytes,
    paged_judgements,
    verdict_table,
)
from stepscore.runs import Run
from stepscore.types import FloatArray

MAX_CALL_BYTES = 2_000_000
"""Bytes of prompts and answers on one page; beyond it, calls of later episodes are only in ``calls.parquet``."""


class Prompts:
    """Prompts as lists of line numbers, each distinct line stored once: prompts of a judge share most lines."""

    def __init__(self) -> None:
        self._lines = Table[str]()
        self._prompts = Table[tuple[int, ...]]()
        self.bytes = 0

    @property
    def lines(self) -> list[str]:
        """Return the distinct lines."""
        return self._lines.rows

    @property
    def prompts(self) -> list[tuple[int, ...]]:
        """Return each distinct prompt, as the numbers of its lines."""
        return self._prompts.rows

    def add(self, prompt: str) -> int:
        """Store a prompt and return its number."""
        before = len(self.lines), len(self.prompts)
        numbers = tuple(self._lines.number(line) for line in prompt.split("\n"))
        prompt_number = self._prompts.number(numbers)
        self.bytes += sum(len(line) + 3 for line in self.lines[before[0] :])
        self.bytes += sum(5 * len(numbers) for numbers in self.prompts[before[1] :])
        return prompt_number


def judgement_tables(
    leaderboard: Leaderboard,
    index: EpisodeIndex,
    prompts: Prompts,
    stages: Table[str],
    parts: Parts | None = None,
) -> list[columns.Judgements]:
    """Return the judgements of each run of the leaderboard.

    Args:
        leaderboard: The leaderboard.
        index: The page's episodes.
        prompts: The page's prompts, to which those of the calls are added.
        stages: The page's names of stages, to which those in parts are added.
        parts: Where what is not needed at first is written; ``None`` for a page that holds everything.
    """
    return [
        _judgements(run, leaderboard, rows, index, prompts, stages, parts)
        for run, rows in zip(leaderboard.runs, leaderboard.slices(), strict=True)
    ]


def run_bytes(leaderboard: Leaderboard) -> float:
    """Return about how many bytes a leaderboard's runs take on a page that holds everything."""
    points = sum(len(times) for times, _ in leaderboard.judged.curves)
    channels = max(len(run.curves().column_names) - 3 for run in leaderboard.runs)
    return data_bytes(points, channels, len(leaderboard.metrics), len(leaderboard.metrics.columns))


def _judgements(
    run: Run,
    leaderboard: Leaderboard,
    rows: slice,
    index: EpisodeIndex,
    prompts: Prompts,
    stages: Table[str],
    parts: Parts | None,
) -> columns.Judgements:
    """Return the table of one run, its rows in the order of the page's episodes."""
    episodes = leaderboard.metrics.episodes[rows]
    places = [index.place(row) for row in episodes]
    # Ids are sorted within a run as on the page, but a page sorts by source first.
    order = np.argsort(places, kind="stable").tolist()
    row_of = {episodes[i]["episode_id"]: place for place, i in enumerate(order)}
    values = {
        column.name: leaderboard.metrics.values[column.name][rows][order]
        for column in leaderboard.metrics.columns
    }
    modes = leaderboard.failure_modes.by_episode[rows]
    repeated = [(e["run"], e["episode_id"]) in leaderboard.metrics.repeated for e in episodes]
    errors = {str(place): episodes[i]["error"] for place, i in enumerate(order) if episodes[i]["error"]}
    scores = [np.nan if e["success_score"] is None else e["success_score"] for e in episodes]
    ordered = [episodes[i] for i in order]
    done = done_rule(run, leaderboard.done_at)
    with doing("Reading verdicts"):
        verdicts = _verdicts(run, row_of)
    table: columns.JudgementRows = {
        "episode": [places[i] for i in order],
        "error": errors,
        "repeated": [place for place, i in enumerate(order) if repeated[i]],
        "success_score": pack_floats([scores[i] for i in order]),
        "failure_mode": dictionary(modes[i].name for i in order),
        "calls": _calls(run, row_of, prompts),
    }
    rules = _rules(done, ordered)
    if parts is None:
        with doing("Packing curves"):
            packed = _curves(run, ordered, done)
        return {
            **table,
            "values": {name: pack_floats(column) for name, column in values.items()},
            "curves": {**packed, **rules},
            "verdicts": verdict_table([row["row"] for row in verdicts], verdicts),
            "paged": None,
        }
    curves = leaderboard.judged.curves[rows]
    ids = [row["episode_id"] for row in ordered]
    run_rows = RunRows(
        f"run-{leaderboard.numbers[leaderboard.runs.index(run)]}",
        ordered,
        [curves[i] for i in order],
        _channels(run, ids),
        values,
        verdicts,
        done.channel,
    )
    none: FloatArray = np.empty(0)
    empty: columns.CurvePoints = {
        "length": [len(times) for times, _ in run_rows.curves],
        "times": pack_floats(none),
        "rate": None,
        "progress": pack_floats(none),
        "channels": {},
    }
    return {
        **table,
        "values": always_kept(values),
        "curves": {**empty, **rules},
        "verdicts": verdict_table([], []),
        "paged": paged_judgements(run_rows, stages, parts),
    }


def _channels(run: Run, ids: Sequence[str]) -> dict[str, list[FloatArray]]:
    """Return every channel's values of every episode."""
    table = run.curves()
    none: FloatArray = np.empty(0)
    found = {}
    for name in table.column_names:
        if name not in ("episode_id", "time_s", "progress"):
            by_episode = {episode: curve[1] for episode, curve in curves_by_episode(table, name)}
            found[name] = [by_episode.get(episode, none) for episode in ids]
    return found


def _rules(done: DoneRule, episodes: Sequence[Any]) -> columns.CurveRules:
    """Return what the page keeps of every curve, wherever its points are."""
    calibrated = [row["calibrated"] for row in episodes]
    known = {flag for flag in calibrated if flag is not None}
    return {
        "done_channel": done.channel,
        "done_at": done.at,
        "time_source": dictionary(row["time_source"] for row in episodes),
        "calibrated": [int(bool(flag)) for flag in calibrated] if len(known) > 1 else None,
    }


def _curves(run: Run, episodes: Sequence[Any], done: DoneRule) -> columns.CurvePoints:
    table = run.curves()
    ids = [row["episode_id"] for row in episodes]
    no_curve = (np.empty(0), np.empty(0))
    columns: dict[str, FloatArray] = {}
    for name in table.column_names:
        if name not in ("episode_id", "time_s"):
            by_episode = dict(curves_by_episode(table, name))
            pairs = [by_episode.get(episode, no_curve) for episode in ids]
            columns[name] = np.concatenate([no_curve[1], *(values for _, values in pairs)])
    # Every channel of an episode has the times of the others.
    lengths = [len(times) for times, _ in pairs]
    seconds = np.concatenate([no_curve[0], *(times for times, _ in pairs)])
    rates = np.array([np.nan if not row["fps"] else row["fps"] for row in episodes], dtype=np.float64)
    times, rate = pack_times(seconds, rates, lengths)
    return {
        "length": lengths,
        "times": times,
        "rate": rate,
        "progress": pack_progress(columns.pop("progress")),
        "channels": {
            name: (pack_progress if name == done.channel else pack_range)(values)
            for name, values in columns.items()
        },
    }


def _verdicts(run: Run, row_of: dict[str, int]) -> list[dict[str, Any]]:
    """Return the rows of the ``verdicts`` table with the row of the page's table that each belongs to, ascending."""
    rows = [{**row, "row": row_of[row["episode_id"]]} for row in run.verdicts().to_pylist()]
    return sorted(rows, key=lambda row: row["row"])


def _calls(run: Run, row_of: dict[str, int], prompts: Prompts) -> columns.CallTable:
    """Return the calls of as many episodes as fit, from the first on."""
    rows = sorted(run.calls().to_pylist(), key=lambda row: row_of[row["episode_id"]])
    kept: list[tuple[dict[str, Any], int]] = []
    left_out: set[str] = set()
    for row in rows:
        # An episode is kept whole or not at all.
        if prompts.bytes > MAX_CALL_BYTES and (not kept or kept[-1][0]["episode_id"] != row["episode_id"]):
            left_out.add(row["episode_id"])
            continue
        kept.append((row, prompts.add(row["prompt"])))
        prompts.bytes += len(row["answer"] or "") + len(row["frames"] or "")
    return {
        "row": [row_of[row["episode_id"]] for row, _ in kept],
        "kind": dictionary(row["kind"] for row, _ in kept),
        "prompt": [prompt for _, prompt in kept],
        "frames": dictionary(row["frames"] for row, _ in kept),
        "answer": dictionary(row["answer"] for row, _ in kept),
        "left_out": len(left_out),
    }
