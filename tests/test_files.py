"""A file appears under its name only when it is whole; a wrong field of a file is named."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import BaseModel, ValidationError, field_validator

from stepscore._files import atomic_path, write_json, write_parquet, write_text
from stepscore.errors import RunError, first_field_error


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_was_there_stays_until_the_new_file_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "before")
    with atomic_path(path) as temporary:
        temporary.write_text("half")
        assert temporary.parent == tmp_path
        assert path.read_text() == "before"
    assert path.read_text() == "half"
    assert names(tmp_path) == ["a.txt"]


def test_an_error_leaves_what_was_there_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "before")

    def fail() -> None:
        with atomic_path(path) as temporary:
            temporary.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert path.read_text() == "before"
    assert names(tmp_path) == ["a.txt"]


def test_two_writers_do_not_disturb_each_other(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with atomic_path(path) as first, atomic_path(path) as second:
        first.write_text("first")
        second.write_text("second")
    assert path.read_text() == "first"  # the last to finish
    assert names(tmp_path) == ["a.txt"]


def test_a_folder_is_made_only_if_asked_for_and_the_error_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"Cannot write .*new/a\.txt: No such file"):
        write_text(tmp_path / "new" / "a.txt", "x")
    write_text(tmp_path / "new" / "a.txt", "x", make_folder=True)
    assert (tmp_path / "new" / "a.txt").read_text() == "x"
    with pytest.raises(RunError, match="Cannot write"):
        write_text(tmp_path / "new" / "a.txt" / "b.txt", "x", make_folder=True)


def test_a_device_or_pipe_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for path in (pipe, link):
        with pytest.raises(RunError, match=rf"Cannot write .*{path.name}: it is a named pipe, not a file"):
            write_text(path, "new")
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    assert link.is_symlink()


def test_json_and_parquet_are_read_back(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"b": "é", "a": [1.5]}, sort_keys=True)
    assert (tmp_path / "a.json").read_text(encoding="utf-8").startswith('{\n  "a": [')
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8")) == {"a": [1.5], "b": "é"}
    table = pa.table({"x": [1, 2]})
    write_parquet(tmp_path / "a.parquet", table)
    assert pq.read_table(tmp_path / "a.parquet").equals(table)


class Entry(BaseModel):
    views: dict[str, int] | str = ""
    fps: float

    @field_validator("fps")
    @classmethod
    def positive(cls, value: float) -> float:
        if value <= 0:
            raise ValueError("it must be positive")
        return value


@pytest.mark.parametrize(
    ("value", "field", "message", "kind"),
    [
        ({}, "fps", "Field required", "missing"),
        ({"fps": 0}, "fps", "it must be positive", "value_error"),
        ({"fps": 1, "views": {"top": "x"}}, "views.top", "Input should be a valid integer", "int_parsing"),
        ([], "", "Input should be a valid dictionary", "model_type"),
    ],
)
def test_the_first_wrong_field_is_named_without_the_names_of_types(
    value: object, field: str, message: str, kind: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        Entry.model_validate(value)
    first = first_field_error(caught.value)
    assert (first.field, first.kind) == (field, kind)
    assert first.message.startswith(message)
