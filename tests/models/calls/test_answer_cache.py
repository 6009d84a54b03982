from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stepscore.errors import RunError
from stepscore.models.calls.answer_cache import CallCache, default_path


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
    with pytest.raises(RunError, match="--no-cache"):
        CallCache(tmp_path / "file" / "c.sqlite")
    cache = CallCache(tmp_path / "c.sqlite")
    cache.put("a", "mock/x", {"text": "x"})
    sqlite3.connect(tmp_path / "c.sqlite").executescript("UPDATE calls SET value = x'00'")
    with pytest.raises(RunError, match="STEPSCORE_CACHE"):
        cache.get("a")


def test_it_lies_where_the_user_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STEPSCORE_CACHE", str(tmp_path / "mine"))
    assert default_path() == tmp_path / "mine" / "calls.sqlite"
    monkeypatch.delenv("STEPSCORE_CACHE")
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_path() == tmp_path / "stepscore" / "calls.sqlite"
