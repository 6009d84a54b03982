"""The judgements of each run: metrics, curves, verdicts and calls as columns of the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stepscore.analysis import curves_by_episode, done_rule
from stepscore.report.page.boards import Board
from stepscore.report.page.episodes import EpisodeIndex
from stepscore.report.page.packing import (
    Table,
    dictionary,
    pack_floats,
    pack_progress,
    pack_range,
    pack_times,
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


def judgement_tables(board: Board, index: EpisodeIndex, prompts: Prompts) -> list[dict[str, Any]]:
    """Return the contract's Judgements of each run of the board."""
    return [
        _judgements(run, board, rows, index, prompts)
        for run, rows in zip(board.runs, board.slices(), strict=True)
    ]


def _judgements(run: Run, board: Board, rows: slice, index: EpisodeIndex, prompts: Prompts) -> dict[str, Any]:
    """Return the table of one run, its rows in the order of the page's episodes."""
    episodes = board.metrics.episodes[rows]
    places = [index.place(row) for row in episodes]
    # Ids are sorted within a run as on the page, but a page sorts by source first.
    order = np.argsort(places, kind="stable").tolist()
    row_of = {episodes[i]["episode_id"]: place for place, i in enumerate(order)}
    values = board.metrics.values
    modes = board.failure_modes.by_episode[rows]
    repeated = [(e["run"], e["episode_id"]) in board.metrics.repeated for e in episodes]
    errors = {str(place): episodes[i]["error"] for place, i in enumerate(order) if episodes[i]["error"]}
    scores = [np.nan if e["success_score"] is None else e["success_score"] for e in episodes]
    return {
        "episode": [places[i] for i in order],
        "error": errors,
        "repeated": [place for place, i in enumerate(order) if repeated[i]],
        "success_score": pack_floats([scores[i] for i in order]),
        "values": {c.name: pack_floats(values[c.name][rows][order]) for c in board.metrics.columns},
        "failure_mode": dictionary(modes[i].name for i in order),
        "curves": _curves(run, [episodes[i] for i in order], board.done_at),
        "verdicts": _verdicts(run, row_of),
        "calls": _calls(run, row_of, prompts),
    }


def _curves(run: Run, episodes: Sequence[Any], done_at: float | None) -> dict[str, Any]:
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
    calibrated = [row["calibrated"] for row in episodes]
    known = {flag for flag in calibrated if flag is not None}
    done = done_rule(run, done_at)
    return {
        "length": lengths,
        "times": times,
        "rate": rate,
        "progress": pack_progress(columns.pop("progress")),
        "channels": {
            name: (pack_progress if name == done.channel else pack_range)(values)
            for name, values in columns.items()
        },
        "done_channel": done.channel,
        "done_at": done.at,
        "time_source": dictionary(row["time_source"] for row in episodes),
        "calibrated": [int(bool(flag)) for flag in calibrated] if len(known) > 1 else None,
    }


def _verdicts(run: Run, row_of: dict[str, int]) -> dict[str, Any]:
    rows = sorted(run.verdicts().to_pylist(), key=lambda row: row_of[row["episode_id"]])
    return {
        "row": [row_of[row["episode_id"]] for row in rows],
        "subgoal": dictionary(row["subgoal"] for row in rows),
        "answer": "".join({"yes": "y", "no": "n"}.get(row["answer"], "?") for row in rows),
        "score": pack_floats([np.nan if row["score"] is None else row["score"] for row in rows]),
        "when_s": pack_floats([np.nan if row["when_s"] is None else row["when_s"] for row in rows]),
        "why": dictionary(row["why"] for row in rows),
    }


def _calls(run: Run, row_of: dict[str, int], prompts: Prompts) -> dict[str, Any]:
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
