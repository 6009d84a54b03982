"""Ranges of remote files, and how much of them is kept."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import fsspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscore.episodes.remote.cache_limit import CacheLimit, cache_limit
from stepscore.episodes.remote.ranges import Range, RemoteFile, _requests, merged_ranges, missing_ranges
from stepscore.errors import OptionError

RANGES = st.lists(st.tuples(st.integers(-5, 60), st.integers(-5, 60)), max_size=6)
SIZE = 50


def as_set(ranges: list[Range]) -> set[int]:
    return {at for start, end in ranges for at in range(max(0, start), min(SIZE, end))}


@given(RANGES)
def test_merged_ranges_are_the_same_bytes_in_order_and_apart(ranges: list[Range]) -> None:
    merged = merged_ranges(ranges, SIZE)
    assert as_set(merged) == as_set(ranges)
    flat = [edge for part in merged for edge in part]
    assert flat == sorted(set(flat))


@given(RANGES, RANGES)
def test_missing_ranges_are_what_is_wanted_and_not_held(wanted: list[Range], held: list[Range]) -> None:
    parts = missing_ranges(merged_ranges(wanted, SIZE), merged_ranges(held, SIZE))
    assert as_set(parts) == as_set(wanted) - as_set(held)


@given(st.lists(st.integers(1, 40), max_size=5), st.integers(1, 16))
def test_requests_are_bounded_and_complete(lengths: list[int], most: int) -> None:
    ranges, at = [], 0
    for length in lengths:
        ranges.append((at, at + length))
        at += length + 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stepscore.episodes.remote.ranges.REQUEST_BYTES", most)
        batches = list(_requests(ranges))
    assert all(sum(end - start for start, end in batch) <= most for batch in batches)
    flat = [at for batch in batches for start, end in batch for at in range(start, end)]
    assert flat == [at for start, end in ranges for at in range(start, end)]


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[RemoteFile]:
    monkeypatch.setenv("STEPSCORE_CACHE", str(tmp_path / "cache"))
    store = fsspec.filesystem("memory")
    files = []
    for number in range(3):
        content = bytes(range(256)) * 400
        store.pipe_file(f"/bucket/set/{number}.bin", content)
        files.append(RemoteFile("memory://bucket/set", f"{number}.bin", len(content), "v1"))
    return files


def test_threads_that_fetch_one_file_at_once_leave_it_right(stored: list[RemoteFile]) -> None:
    file = stored[0]
    threads = [
        threading.Thread(target=file.fetch, args=([(at, at + 20_000)],)) for at in range(0, file.size, 10_000)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert file.is_whole()
    assert file.path.read_bytes() == bytes(range(256)) * 400


def test_the_files_time_follows_its_version_alone(stored: list[RemoteFile]) -> None:
    file = stored[0]
    file.fetch([(0, 10)])
    first = file.path.stat().st_mtime_ns
    file.fetch([(50_000, 50_010)])
    assert file.path.stat().st_mtime_ns == first
    newer = RemoteFile(file.folder, file.name, file.size, "v2")
    assert not newer.is_whole()
    newer.fetch([(0, 10)])
    assert newer.path.stat().st_mtime_ns != first
    assert newer.path.read_bytes()[50_000:50_010] == bytes(10)  # what was fetched of the other is gone


def test_files_used_longest_ago_are_removed_and_fetched_again(stored: list[RemoteFile]) -> None:
    for age, file in zip((300, 200, 100), stored, strict=True):
        path = file.fetch_all()
        os.utime(f"{path}.ranges", (time.time() - age,) * 2)
    limit = CacheLimit(stored[0].path.parents[1], 2.5 * stored[0].size, in_use_s=0)
    assert limit.size() == 3 * stored[0].size
    assert limit.trim() == stored[0].size
    assert [file.is_whole() for file in stored] == [False, True, True]
    assert limit.trim() == 0
    stored[0].fetch_all()
    assert stored[0].path.read_bytes() == bytes(range(256)) * 400


def test_files_in_use_stay(stored: list[RemoteFile]) -> None:
    for file in stored:
        file.fetch_all()
    assert CacheLimit(stored[0].path.parents[1], 1.0).trim() == 0
    assert all(file.is_whole() for file in stored)


def test_fetching_keeps_within_the_limit(stored: list[RemoteFile], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPSCORE_REMOTE_CACHE_GB", str(1.5 * stored[0].size / 1e9))
    monkeypatch.setattr(cache_limit(), "in_use_s", -1.0)
    for file in stored:
        file.fetch_all()
        time.sleep(0.01)
    assert [file.is_whole() for file in stored] == [False, False, True]


@pytest.mark.parametrize("text", ["0", "-1", "much", "nan", "inf"])
def test_a_limit_that_is_none_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPSCORE_REMOTE_CACHE_GB", text)
    with pytest.raises(OptionError, match="expected gigabytes"):
        cache_limit()
