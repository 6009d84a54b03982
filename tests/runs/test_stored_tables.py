"""Tables of a run folder are those of its journal, whatever became of the files; a folder is read without writing."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import stepscore
from stepscore.runs import Run, stored_tables
from stepscore.runs.journal import journal_state
from stepscore.runs.stored_tables import _current, write_tables
from stepscore.runs.tables import TABLES, digest
from tests.fakes import episode

Damage = Callable[[Path], None]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of five episodes; copied before it is changed."""
    return judged(tmp_path_factory.mktemp("stored") / "run", 5).path


def judged(folder: Path, n: int) -> Run:
    judge = stepscore.get_judge("random-monotone", points=6)
    return stepscore.score([episode(f"e{i}") for i in range(n)], judge, out=folder)


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "run"))


def tables(run: Run) -> dict[str, pa.Table]:
    return {name: getattr(run, name)() for name in TABLES}


def stored_bytes(folder: Path) -> dict[str, bytes]:
    return {name: (folder / f"{name}.parquet").read_bytes() for name in TABLES if name != "usage"}


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 0xFF
    path.write_bytes(content)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def remove(path: Path) -> None:
    path.unlink()


def another_table(path: Path) -> None:
    pq.write_table(pa.table({"episode_id": ["x"], "progress": ["y"]}), path)


def link_to_another(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.with_name("run.json"))


def claim_terabytes(path: Path) -> None:
    os.truncate(path, 1 << 42)


DAMAGES = (truncate, flip, empty, remove, another_table, link_to_another, claim_terabytes)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", TABLES)
def test_a_damaged_table_is_made_anew_in_its_place(
    name: str, damage: Damage, folder: Path, made: Path
) -> None:
    expected, before = tables(stepscore.open_run(made)), stored_bytes(folder)
    damage(folder / f"{name}.parquet")
    assert tables(stepscore.open_run(folder)) == expected
    assert stored_bytes(folder) == before
    assert not (folder / f"{name}.parquet").is_symlink()
    assert {path.name for path in folder.iterdir()} == {path.name for path in made.iterdir()}


@pytest.mark.parametrize("damage", [truncate, flip, remove, another_table])
@pytest.mark.parametrize("name", TABLES)
def test_a_table_that_is_damaged_after_the_run_was_opened_is_read_whole(
    name: str, damage: Damage, folder: Path, made: Path
) -> None:
    run = stepscore.open_run(folder)
    damage(folder / f"{name}.parquet")
    assert tables(run) == tables(stepscore.open_run(made))


@pytest.mark.parametrize("kind", ["pipe", "folder", "full folder"])
@pytest.mark.parametrize("name", ["episodes", "usage"])
def test_what_cannot_be_replaced_is_made_in_memory(name: str, kind: str, folder: Path, made: Path) -> None:
    path = folder / f"{name}.parquet"
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
        if kind == "full folder":
            (path / "file").touch()
    assert tables(stepscore.open_run(folder)) == tables(stepscore.open_run(made))


@pytest.mark.parametrize("kind", ["pipe", "folder", "link"])
def test_a_lock_file_that_is_none_costs_the_stored_tables_alone(kind: str, folder: Path, made: Path) -> None:
    lock, elsewhere = folder / stored_tables.LOCK_FILE, folder.parent / "elsewhere"
    lock.unlink()
    (folder / "curves.parquet").unlink()
    if kind == "pipe":
        os.mkfifo(lock)
    elif kind == "folder":
        lock.mkdir()
    else:
        lock.symlink_to(elsewhere)
    assert tables(stepscore.open_run(folder)) == tables(stepscore.open_run(made))
    assert not (folder / "curves.parquet").exists()
    assert not elsewhere.exists()


