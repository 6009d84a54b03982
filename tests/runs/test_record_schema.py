"""Any field of a journal's line may hold an odd value: the tables are made, or the line and the field are named."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stepscore.episodes import Subgoal
from stepscore.errors import RunError
from stepscore.runs.journal import JournalState, index, journal_state
from stepscore.runs.record_schema import amount_or_none, checked_record, count_or_none, text_or_none
from stepscore.runs.records import episode_row, judgement_row
from stepscore.runs.tables import TABLES, build_tables
from stepscore.types import Curve, Judgement, Verdict
from tests.fakes import episode

ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 7, 10**30, -(10**30), 0.5, 1e308, -0.0, "", "x", "\x00", "\ud800", "é" * 300),
    *([], [None], [[[]]], [1, "a"], {}, {"": None}, {"a": {"b": [1]}}),
)
"""Values of every JSON type, and what columns cannot hold."""

SERVERS = ("calls", "usage")
"""Fields that a server wrote: whatever is odd in them is unknown, and the episode stays."""


def record() -> dict[str, Any]:
    """A line with something in every field."""
    described = episode_row(episode("e0", subgoals=(Subgoal("open", "it is open"),), metadata={"seed": 1}))
    described["stages"] = [{"name": "reach", "start_s": 0.0, "end_s": 1.0}]
    curve = Curve(np.arange(3.0), np.array([0.0, np.nan, 1.0]), channels={"raw": np.zeros(3)})
    verdicts = (Verdict("open", "yes", 0.9, 1.0, "seen"),)
    usage = {"seconds": 0.1, "calls": 1, "attempts": 1, "images": 2, "tokens_in": 3, "tokens_out": 4}
    return {
        "id": "e0",
        "key": "k",
        "episode": described,
        "judgement": judgement_row(Judgement(curve, verdicts, success_score=0.5, facts={"f": 1.0})),
        "calls": [
            {"key": "a", "kind": "Score", "prompt": "?", "frames": "[1]", "answer": "yes", "tokens_in": 3}
        ],
        "usage": {**usage, "cost": 0.1, "cached": 0, "latencies_s": [0.1]},
    }


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value inside a value, and of the value itself."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in items:
        yield from paths(item, (*path, name))


def replaced(value: Any, path: tuple[Any, ...], odd: Any) -> Any:
    if not path:
        return odd
    changed = copy.deepcopy(value)
    inner = changed
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = odd
    return changed


def without(value: Any, path: tuple[Any, ...]) -> Any:
    changed = copy.deepcopy(value)
    inner = changed
    for name in path[:-1]:
        inner = inner[name]
    del inner[path[-1]]
    return changed


def made_tables(journal: Path) -> dict[str, pa.Table]:
    sinks = {name: pa.BufferOutputStream() for name in TABLES}
    build_tables(journal, journal_state(journal).size, "judge", "protocol", sinks)
    return {name: pa.parquet.read_table(pa.BufferReader(sink.getvalue())) for name, sink in sinks.items()}


def outcome(journal: Path, value: Any) -> str:
    """Write a line between two good ones and make all tables; return the message, empty where they were made."""
    good = json.dumps({**record(), "id": "before"}) + "\n", json.dumps({**record(), "id": "c"}) + "\n"
    journal.write_bytes((good[0] + json.dumps(value) + "\n" + good[1]).encode())
    message = message_of(lambda: made_tables(journal))
    if message:
        assert f"{journal}, line 2 is damaged (" in message
        assert "\n" not in message
        assert len(message) < 2000
    else:
        assert {"before", "c"} <= set(made_tables(journal)["episodes"].column("episode_id").to_pylist())
    return message


def message_of(call: Callable[[], object]) -> str:
    """Return the message of the error that a call raises; empty where it raises none."""
    try:
        call()
    except (RunError, ValueError) as error:
        return str(error) or type(error).__name__
    return ""


PATHS = sorted(paths(record()), key=str)


@pytest.mark.parametrize("top", sorted({str(path[0]) if path else "" for path in PATHS}))
def test_an_odd_value_in_any_field_is_taken_or_named(top: str, tmp_path: Path) -> None:
    taken, refused = [], 0
    for path in (path for path in PATHS if (str(path[0]) if path else "") == top):
        for odd in ODD:
            line = json.dumps(replaced(record(), path, odd))
            message = message_of(partial(checked_record, json.loads(line)))
            if not message:
                taken.append(json.loads(line))
                continue
            refused += 1
            assert top not in SERVERS or len(path) < 2 or isinstance(path[-1], int), (path, odd)
            assert not path or isinstance(path[-1], int) or str(path[0]) in message, (path, odd)
    assert refused  # of the whole field at least
    if top != "id":
        taken = [{**line, "id": f"e{number}"} for number, line in enumerate(taken)]
    journal = tmp_path / "journal.jsonl"
    journal.write_text("".join(json.dumps(line) + "\n" for line in taken), encoding="utf-8")
    found = made_tables(journal)["judgements"].column("episode_id").to_pylist()
    assert found == sorted({line["id"] for line in taken})


@pytest.mark.parametrize("path", [path for path in PATHS if path], ids=lambda path: ".".join(map(str, path)))
def test_a_field_that_is_missing_is_unknown_or_named(path: tuple[Any, ...], tmp_path: Path) -> None:
    message = outcome(tmp_path / "journal.jsonl", without(record(), path))
    if path[0] in SERVERS and len(path) > 1:
        assert not message
    elif message:
        assert str(path[0]) in message or "which was not judged before" in message


@pytest.mark.parametrize("name", ["calls", "attempts", "images", "tokens_in", "tokens_out", "cached"])
@pytest.mark.parametrize("odd", [10**30, True, -5, 1.5, "12", float("1e300"), [1]])
def test_impossible_counts_are_unknown_and_the_episode_stays(name: str, odd: object, tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    assert not outcome(journal, replaced(record(), ("usage", name), odd))
    rows = {row["episode_id"]: row for row in made_tables(journal)["usage"].to_pylist()}
    assert rows["e0"][name] is None
    assert rows["c"][name] == record()["usage"].get(name)


def test_an_answer_that_is_no_text_is_kept_as_json(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    assert not outcome(journal, replaced(record(), ("calls", 0, "answer"), {"text": 3}))
    answers = {row["episode_id"]: row["answer"] for row in made_tables(journal)["calls"].to_pylist()}
    assert answers == {"before": "yes", "c": "yes", "e0": '{"text": 3}'}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"{oops}", "Expecting property name"),
        (b"[1]", "valid dictionary"),
        (b"\xff\xfe", "decode byte"),
        (b'{"id": NaN}', "NaN"),
        (b'{"id": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deep"),
        (b'{"id": ' + b"9" * 5000 + b"}", "4300 digits"),
        (b"", "Expecting value"),
        (b"\x1b[31m\x00", "Expecting value"),
    ],
)
def test_a_line_that_is_no_record_is_named_with_its_number(line: bytes, why: str, tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    journal.write_bytes(json.dumps(record()).encode() + b"\n" + line + b"\n")
    with pytest.raises(RunError, match="line 2 is damaged") as caught:
        index(journal)
    assert why in str(caught.value)
    assert "\x1b" not in str(caught.value)
    assert "Delete that line" in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"time_s": [0.0, 1.0]}, "2 times, but 3 values of 'progress'"),
        ({"time_s": [0.0, 2.0, 1.0]}, "should be increasing"),
        ({"progress": [0.0, 1.5, None]}, "judgement.curve.progress.1"),
        ({"channels": {"time_s": [0.0, 0.0, 0.0]}}, "'time_s' is the name of another column"),
        ({"channels": {"raw": [0.0]}}, "1 values of 'raw'"),
    ],
)
def test_a_curve_that_is_none_is_refused(change: dict[str, Any], message: str) -> None:
    value = record()
    value["judgement"]["curve"] |= change
    with pytest.raises(ValueError, match=r"judgement\.curve") as caught:
        checked_record(value)
    assert message in str(caught.value)


def test_a_description_of_an_episode_that_was_never_judged_is_named(tmp_path: Path) -> None:
    described = {name: record()[name] for name in ("id", "episode")}
    (tmp_path / "j").write_text(json.dumps(described) + "\n")
    with pytest.raises(RunError, match="it describes episode 'e0', which was not judged before"):
        index(tmp_path / "j")


def test_counts_amounts_and_texts_of_servers() -> None:
    assert [count_or_none(v) for v in (0, 3, -1, True, 1.0, 1 << 63, None, "3")] == [0, 3, *[None] * 6]
    assert [amount_or_none(v) for v in (0, 0.5, 3, -0.1, True, float("nan"), 10**400, "1")] == [
        *(0.0, 0.5, 3.0),
        *[None] * 5,
    ]
    assert [text_or_none(v) for v in (None, "a", 3, ["é"], "\ud800")] == [None, "a", "3", '["\\u00e9"]', "?"]


def test_the_state_of_a_journal_leaves_a_torn_line_out(tmp_path: Path) -> None:
    (tmp_path / "j").write_bytes(b"{}\n{}\n{")
    state = journal_state(tmp_path / "j")
    assert state.size == 6
    (tmp_path / "j").write_bytes(b"{}\n[]\n")
    assert journal_state(tmp_path / "j") == JournalState(6, journal_state(tmp_path / "j").end)
    assert journal_state(tmp_path / "j").end != state.end
