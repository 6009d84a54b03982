"""Rows of large tables: those of to_pylist, with equal values kept once."""

from __future__ import annotations

import tracemalloc

import pyarrow as pa

from stepscore.analysis.table_rows import table_rows


def goals(label: bool) -> list[dict[str, object]]:
    return [{"name": "reach", "label": True}, {"name": "grasp", "label": label}]


def episodes(n: int) -> pa.Table:
    return pa.table(
        {
            "episode_id": [f"e{i}" for i in range(n)],
            "task": [f"task {i % 3}" for i in range(n)],
            "policy": [None if i % 5 == 0 else "pi0" for i in range(n)],
            "score": [i / n for i in range(n)],
            "subgoals": [goals(i % 2 == 0) for i in range(n)],
        }
    )


def test_rows_are_those_of_the_table() -> None:
    table = episodes(5_000)
    assert list(table_rows(table)) == table.to_pylist()
    assert list(table_rows(table.slice(0, 0))) == []


def test_equal_texts_and_lists_are_one_object() -> None:
    first, *_, last = table_rows(episodes(4_999))
    assert first["task"] is last["task"]
    assert first["subgoals"] is last["subgoals"]


def test_rows_take_a_fraction_of_the_memory_of_a_list() -> None:
    table, peaks = episodes(4_000), []
    for read in (lambda: table.to_pylist(), lambda: list(table_rows(table))):
        tracemalloc.start()
        rows = read()
        peaks.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
        assert len(rows) == 4_000
    assert peaks[1] < 0.5 * peaks[0]
