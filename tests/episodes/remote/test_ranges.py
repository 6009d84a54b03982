"""Ranges of remote files, and how much of them is kept."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import fsspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscore.episodes.remote.cache import CacheLimit, cache_limit
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


def test_a_file_that_is_used_meanwhile_stays(
    stored: list[RemoteFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in stored:
        os.utime(f"{file.fetch_all()}.ranges", (time.time() - 300,) * 2)
    limit = CacheLimit(stored[0].path.parents[1], 1.0)
    listed = list(limit.kept())
    stored[1].fetch([(0, 10)])  # between looking through the folder and removing, someone reads one of them
    monkeypatch.setattr(limit, "kept", lambda: listed)
    assert limit.trim() == 2 * stored[0].size
    assert [file.is_whole() for file in stored] == [False, True, False]


def test_a_file_larger_than_the_limit_is_read_and_goes_when_another_is(
    stored: list[RemoteFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEPSCORE_REMOTE_CACHE_GB", str(0.5 * stored[0].size / 1e9))
    assert stored[0].fetch_all().read_bytes() == bytes(range(256)) * 400
    os.utime(f"{stored[0].path}.ranges", (time.time() - 300,) * 2)
    stored[1].fetch([(0, 20_000)])
    assert [file.is_whole() for file in stored[:2]] == [False, False]
    assert cache_limit().size() == 20_000


def test_a_file_that_is_removed_while_it_is_fetched_is_begun_anew(
    stored: list[RemoteFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepscore.episodes.remote.ranges.REQUEST_BYTES", 40_000)
    file, plain, removals = stored[0], RemoteFile._download, iter([False, True, False, False, False])

    def slow(self: RemoteFile, parts: list[Range]) -> list[bytes]:
        if next(removals):  # a store so slow that the file counts as unused meanwhile
            CacheLimit(file.path.parents[1], 1.0, in_use_s=-1).trim()
        return plain(self, parts)

    monkeypatch.setattr(RemoteFile, "_download", slow)
    assert file.fetch_all().read_bytes() == bytes(range(256)) * 400
    assert file.is_whole()


def test_another_version_leaves_what_is_being_decoded(stored: list[RemoteFile]) -> None:
    with stored[0].fetch_all().open("rb") as opened:
        RemoteFile(stored[0].folder, stored[0].name, stored[0].size, "v2").fetch([(0, 10)])
        assert opened.read() == bytes(range(256)) * 400


def test_nothing_is_left_of_a_dataset_whose_files_are_all_removed(stored: list[RemoteFile]) -> None:
    folder = stored[0].path.parent
    for file in stored:
        file.fetch_all()
    (folder / ".files.json").write_text("{}")
    limit = CacheLimit(folder.parent, 1.0, in_use_s=-1)
    assert limit.trim() == 3 * stored[0].size
    assert not folder.exists()


READ_ALL = """
import sys, time
from stepscore.episodes.remote import cache_limit
from stepscore.episodes.remote import RemoteFile

limit, url, own = cache_limit(), sys.argv[1], int(sys.argv[2])
limit.in_use_s = 0.25
largest = 0
for turn in range(40):
    number = (turn + own) % 40
    file = RemoteFile(url, f"{number}.bin", 100_000, "v1")
    for _ in range(20):
        try:
            content = file.fetch_all().read_bytes()
        except FileNotFoundError:  # on a busy machine, a quarter of a second may pass in between
            continue
        break
    assert content == bytes([number]) * 100_000, f"file {number} is wrong"
    largest = max(largest, limit.size())
    time.sleep(0.03)
print(largest)
"""


def test_two_processes_keep_one_limit_and_read_right(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    for number in range(40):
        (tmp_path / "store" / f"{number}.bin").write_bytes(bytes([number]) * 100_000)
    environment = {
        **os.environ,
        "STEPSCORE_CACHE": str(tmp_path / "cache"),
        "STEPSCORE_REMOTE_CACHE_GB": str(300_000 / 1e9),
    }
    command = [sys.executable, "-c", READ_ALL, f"file://{(tmp_path / 'store').as_posix()}"]
    both = [
        subprocess.Popen([*command, own], env=environment, stdout=subprocess.PIPE, text=True)
        for own in ("0", "20")
    ]
    largest = [int(process.communicate(timeout=120)[0]) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    # Beyond the limit are the files in use: of each process, those of a quarter of a second.
    assert max(largest) < 3_000_000 < 40 * 100_000
    limit = CacheLimit(tmp_path / "cache" / "remote", 300_000, in_use_s=0)
    limit.trim()
    assert 0 < limit.size() <= 300_000


@pytest.mark.parametrize("text", ["0", "-1", "much", "nan", "inf"])
def test_a_limit_that_is_none_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPSCORE_REMOTE_CACHE_GB", text)
    with pytest.raises(OptionError, match="expected gigabytes"):
        cache_limit()
