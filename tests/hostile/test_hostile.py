"""Hostile inputs of every kind: no traceback, no hang, bounded memory, the rest of the run kept, no key anywhere.

A slice of ``python -m tests.hostile``, which runs any number of them; CONTRIBUTING.md says how.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.hostile import checks
from tests.hostile.__main__ import names
from tests.hostile.case import KEY, Case, make_case
from tests.hostile.forks import Outcome
from tests.hostile.kinds import KINDS
from tests.paths import ROOT

SEED = 7
TRIES = {"core": 100, "extras": 12, "torch": 6}
"""How many of each group; a new seed finds other faults than this one would."""

NEEDED = {"core": (), "extras": ("h5py", "matplotlib", "fastapi"), "torch": ("torch", "transformers")}


@pytest.mark.skipif(sys.platform != "linux", reason="forks, named pipes and /proc are used")
@pytest.mark.parametrize("group", TRIES)
def test_hostile_inputs_end_in_one_line_and_leave_the_rest_as_it_was(group: str, tmp_path: Path) -> None:
    missing = [name for name in NEEDED[group] if find_spec(name) is None]
    if missing:
        message = f"HOSTILE INPUTS NOT TRIED: those of group {group!r} need {', '.join(missing)}"
        pytest.fail(message) if os.environ.get("CI") == "true" else pytest.skip(message)
    # A process of its own: it forks, and this one has threads.
    line = [sys.executable, "-m", "tests.hostile", "--group", group, "--seed", str(SEED), "--jobs", "1"]
    result = subprocess.run(
        [*line, "--tries", str(TRIES[group])],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"


def test_every_kind_has_a_share_and_the_same_name_is_the_same_input(tmp_path: Path) -> None:
    chosen = names(200, 3, KINDS)
    assert {name.split("/")[0] for name in chosen} == set(KINDS)
    assert len(set(chosen)) == len(chosen)
    assert len(names(2000, 0, KINDS)) >= 2000
    made = []
    for number in range(2):
        here, good = tmp_path / str(number), tmp_path / "good"
        here.mkdir()
        made.append(make_case(KINDS, "model-options/3/5", here, good))
    assert made[0].what == made[1].what
    assert [len(line) for line in made[0].commands] == [len(line) for line in made[1].commands]


def test_a_labels_file_is_damaged_whatever_it_is_called(tmp_path: Path) -> None:
    here, good = tmp_path / "here", tmp_path / "good"
    for folder in (here, good / "made"):
        folder.mkdir(parents=True)
    (good / "made" / "labels.csv").write_text("episode_id,kind,name,value\ne,success,holds,1\n")
    assert make_case(KINDS, "labels/28/27", here, good).what.startswith("labels labels.json: ")


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_a_child_that_is_interrupted_before_it_begins_goes_on() -> None:
    child = "import sys, time; from tests.hostile.forks import run_child as run"
    line = [sys.executable, "-c", f"{child}; sys.exit(run(lambda: time.sleep(0.3), 0.0).code)"]
    assert subprocess.run(line, cwd=ROOT).returncode == 0


GOOD_END = Outcome(2, 1 << 28, 1.0)


@pytest.mark.parametrize(
    ("outcome", "out", "err", "found"),
    [
        (GOOD_END, "", "Error: no such file. Run: x\n", None),
        (GOOD_END, "", "Error: one\ntwo\n", "error line"),
        (GOOD_END, "", "", "error line"),
        (GOOD_END, "", "Error: " + "x" * 5000 + "\n", "error line"),
        (Outcome(1, 1, 1.0), "", "Traceback (most recent call last):\n", "traceback"),
        (Outcome(3, 1, 1.0), "", "Unexpected error: ZeroDivisionError\n", "unexpected error"),
        (Outcome(0, 2 << 30, 1.0), "", "", "memory"),
        (Outcome(-9, 1, 240.0, hung=True), "", "", "hang"),
        (Outcome(-11, 1, 1.0), "", "", "crash"),
        (Outcome(0, 1, 1.0), f"a {KEY}", "", "key printed"),
        (Outcome(77, 1, 1.0), "", "", "exit code 77"),
        (Outcome(130, 1, 1.0), "", "", "exit code 130"),
    ],
)
def test_what_may_not_happen_is_found(
    outcome: Outcome, out: str, err: str, found: str | None, tmp_path: Path
) -> None:
    files = tmp_path / "out", tmp_path / "err"
    for file, text in zip(files, (out, err), strict=True):
        file.write_text(text)
    failures = checks.of_command(["judge", "x"], Case("x", []), outcome, *files)
    assert (failures == []) if found is None else failures[0].startswith(found)


def test_a_key_in_any_file_is_found(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    assert checks.after(Case("x", []), tmp_path) == []
    (tmp_path / "log").write_text(f"Bearer {KEY}")
    pq.write_table(pa.table({"answer": [f"{KEY} {KEY}"]}), tmp_path / "t.parquet", compression="zstd")
    assert checks.after(Case("x", []), tmp_path) == ["key kept: log", "key kept: t.parquet"]
