from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from stepscore.errors import RunError
from stepscore.models.calls.answer_cache import MAX_VALUE_BYTES, CallCache, default_path


def test_an_answer_is_found_by_its_key_alone(tmp_path: Path) -> None:
    cache = CallCache(tmp_path / "deep" / "c.sqlite")
    cache.put("a", "mock/x", {"kind": "answer", "text": "Würfel"})
    assert cache.get("a") == {"kind": "answer", "text": "Würfel"}
    assert cache.get("b") is None


def test_half_a_surrogate_pair_is_kept_as_the_server_sent_it(tmp_path: Path) -> None:
    cache = CallCache(tmp_path / "c.sqlite")
    cache.put("a", "mock/x", {"text": "\ud83d"})
    assert cache.get("a") == {"text": "\ud83d"}


def test_the_first_answer_stays(tmp_path: Path) -> None:
    cache = CallCache(tmp_path / "c.sqlite")
    cache.put("a", "mock/x", {"text": "first"})
    cache.put("a", "mock/x", {"text": "second"})
    assert cache.get("a") == {"text": "first"}


def test_it_is_kept_when_the_process_ends(tmp_path: Path) -> None:
    CallCache(tmp_path / "c.sqlite").put("a", "mock/x", {"text": "kept"})
    assert CallCache(tmp_path / "c.sqlite").get("a") == {"text": "kept"}


def test_values_are_json_and_nothing_is_ever_unpickled(tmp_path: Path) -> None:
    CallCache(tmp_path / "c.sqlite").put("a", "mock/x", {"text": "plain"})
    (packed,) = sqlite3.connect(tmp_path / "c.sqlite").execute("SELECT value FROM calls").fetchone()
    assert json.loads(zlib.decompress(packed)) == {"text": "plain"}
    source = Path(sys.modules[CallCache.__module__].__file__ or "").read_text(encoding="utf-8")
    assert "import pickle" not in source


def test_it_is_counted_pruned_and_listed(tmp_path: Path) -> None:
    cache = CallCache(tmp_path / "c.sqlite")
    for key, model in (("b", "mock/x"), ("a", "mock/x"), ("c", "mock/y")):
        cache.put(key, model, {"text": key})
    assert {kept.model: kept.calls for kept in cache.stats()} == {"mock/x": 2, "mock/y": 1}
    assert [(row["key"], row["text"]) for row in cache.rows()] == [("a", "a"), ("b", "b"), ("c", "c")]
    assert cache.prune(before="2000-01-01") == 0
    assert cache.prune(model="mock/x", before="2000-01-01") == 0
    assert cache.prune(model="mock/x") == 2
    assert [row["key"] for row in cache.rows()] == ["c"]
    assert cache.prune() == 1
    assert cache.stats() == []


def test_damaged_rows_are_listed_without_their_unknown_sizes_and_dates(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    CallCache(path).put("a", "mock/x", {"text": "a"})
    with closing(sqlite3.connect(path)) as db:
        (schema,) = db.execute("SELECT sql FROM sqlite_master WHERE name = 'calls'").fetchone()
        db.executescript(f"DROP TABLE calls; {schema.replace('NOT NULL', '')}")
        db.execute("INSERT INTO calls (key) VALUES ('a')")
        db.commit()
    assert [(row.model, row.calls, row.bytes, row.oldest) for row in CallCache(path).stats()] == [
        ("", 1, 0, "")
    ]


def test_threads_and_processes_share_it(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    cache = CallCache(path)
    work = (
        "import sys; from pathlib import Path; from stepscore.models.calls.answer_cache import CallCache\n"
        "cache = CallCache(Path(sys.argv[1]))\n"
        "for n in range(200): cache.put(f'{sys.argv[2]} {n}', 'mock/x', {'text': str(n)})\n"
    )
    processes = [subprocess.Popen([sys.executable, "-c", work, str(path), str(p)]) for p in range(2)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda n: cache.put(f"t {n}", "mock/x", {"text": str(n)}), range(200)))
    assert [process.wait(timeout=60) for process in processes] == [0, 0]
    assert cache.stats()[0].calls == 600


def test_what_is_wrong_is_said_with_what_repairs_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RunError, match="-E cache=false"):
        CallCache(tmp_path / "file" / "c.sqlite")
    with pytest.raises(RunError, match="a folder, not a file"):
        CallCache(tmp_path)
    with pytest.raises(RunError, match="null"):
        CallCache(tmp_path / "a\0b.sqlite")
    (tmp_path / "text.sqlite").write_text("this is a text, and long enough to be seen as one" * 20)
    with pytest.raises(RunError, match="STEPSCORE_CACHE"):
        CallCache(tmp_path / "text.sqlite")


@pytest.mark.parametrize(
    "table", ["CREATE TABLE songs (title TEXT)", "CREATE TABLE calls (number TEXT, seconds INTEGER)"]
)
def test_another_programs_database_is_left_as_it_is(tmp_path: Path, table: str) -> None:
    path = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.execute(table)
    before = path.read_bytes()
    with pytest.raises(RunError, match="another program"):
        CallCache(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "value",
    [
        b"\0",
        zlib.compress(b'{"text": "cut'),
        zlib.compress(b"[1]"),
        zlib.compress(b"5"),
        zlib.compress(b"[" * 100_000),
        zlib.compress(b'{"tokens_in": 1' + b"0" * 5000 + b"}"),
        zlib.compress(b'{"text": "whole"}')[:-6],
        zlib.compress(b" " * (MAX_VALUE_BYTES + 1) + b"{}", 9),
        "text",
        7,
    ],
)
def test_a_value_that_cannot_be_read_is_none_and_makes_room(tmp_path: Path, value: object) -> None:
    cache = CallCache(tmp_path / "c.sqlite")
    with closing(sqlite3.connect(tmp_path / "c.sqlite", isolation_level=None)) as db:
        db.execute("INSERT INTO calls VALUES ('a', 'mock/x', '2026-01-01', ?)", (value,))
    assert list(cache.rows()) == []
    assert cache.stats()[0].calls == 1
    assert cache.get("a") is None
    cache.put("a", "mock/x", {"text": "again"})
    assert cache.get("a") == {"text": "again"}


def test_it_lies_where_the_user_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STEPSCORE_CACHE", str(tmp_path / "mine"))
    assert default_path() == tmp_path / "mine" / "calls.sqlite"
    monkeypatch.delenv("STEPSCORE_CACHE")
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_path() == tmp_path / "stepscore" / "calls.sqlite"
