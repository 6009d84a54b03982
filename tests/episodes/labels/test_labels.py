"""Labels and the table that holds them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stepscore.episodes.labels.labels import COLUMNS, Label, Labels, Stage, check_stages, read_labels
from stepscore.errors import ManifestError, OptionError

ROWS = [
    {
        "episode_id": "a",
        "kind": "success",
        "name": "ever",
        "value": 1,
        "author": "ann",
        "created": "2026-01-01",
    },
    {"episode_id": "a", "kind": "subgoal", "name": "grasp", "start_s": 1.5, "value": 0},
    {"episode_id": "a", "kind": "stage", "name": "reach", "start_s": 0.0, "end_s": 1.5},
    {"episode_id": "b", "kind": "progress", "name": "distance", "start_s": 2.0, "value": 0.25},
]


def write(path: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist([{c: row.get(c) for c in COLUMNS} for row in rows]), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        lines = [",".join(COLUMNS), *(",".join(str(row.get(c, "")) for c in COLUMNS) for row in rows)]
        path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_the_table_reads_the_same_in_every_format(tmp_path: Path, suffix: str) -> None:
    table = read_labels(write(tmp_path / f"labels.{suffix}", ROWS))
    first, second, third = table["a"]
    assert first == Label("success", "ever", first.start_s, first.end_s, 1.0, "ann", "2026-01-01")
    assert math.isnan(first.start_s)
    assert math.isnan(first.end_s)
    assert (second.kind, second.start_s, second.value) == ("subgoal", 1.5, 0.0)
    assert third.kind == "stage"
    assert math.isnan(third.value)
    assert Labels(table["b"]).progress()[1].tolist() == [0.25]


def test_nothing_said_is_unknown() -> None:
    labels = Labels()
    assert labels.success is labels.success_mode is labels.subgoal("x") is None
    assert labels.stages == ()
    assert labels.progress()[0].shape == (0,)


def test_later_rows_override_earlier_ones() -> None:
    labels = Labels((Label("success", "holds", value=0.0), Label("subgoal", "s", value=1.0)))
    assert (labels.success, labels.success_mode) == (False, "holds")
    updated = labels.with_rows([Label("success", "ever", value=1.0), Label("subgoal", "s", value=0.0)])
    assert (updated.success, updated.success_mode, updated.subgoal("s")) == (True, "ever", False)
    assert updated.with_rows([Label("success", "ever")]).success is None
    assert labels.success is False


def test_stages_are_in_order_and_a_later_end_replaces_an_earlier_one() -> None:
    rows = (
        Label("stage", "b", 2.0, 3.0),
        Label("stage", "a", 0.0, 2.0),
        Label("stage", "b", 2.0, 4.0),
        Label("success", "holds", value=1.0),
    )
    assert Labels(rows).stages == (Stage("a", 0.0, 2.0), Stage("b", 2.0, 4.0))


def test_progress_is_in_the_order_of_time_and_later_rows_win() -> None:
    rows = [Label("progress", "d", t, value=v) for t, v in ((2.0, 0.5), (1.0, 0.1), (2.0, 0.7))]
    times, values = Labels(tuple(rows)).progress()
    assert np.array_equal(times, [1.0, 2.0])
    assert np.array_equal(values, [0.1, 0.7])


def test_progress_of_several_names_is_read_by_name_and_never_mixed() -> None:
    truth = [
        Label("progress", "potential", t, value=v, author="simulator") for t, v in ((0.0, 0.0), (1.0, 1.0))
    ]
    made = [Label("progress", "robust", t, value=v, author="me") for t, v in ((0.5, 0.4), (1.0, 0.9))]
    labels = Labels(tuple(truth)).with_rows(made)
    assert labels.potentials == ("potential", "robust")
    assert [array.tolist() for array in labels.progress("potential")] == [[0.0, 1.0], [0.0, 1.0]]
    assert [array.tolist() for array in labels.progress("robust")] == [[0.5, 1.0], [0.4, 0.9]]
    assert labels.progress("sarm")[0].shape == (0,)
    with pytest.raises(OptionError, match=r"several names \('potential', 'robust'\)\. Name one"):
        labels.progress()
    assert Labels(tuple(made)).progress()[1].tolist() == [0.4, 0.9]


def test_progress_joined_under_the_same_name_replaces_the_other_authors() -> None:
    first = [Label("progress", "potential", t, value=0.1, author="simulator") for t in (0.0, 0.5, 1.0)]
    other = [Label("progress", "robust", 0.0, value=0.3)]
    joined = Labels((*first, *other)).with_rows(
        [Label("progress", "potential", 0.4, value=0.8, author="ann")]
    )
    assert [array.tolist() for array in joined.progress("potential")] == [[0.4], [0.8]]
    assert joined.progress("robust")[1].tolist() == [0.3]


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([Stage("a", 0, 2), Stage("b", 1.9, 3)], r"stage 'b' \(1.9..3 s\) overlaps 'a' \(0..2 s\)"),
        ([Stage("a", 2, 3), Stage("b", 0, 1)], r"'b' .* is out of order with 'a'"),
        ([Stage("a", 2, 2)], r"it must end after it starts"),
        ([Stage("a", 2, 1)], r"it must end after it starts"),
        ([Stage("a", math.nan, 1)], r"no finite start and end"),
        ([Stage("a", 0, math.inf)], r"no finite start and end"),
    ],
)
def test_stages_must_be_ordered_and_apart(stages: list[Stage], message: str) -> None:
    with pytest.raises(ManifestError, match=f"here: .*{message}"):
        check_stages(stages, "here")


def test_stages_may_touch_and_may_leave_gaps() -> None:
    stages = (Stage("a", 0, 0.1 + 0.2), Stage("b", 0.3, 1), Stage("a", 5, 6))
    assert check_stages(iter(stages), "here") == stages


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            {"episode_id": "a", "kind": "sucess", "value": 1},
            r"kind is 'sucess'. Allowed: success, subgoal, stage",
        ),
        ({"kind": "success", "value": 1}, "no episode_id"),
        ({"episode_id": "a", "kind": "success", "vaule": 1}, "unknown column 'vaule'. Columns: episode_id"),
        ({"episode_id": "a", "kind": "success", "value": "maybe"}, "value is 'maybe', not a number"),
        ({"episode_id": "a", "kind": "success", "value": 0.5}, "allowed are 0, 1 and empty"),
        ({"episode_id": "a", "kind": "success", "name": "often", "value": 1}, "Allowed: ever, holds"),
        ({"episode_id": "a", "kind": "subgoal", "name": "x", "value": 2}, "allowed are 0, 1 and empty"),
        ({"episode_id": "a", "kind": "subgoal", "value": 1}, "needs a name"),
        ({"episode_id": "a", "kind": "progress", "start_s": 1, "value": 1.5}, r"allowed is 0\.\.1"),
        ({"episode_id": "a", "kind": "progress", "value": 0.5}, "needs start_s"),
        ({"episode_id": "a", "kind": "stage", "start_s": 0, "end_s": 1}, "needs a name"),
        ({"episode_id": "a", "kind": "stage", "name": "x", "start_s": 1, "end_s": 0}, "end after it starts"),
    ],
)
def test_a_wrong_row_is_named(tmp_path: Path, row: dict[str, object], message: str) -> None:
    with pytest.raises(ManifestError, match=rf"labels\.jsonl.*{message}"):
        read_labels(write(tmp_path / "labels.jsonl", [ROWS[0], row]))


def test_true_and_false_are_1_and_0(tmp_path: Path) -> None:
    rows = [
        {"episode_id": e, "kind": "success", "value": v}
        for e, v in (("a", "true"), ("b", "False"), ("c", ""))
    ]
    table = read_labels(write(tmp_path / "labels.csv", rows))
    assert [Labels(table[e]).success for e in "abc"] == [True, False, None]
    assert Labels(table["a"]).success_mode == "holds"


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("episode_id,kind,value\n0,success,1\n", encoding="utf-8-sig")
    assert list(read_labels(tmp_path / "labels.csv")) == ["0"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("l.csv", b"episode_id,kind\na,success,1\n", "unknown column"),
        ("l.csv", b"episode_id,kind\n\xff,success\n", "not UTF-8"),
        ("l.jsonl", b"{\n", "row 1 is not JSON"),
        ("l.jsonl", b"\n3\n", "row 2: expected an object"),
        ("l.parquet", b"PAR1", "as parquet"),
        ("l.txt", b"", r"\.csv, \.jsonl or \.parquet"),
    ],
)
def test_a_malformed_file_is_a_clear_error(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ManifestError, match=message):
        read_labels(tmp_path / name)


def test_a_missing_file_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="No labels file at"):
        read_labels(tmp_path / "labels.csv")
