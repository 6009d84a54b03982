"""``run.json`` from anywhere: what is missing is unknown, what is wrong is named, and its format is honoured."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import stepscore
from stepscore.errors import RunError
from stepscore.runs.run_info import FORMAT, MAX_BYTES, read_info, write_info
from tests.fakes import episode

PROTOCOL = {"judge": {"name": "constant", "version": 1, "options": {}}, "model": None, "views": None}


def write(folder: Path, info: object) -> None:
    (folder / "run.json").write_text(json.dumps(info))


def test_a_folder_without_one_has_none(tmp_path: Path) -> None:
    assert read_info(tmp_path) is None
    assert read_info(tmp_path / "missing") is None


def test_all_but_the_protocol_may_be_missing(tmp_path: Path) -> None:
    write(tmp_path, {"protocol": PROTOCOL})
    info = read_info(tmp_path)
    assert info is not None
    assert (info["source"], info["reader"], info["status"], info["last"]) == ("", "", "unknown", {})


def test_commands_read_a_run_whose_info_has_nothing_but_the_protocol(tmp_path: Path) -> None:
    from stepscore.cli.main import run

    judged = stepscore.score(
        [episode("a", policy="p"), episode("b", policy="q")],
        stepscore.get_judge("constant"),
        out=tmp_path / "r",
    )
    write(judged.path, {"protocol": judged.info["protocol"]})
    assert run(["metrics", str(judged.path), "--json"]) == 0
    assert run(["report", str(judged.path), "-o", str(tmp_path / "page")]) == 0


@pytest.mark.parametrize("number", [FORMAT + 1, 99, 10**18])
def test_a_newer_format_is_refused(number: int, tmp_path: Path) -> None:
    write(tmp_path, {"format": number, "protocol": "of another shape"})
    with pytest.raises(RunError, match=rf"has format {number}; .* reads formats up to {FORMAT}"):
        read_info(tmp_path)


@pytest.mark.parametrize("number", [0, -1, "1", 1.0, True, None, [1], {}, "\x1b[31m" * 1000])
def test_a_format_that_is_no_number_is_refused(number: object, tmp_path: Path) -> None:
    write(tmp_path, {"format": number, "protocol": PROTOCOL})
    with pytest.raises(RunError, match="invalid format") as caught:
        read_info(tmp_path)
    assert len(str(caught.value)) < 1000
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("number", [FORMAT + 1, "x"])
def test_no_command_goes_past_a_format_it_does_not_know(
    number: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from stepscore.cli.main import run

    judged = stepscore.score([episode("a")], stepscore.get_judge("constant"), out=tmp_path / "r").path
    info = json.loads((judged / "run.json").read_text())
    write(judged, {**info, "format": number})
    before = {path.name: path.read_bytes() for path in judged.iterdir()}
    for words in (
        ["metrics", judged],
        ["compare", judged],
        ["report", judged, "-o", tmp_path / "out"],
        ["view", judged],
        ["plot", judged, "-o", tmp_path / "out"],
        ["weights", judged, "-o", tmp_path / "w.parquet", "--method", "filter"],
        ["calibrate", judged, "-o", tmp_path / "c.json"],
    ):
        assert run([str(word) for word in words]) == 2, words
        printed = capsys.readouterr()
        assert "format" in printed.err.splitlines()[-1], words
        assert printed.out == ""
    assert {path.name: path.read_bytes() for path in judged.iterdir()} == before
    assert not (tmp_path / "out").exists()


def described(folder: Path) -> tuple[str, str]:
    """Return how a run is shown, or the message of the error."""
    try:
        run = stepscore.open_run(folder)
    except RunError as error:
        return "", str(error)
    return repr(run) + run._repr_html_(), ""


ODD: tuple[Any, ...] = (None, 3, -1, True, 1e400, "\ud800", "x", [], [[]], {"a": 1}, 10**30, {"name": 3})


@pytest.mark.parametrize(
    "path",
    [
        *(("source",), ("reader",), ("status",), ("created",), ("selected",), ("versions",), ("last",)),
        *(("last", "seconds"), ("last", "failed"), ("versions", "numpy"), ("spent",), ("workers",)),
        *(
            ("protocol",),
            ("protocol", "judge"),
            ("protocol", "judge", "name"),
            ("protocol", "judge", "options"),
        ),
        *(
            ("protocol", "judge", "version"),
            ("protocol", "model"),
            ("protocol", "views"),
            ("protocol", "new"),
        ),
    ],
    ids=".".join,
)
def test_an_odd_value_is_taken_or_the_field_is_named(path: tuple[str, ...], tmp_path: Path) -> None:
    judged = stepscore.score([episode("a")], stepscore.get_judge("constant"), out=tmp_path / "r").path
    whole = (judged / "run.json").read_text()
    for odd in ODD:
        info = json.loads(whole)
        inner = info
        for name in path[:-1]:
            inner = inner.setdefault(name, {})
        inner[path[-1]] = odd
        write(judged, info)
        shown, message = described(judged)
        if message:
            assert str(judged / "run.json") in message, odd
            assert path[0] in message or "integer" in message, odd
            assert "\n" not in message
        else:
            assert "episodes=1" in shown


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"3", b"null", b'"x"', b"\xff", b"[" * 100_000, b"{}"])
def test_what_is_no_run_json_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(RunError, match=r"run\.json"):
        read_info(tmp_path)


@pytest.mark.parametrize("kind", ["pipe", "folder", "huge", "dangling link"])
def test_what_is_no_file_is_refused_at_once(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    elif kind == "huge":
        with file.open("wb") as opened:
            opened.truncate(MAX_BYTES + 1)
    else:
        file.symlink_to(tmp_path / "none")
    with pytest.raises(RunError, match=r"run\.json"):
        read_info(tmp_path)


def test_what_a_killed_process_left_is_removed_by_the_next_writer(tmp_path: Path) -> None:
    (tmp_path / ".run.json.0011aabb.tmp").write_text("half")
    write_info(tmp_path, {"protocol": PROTOCOL})
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]
