"""Any number of readers of a run folder beside its writer disturb neither it nor each other."""

from __future__ import annotations

from pathlib import Path

from tests.runs.readers_beside_writer import play


def test_readers_beside_a_writer_end_well_and_leave_its_tables_as_they_are(tmp_path: Path) -> None:
    # Twenty rounds: python -m tests.runs.readers_beside_writer --rounds 20
    assert play(tmp_path, rounds=1, readers=6) >= 1