@pytest.mark.parametrize("missing", [(), TABLES, ("curves",)])
def test_a_folder_that_cannot_be_written_is_read_without_writing(
    missing: tuple[str, ...], folder: Path, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in missing:
        (folder / f"{name}.parquet").unlink()
    (folder / stored_tables.LOCK_FILE).unlink()
    before = {path.name for path in folder.iterdir()}

    def refuse(path: Path) -> object:  # what the system says to anyone but root
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(stored_tables, "locked", refuse)
    folder.chmod(0o555)
    try:
        assert tables(stepscore.open_run(folder)) == tables(stepscore.open_run(made))
        assert {path.name for path in folder.iterdir()} == before
    finally:
        folder.chmod(0o755)


def test_tables_of_another_generation_are_not_mixed_with_those_of_the_opened_run(tmp_path: Path) -> None:
    opened = judged(tmp_path / "run", 3)
    before = {name: table.num_rows for name, table in tables(judged(tmp_path / "other", 3)).items()}
    grown = judged(tmp_path / "run", 7)
    assert {name: table.num_rows for name, table in tables(opened).items()} == before
    assert grown.judgements().num_rows == 7
    # What the earlier reader made was in memory: the newer files are still there.
    assert pq.read_table(tmp_path / "run" / "judgements.parquet").num_rows == 7


def test_one_table_of_an_older_generation_is_noticed(tmp_path: Path) -> None:
    judged(tmp_path / "run", 3)
    older = (tmp_path / "run" / "curves.parquet").read_bytes()
    judged(tmp_path / "run", 5)
    newer = (tmp_path / "run" / "curves.parquet").read_bytes()
    (tmp_path / "run" / "curves.parquet").write_bytes(older)
    assert stepscore.open_run(tmp_path / "run").curves().num_rows == 5 * 6
    assert (tmp_path / "run" / "curves.parquet").read_bytes() == newer


def tables_are_current(folder: Path, protocol: str) -> bool:
    return _current(folder, protocol, journal_state(folder / "journal.jsonl")) is not None


def test_a_journal_of_the_same_size_with_another_end_makes_the_tables_stale(folder: Path) -> None:
    journal = folder / "journal.jsonl"
    protocol = stepscore.open_run(folder).protocol.hash
    assert tables_are_current(folder, protocol)
    assert not tables_are_current(folder, "another protocol")
    changed = journal.read_bytes().replace(b'"attempts":0', b'"attempts":7')
    journal.write_bytes(changed)
    assert not tables_are_current(folder, protocol)
    assert stepscore.open_run(folder).usage().column("attempts").to_pylist() == [7] * 5


def test_tables_with_right_digests_but_other_columns_are_not_believed(folder: Path, made: Path) -> None:
    another_table(folder / "episodes.parquet")
    usage = pq.read_table(folder / "usage.parquet")
    metadata = pq.read_metadata(folder / "usage.parquet").metadata
    digests = json.loads(metadata[b"digests"])
    digests["episodes"] = digest((folder / "episodes.parquet").read_bytes())
    kept = {key: value for key, value in metadata.items() if key != b"ARROW:schema"}
    forged = usage.replace_schema_metadata({**kept, b"digests": json.dumps(digests).encode()})
    pq.write_table(forged, folder / "usage.parquet", write_page_checksum=True)
    assert stepscore.open_run(folder).episodes() == stepscore.open_run(made).episodes()


def test_what_a_killed_process_left_is_removed_by_the_next_writer(folder: Path) -> None:
    (folder / ".curves.parquet.0123abcd.tmp").write_bytes(b"half")
    (folder / ".notes.tmp").write_bytes(b"the user's own")
    write_tables(folder, "random-monotone", stepscore.open_run(folder).protocol.hash)
    assert sorted(path.name for path in folder.glob(".*")) == [".notes.tmp"]


def test_the_rows_of_some_episodes_are_those_of_the_whole_table(folder: Path) -> None:
    whole = tables(stepscore.open_run(folder))
    some = pa.array(["e1", "e3", "not there"])
    opened = stored_tables.StoredTables(folder, "random-monotone", stepscore.open_run(folder).protocol.hash)

    def expected(table: pa.Table) -> list[dict[str, object]]:
        return [row for row in table.to_pylist() if row["episode_id"] in ("e1", "e3")]

    for name, table in whole.items():
        found = opened.read(name, some)
        assert found.schema == table.schema
        assert found.to_pylist() == expected(table)
    assert opened.read("curves", some).num_rows == 12


def test_channels_are_named_without_reading_a_row(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = stepscore.open_run(folder)
    assert run.channels == tuple(run.curves().column_names[2:])
    again = stepscore.open_run(folder)
    monkeypatch.setattr(pq.ParquetFile, "read", None)
    monkeypatch.setattr(pq.ParquetFile, "read_row_group", None)
    assert again.channels == run.channels == ("progress",)


def test_channels_of_a_damaged_table_are_those_of_the_journal(folder: Path) -> None:
    run = stepscore.open_run(folder)
    flip(folder / "curves.parquet")
    assert run.channels == ("progress",)
