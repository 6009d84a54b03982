from __future__ import annotations

import math
import os
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscore.errors import RunError
from stepscore.models.calls.attempts import Attempts, Spent
from stepscore.models.calls.shared_folder import AttemptsJournal

RECORDS = pytest.mark.parametrize("record", [Attempts, AttemptsJournal])
STATES = ("sent", "answered", "uncounted", "lost", "refused", "unsent")


@RECORDS
@settings(max_examples=40)
@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from(STATES), st.integers(0, 100) | st.none()), max_size=6), max_size=4
    )
)
def test_starts_add_up_to_the_total_of_the_run(
    tmp_path_factory: pytest.TempPathFactory,
    record: type[Attempts | AttemptsJournal],
    starts: list[list[tuple[str, int | None]]],
) -> None:
    path, everything = tmp_path_factory.mktemp("attempts") / "attempts", []
    for start in starts:
        attempts = record(path)
        assert attempts.this_start() == Spent()
        for state, cost in start:
            number = attempts.begin("k", cost)
            if state != "sent":  # else the process was killed
                attempts.end(
                    number,
                    state,
                    None if state in ("lost", "uncounted") else 0.0 if state == "refused" else cost,
                )
        everything += start
        assert attempts.this_start() == naive(start)
        assert attempts.total() == naive(everything)
        assert attempts.spent()[0] == naive(everything).attempts
        attempts.close()


def naive(rows: list[tuple[str, int | None]]) -> Spent:
    """Count one by one."""
    sent = [(state, cost) for state, cost in rows if state != "unsent"]
    states = [state for state, _ in sent]
    billed = [cost for state, cost in sent if state != "refused"]
    return Spent(
        len(sent),
        states.count("answered") + states.count("uncounted"),
        states.count("refused"),
        states.count("lost") + states.count("sent"),
        None if None in billed else float(sum(cost or 0 for cost in billed)),
        not set(states) & {"lost", "sent", "uncounted"},
    )


@RECORDS
def test_a_killed_process_leaves_what_it_sent(
    record: type[Attempts | AttemptsJournal], tmp_path: Path
) -> None:
    path = tmp_path / "attempts"
    child = os.fork()
    if child == 0:
        record(path).begin("k", 0.25)
        os._exit(9)
    os.waitpid(child, 0)
    assert record(path).total() == Spent(attempts=1, lost=1, cost=0.25, exact=False)


@RECORDS
@pytest.mark.parametrize("cost", [-1e9, -math.inf])
def test_a_negative_cost_gives_nothing_back(
    record: type[Attempts | AttemptsJournal], tmp_path: Path, cost: float
) -> None:
    attempts = record(tmp_path / "attempts")
    attempts.end(attempts.begin("k", 1.0), "answered", cost)
    attempts.begin("l", 2.0)
    assert attempts.spent() == (2, 2.0)
    assert attempts.total().cost == 2.0


@pytest.mark.parametrize("text", ["", "no database at all, but long enough to be taken for one " * 20])
def test_a_file_that_is_damaged_is_named_and_nothing_is_asked(tmp_path: Path, text: str) -> None:
    path = tmp_path / "attempts.sqlite"
    path.write_text(text)
    if not text:  # sqlite takes an empty file for a new database
        assert Attempts(path).total() == Spent()
        return
    with pytest.raises(RunError, match=r"attempts\.sqlite: .* remove it to count from 0"):
        Attempts(path)


def test_another_programs_table_and_what_is_no_file_are_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "a.sqlite") as db:
        db.execute("CREATE TABLE attempts (what TEXT)")
    with pytest.raises(RunError, match="another program"):
        Attempts(tmp_path / "a.sqlite")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(RunError, match="not a file"):
        Attempts(tmp_path / "pipe")


def test_what_is_spent_is_what_the_file_holds_after_any_sequence_of_attempts(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    path = tmp_path / "attempts.sqlite"
    for _ in range(3):  # starts of one run
        attempts = Attempts(path)
        under_way: list[int] = []
        for step in range(60):
            if not under_way or rng.random() < 0.5:
                cost = None if rng.random() < 0.2 else float(rng.uniform(0, 0.1))
                under_way.append(attempts.begin(f"k{step}", cost))
                continue
            number = under_way.pop(int(rng.integers(len(under_way))))
            state = str(rng.choice(["answered", "uncounted", "lost", "refused", "unsent"]))
            cost = {"answered": float(rng.uniform(-0.01, 0.1)), "refused": 0.0, "unsent": 0.0}.get(state)
            attempts.end(number, state, cost)
            attempts.ended()
        made, paid = attempts.spent()
        total = attempts.total()
        assert made == total.attempts
        read = Attempts(path)
        assert read.spent() == (made, pytest.approx(paid, abs=1e-12))
        read.close()
        attempts.close()
