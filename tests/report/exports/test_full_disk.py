"""An export to a disk that is full ends in one line, whatever a library writes in the background."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from stepscore.cli.main import run as command
from stepscore.report.exports.pump import pumped
from tests.report.made_runs import write_run
from tests.runs.test_full_disk import Disk, disk

__all__ = ["disk"]

DEV_FD = pytest.mark.skipif(not Path("/dev/fd").is_dir(), reason="no pipes by path here")


@pytest.mark.parametrize("size", [4096, 60_000])
def test_an_export_to_a_full_disk_is_one_line_and_leaves_nothing(
    size: int, disk: Disk, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("rerun")
    run = write_run(tmp_path / "run", 20, steps=300)
    folder = disk(size)
    line = ["export", str(run.path), "--to", "rerun", "-o"]
    assert command([*line, str(folder / "a.rrd")]) == 2
    said = [one for one in capfd.readouterr().err.splitlines() if one.strip()]
    assert said[-1] == f"Error: Cannot write {folder / 'a.rrd'}: No space left on device."
    assert not [one for one in said[:-1] if "error" in one.lower()]
    assert not list(folder.iterdir())
    assert command([*line, str(tmp_path / "a.rrd")]) == 0


@DEV_FD
def test_what_cannot_be_kept_is_taken_all_the_same() -> None:
    written = list[int]()

    def write() -> None:
        with pumped(Path("/dev/full")) as (target, check):
            with target.open("wb", buffering=0) as file:
                written.extend(file.write(bytes(1 << 16)) for _ in range(50))
            while True:
                check()

    with pytest.raises(OSError, match="No space left") as raised:
        write()
    assert raised.value.errno == errno.ENOSPC
    assert sum(written) == 50 << 16


@DEV_FD
def test_what_is_written_arrives_whole(tmp_path: Path) -> None:
    content = bytes(range(256)) * 9999
    with pumped(tmp_path / "a") as (target, check), target.open("wb") as file:
        file.write(content)
        check()
    assert (tmp_path / "a").read_bytes() == content
