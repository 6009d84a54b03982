"""Recordings of vla-eval, and what a SQLite file from anyone must not do."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from stepscore._untrusted import sqlite_tables
from stepscore._untrusted.sqlite_tables import read_tables
from stepscore.episodes import open_episodes
from stepscore.errors import SourceError
from tests.episodes.readers import written

FIRST = "episodes/LIBEROBenchmark/task0000_ep0000_success"


@pytest.mark.parametrize("whole_folder", [False, True])
def test_episodes_have_task_success_scene_and_video(tmp_path: Path, whole_folder: bool) -> None:
    path = written.vla_eval(tmp_path)
    episodes = open_episodes(path.parent if whole_folder else path)
    assert episodes.reader == "vla-eval"
    assert len(episodes) == 3
    first = episodes[FIRST]
    assert (first.task, first.instruction) == ("open_the_drawer_0", "open the drawer 0")
    assert (first.dataset, first.pair, first.policy) == ("LIBEROBenchmark", "0", None)
    assert [episode.labels.success for episode in episodes] == [True, False, None]
    assert first.clip(count=3).frames.shape == (3, 96, 96, 3)
    assert first.metadata["metrics"] == {"success": True}
    assert episodes[2].metadata["failure_reason"] == "timeout"
    (problem,) = episodes.problems
    assert "1 of 4 episodes have no video" in problem.why


def test_rows_that_are_still_in_the_log_are_read_and_nothing_is_written(tmp_path: Path) -> None:
    path = written.vla_eval(tmp_path, wal=True)
    assert path.with_name(f"{path.name}-wal").stat().st_size > 0
    before = {file.name: file.read_bytes() for file in path.parent.iterdir() if file.is_file()}
    assert len(open_episodes(path)) == 3
    assert {file.name: file.read_bytes() for file in path.parent.iterdir() if file.is_file()} == before


@pytest.mark.parametrize(
    ("stated", "found"),
    [
        ("/workspace/results/episodes/LIBEROBenchmark/task0000_ep0000_success.jsonl", True),  # of a container
        ("../outside/a.jsonl", False),
        ("episodes/../../outside/a.jsonl", False),
        ("", False),
        ("a\0b", False),
    ],
)
def test_a_video_is_one_in_the_folder_whatever_the_row_says(tmp_path: Path, stated: str, found: bool) -> None:
    path = written.vla_eval(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.mp4").write_bytes((path.parent / f"{FIRST}.mp4").read_bytes())
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM episode_results WHERE eid != 'e0'")
        connection.execute("UPDATE episode_results SET jsonl_path = ?", (stated,))
    connection.close()
    if found:
        assert open_episodes(path).ids() == [FIRST]
    else:
        with pytest.raises(SourceError, match="No episodes"):
            open_episodes(path)


def test_context_states_the_instruction_where_it_has_one(tmp_path: Path) -> None:
    path = written.vla_eval(tmp_path)
    with sqlite3.connect(path) as connection:
        connection.execute(
            "UPDATE episode_results SET context = ?", (json.dumps({"task_description": "open it"}),)
        )
    connection.close()
    assert {episode.instruction for episode in open_episodes(path)} == {"open it"}


def test_odd_cells_leave_what_is_unknown_unknown(tmp_path: Path) -> None:
    path = written.vla_eval(tmp_path)
    with sqlite3.connect(path) as connection:
        connection.execute(
            "UPDATE episode_results SET task_name = x'ff', context = '[1', metrics = 'x', status = 3, steps = 'many'"
        )
    connection.close()
    episodes = open_episodes(path)
    assert len(episodes) == 3
    assert all(episode.labels.success is None and episode.pair is None for episode in episodes)


class TestHostileFiles:
    @pytest.mark.parametrize(
        "made",
        [
            "CREATE VIEW episode_results AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x FROM n) "
            "SELECT x AS sid FROM n",
            "CREATE VIRTUAL TABLE episode_results USING fts5(sid, eid)",
            "CREATE TABLE other(x)",
        ],
    )
    def test_only_a_table_of_the_file_is_read(self, tmp_path: Path, made: str) -> None:
        path = tmp_path / "recording-x.sqlite"
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE eval_metadata (eval_id, safe_name, metadata)")
        connection.execute(made)
        connection.commit()
        connection.close()
        with pytest.raises(SourceError, match="no table 'episode_results'"):
            open_episodes(path)

    def test_columns_that_are_computed_are_not(self, tmp_path: Path) -> None:
        path = tmp_path / "a.sqlite"
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE t (a, b AS (zeroblob(100000000)))")
        connection.execute("INSERT INTO t (a) VALUES (1)")
        connection.commit()
        connection.close()
        assert read_tables(path, {"t": ("a", "b")}) == {"t": [{"a": 1, "b": None}]}

    def test_rows_values_and_work_are_limited(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "a.sqlite"
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE t (a)")
        connection.executemany("INSERT INTO t VALUES (?)", [("x" * 2000,)] * 50)
        connection.commit()
        connection.close()
        monkeypatch.setattr(sqlite_tables, "MAX_ROWS", 10)
        with pytest.raises(SourceError, match="more than 10 rows"):
            read_tables(path, {"t": ("a",)})
        monkeypatch.setattr(sqlite_tables, "MAX_CELL_BYTES", 100)
        with pytest.raises(SourceError, match="too big"):
            read_tables(path, {"t": ("a",)})
        monkeypatch.setattr(sqlite_tables, "MAX_CELL_BYTES", 1 << 20)
        monkeypatch.setattr(sqlite_tables, "STEPS_PER_CHECK", 1)
        monkeypatch.setattr(sqlite_tables, "MAX_CHECKS", 3)
        with pytest.raises(SourceError, match="interrupted"):
            read_tables(path, {"t": ("a",)})

    def test_what_is_damaged_or_another_file_is_one_line(self, tmp_path: Path) -> None:
        good = written.vla_eval(tmp_path)
        content = good.read_bytes()
        for name, damaged in {
            "cut": content[:3000],
            "zeroed": content[:100] + bytes(len(content) - 100),
            "text": b"not a database" * 100,
            "empty": b"",
        }.items():
            path = tmp_path / f"recording-{name}.sqlite"
            path.write_bytes(damaged)
            with pytest.raises(SourceError):
                open_episodes(path, reader="vla-eval")

    def test_one_damaged_recording_does_not_hide_the_other(self, tmp_path: Path) -> None:
        good = written.vla_eval(tmp_path)
        (good.parent / "recording-zz.sqlite").write_bytes(b"SQLite format 3\0" + b"\1" * 5000)
        episodes = open_episodes(good.parent)
        assert len(episodes) == 3
        assert any("recording-zz.sqlite" in problem.where for problem in episodes.problems)
