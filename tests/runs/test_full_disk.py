"""A disk of any small size: commands end in one line, and with room the same command gives the same tables."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stepscore.cli.main import run
from stepscore.runs.tables import TABLES
from stepscore.testing import write_toy_rollouts

Disk = Callable[[int], Path]
KIB = 1024


@pytest.fixture(scope="module")
def toys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_rollouts(tmp_path_factory.mktemp("toys"), scenes=2)


@pytest.fixture(scope="module")
def undisturbed(toys: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed") / "r"
    assert run(judge(toys, folder)) == 0
    return folder


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """A disk of so many bytes; called again, the same one with more room."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def mount(size: int) -> Path:
        again = ",remount" if os.path.ismount(folder) else ""
        line = ["mount", "-t", "tmpfs", "-o", f"size={size}{again}", "tmpfs", str(folder)]
        try:
            subprocess.run(line, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"NO SMALL DISK: tmpfs cannot be mounted here ({error}); full disks were not tested")
        return folder

    yield mount
    if os.path.ismount(folder):
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def judge(toys: Path, folder: Path) -> list[str]:
    return ["judge", str(toys), "--judge", "linear-time", "-o", str(folder)]


def tables(folder: Path) -> dict[str, bytes]:
    return {name: (folder / f"{name}.parquet").read_bytes() for name in TABLES if name != "usage"}


def last_error(printed: str) -> str:
    """Return the one line of an error."""
    assert "Traceback" not in printed
    lines = [line for line in printed.splitlines() if line.startswith(("Error", "Unexpected"))]
    assert len(lines) == 1, printed
    assert printed.splitlines()[-1] == lines[0]
    return lines[0]


@pytest.mark.parametrize("pages", [1, 2, 3, 5, 8, 12, 16, 20, 24, 32])
def test_judge_on_a_full_disk_resumes_to_the_same_tables(
    pages: int, disk: Disk, toys: Path, undisturbed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = disk(pages * 4 * KIB) / "r"
    code = run(judge(toys, folder))
    printed = capsys.readouterr().err
    if code:
        assert code == 2
        assert "No space left on device" in last_error(printed)
    else:
        assert pages > 12
    disk(8 << 20)
    assert run(judge(toys, folder)) == 0
    assert tables(folder) == tables(undisturbed)


def test_metrics_and_report_read_a_run_on_a_full_disk(
    disk: Disk, undisturbed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["metrics", str(undisturbed), "--json"]) == 0
    expected = capsys.readouterr().out
    mounted = disk(1 << 20)
    folder = mounted / "r"
    folder.mkdir()
    for name in ("run.json", "journal.jsonl"):
        shutil.copyfile(undisturbed / name, folder / name)
    with (mounted / "filler").open("wb", buffering=0) as filler, contextlib.suppress(OSError):
        for _ in range(1000):
            filler.write(bytes(4 * KIB))
    assert shutil.disk_usage(mounted).free == 0
    for _ in range(2):
        assert run(["metrics", str(folder), "--json"]) == 0
        assert capsys.readouterr().out == expected
    assert not (folder / "curves.parquet").exists()
    assert run(["report", str(folder), "-o", str(tmp_path / "page"), "--no-videos"]) == 0
    capsys.readouterr()
    for words in (
        ["report", str(folder), "-o", str(mounted / "page"), "--no-videos"],
        ["weights", str(folder), "-o", str(mounted / "w.parquet"), "--method", "filter"],
        ["report", str(undisturbed), "-o", str(mounted / "page"), "--copy-videos"],
    ):
        assert run(words) == 2, words
        assert "No space left on device" in last_error(capsys.readouterr().err), words
    (mounted / "filler").unlink()
    assert run(["metrics", str(folder), "--json"]) == 0
    assert tables(folder) == tables(undisturbed)
