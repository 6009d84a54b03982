"""Every command on a folder that is no run, or a damaged one: one line, exit code 2, and nothing is changed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from stepscore.cli.main import run
from stepscore.runs.tables import TABLES


def empty_folder(path: Path, toys: Path) -> None:
    path.mkdir()


def text_file(path: Path, toys: Path) -> None:
    path.write_text("text")


def missing(path: Path, toys: Path) -> None:
    pass


def dataset(path: Path, toys: Path) -> None:
    shutil.copytree(toys, path)


def info_of_another_program(path: Path, toys: Path) -> None:
    path.mkdir()
    (path / "run.json").write_text('{"name": "experiment 3", "status": "done"}')
    (path / "journal.jsonl").write_text('{"loss": 0.1}\n')


def nothing_judged(path: Path, toys: Path) -> None:
    path.mkdir()
    protocol = {"judge": {"name": "constant", "version": 1, "options": {}}}
    (path / "run.json").write_text(json.dumps({"format": 1, "protocol": protocol}))


def dangling_link(path: Path, toys: Path) -> None:
    path.symlink_to(path.with_name("nowhere"))


def lines_of_another_program(path: Path, toys: Path) -> None:
    nothing_judged(path, toys)
    (path / "journal.jsonl").write_text('{"loss": 0.1}\n')


KINDS = (
    *(empty_folder, text_file, missing, dataset, info_of_another_program, nothing_judged, dangling_link),
    lines_of_another_program,
)


def commands(folder: Path, out: Path) -> list[list[str]]:
    path = str(folder)
    return [
        ["metrics", path],
        ["metrics", path, "--json"],
        ["compare", path],
        ["report", path, "-o", str(out)],
        ["view", path],
        ["plot", path, "-o", str(out)],
        ["weights", path, "-o", str(out / "w.parquet"), "--method", "rabc", "-W", "chunk-size=8"],
        ["rewards", path, "-o", str(out / "r.parquet")],
        ["calibrate", path, "-o", str(out / "c.json")],
    ]


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("make", KINDS)
def test_every_command_names_it_in_one_line(
    make: Callable[[Path, Path], None], toys: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = tmp_path / "folder", tmp_path / "out"
    make(folder, toys)
    before = files(tmp_path)
    for words in commands(folder, out):
        assert run(words) == 2, words
        printed = capsys.readouterr()
        lines = [line for line in printed.err.splitlines() if line != "Measuring …"]
        assert len(lines) == 1, (words, printed.err)
        assert lines[0].startswith("Error: "), words
        assert str(folder) in lines[0], words
        assert printed.out == "", words
    made = files(tmp_path)
    made.pop(str(folder / "tables.lock"), None)  # of what has a protocol the tables were to be made
    assert made == before
    assert not out.exists()


@pytest.mark.parametrize("make", [text_file, dataset, info_of_another_program, dangling_link])
def test_judge_leaves_what_is_no_run_alone(
    make: Callable[[Path, Path], None], toys: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path / "folder", toys)
    before = files(tmp_path)
    words = ["judge", str(toys), "--judge", "constant", "--limit", "1", "-o", str(tmp_path / "folder")]
    assert run(words) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("Error: ")
    assert files(tmp_path) == before


@pytest.mark.parametrize("name", ["journal.jsonl", "attempts.sqlite"])
def test_judge_does_not_write_through_a_link(
    name: str, toys: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["judge", str(toys), "--judge", "constant", "--limit", "2", "-o", str(tmp_path / "r")]
    assert run(words) == 0
    outside = tmp_path / "the user's own"
    outside.write_text("no newline at its end")
    (tmp_path / "r" / name).unlink(missing_ok=True)
    (tmp_path / "r" / name).symlink_to(outside)
    capsys.readouterr()
    assert run(words) == 2
    assert "is a link, and the file it points to would be changed" in capsys.readouterr().err.splitlines()[-1]
    assert outside.read_text() == "no newline at its end"


@pytest.mark.parametrize("name", TABLES)
def test_a_table_that_is_damaged_stops_no_command(
    name: str, toy_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(toy_run, tmp_path / "r"))
    assert run(["metrics", str(folder), "--json"]) == 0
    expected = capsys.readouterr().out
    table = folder / f"{name}.parquet"
    table.write_bytes(table.read_bytes()[:100])
    assert run(["metrics", str(folder), "--json"]) == 0
    assert capsys.readouterr().out == expected


@pytest.mark.parametrize("path", ["a\x00b", "x" * 5000, "\udcff", "", "a\nb\x1b[31m"])
def test_odd_paths_are_one_line(path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in commands(Path(path), tmp_path / "out"):
        words = [path if word == str(Path(path)) else word for word in words]
        assert run(words) == 2, words
        lines = [line for line in capsys.readouterr().err.splitlines() if line != "Measuring …"]
        assert len(lines) == 1, words
        assert "\x1b" not in lines[0]
