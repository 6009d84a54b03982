"""Text, JSON and YAML from anywhere: limits, and errors that name file and field."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from stepscore._untrusted import parse_json, parse_yaml, read_bytes, read_json, read_text, read_yaml
from stepscore.errors import SourceError


def refused(text: str, parse: object = parse_json) -> str:
    with pytest.raises(SourceError) as raised:
        parse(text, "FILE", SourceError)  # type: ignore[operator]
    return str(raised.value)


def test_ordinary_values_are_read_as_json_reads_them() -> None:
    text = json.dumps({"a": [1, -2.5, None, True, "ü"], "b": {"c": 2**63 - 1, "d": -(2**63)}})
    assert parse_json(text, "FILE", SourceError) == json.loads(text)
    assert parse_json(text.encode(), "FILE", SourceError) == json.loads(text)


@pytest.mark.parametrize(
    "digits", [str(2**63), str(-(2**63) - 1), "1" + "0" * 30, "9" * 5000, "-" + "9" * 5000]
)
@pytest.mark.parametrize("parse", [parse_json, parse_yaml])
def test_an_integer_beyond_64_bits_is_refused_by_its_field(digits: str, parse: object) -> None:
    message = refused(f'{{"a": {{"b": [0, {digits}]}}}}', parse)
    assert message.startswith("FILE")
    assert "a.b.1" in message or "digits" in message


@pytest.mark.parametrize("depth", [101, 5000, 1_000_000])
@pytest.mark.parametrize("parse", [parse_json, parse_yaml])
def test_deep_nesting_is_refused(depth: int, parse: object) -> None:
    assert "nested more than 100 deep" in refused("[" * depth + "]" * depth, parse)


def test_nesting_below_the_limit_is_read() -> None:
    for parse in (parse_json, parse_yaml):
        assert parse("[" * 90 + "]" * 90, "FILE", SourceError)


def test_many_brackets_side_by_side_are_not_deep() -> None:
    assert len(parse_json("[" + ",".join(["[]"] * 1000) + "]", "FILE", SourceError)) == 1000


def test_yaml_aliases_are_followed_up_to_a_limit() -> None:
    assert parse_yaml("a: &x [1, 2]\nb: *x\n", "FILE", SourceError) == {"a": [1, 2], "b": [1, 2]}
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 60))
    assert "aliases stand for more than" in refused(bomb, parse_yaml)
    merges = "a0: &a0 {x: 1}\n" + "".join(
        f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}]}}\n" for i in range(1, 60)
    )
    assert "aliases stand for more than" in refused(merges, parse_yaml)


def test_an_alias_inside_itself_is_refused_by_its_line() -> None:
    assert refused("a: 1\nb: &x [*x]\n", parse_yaml).startswith(
        "FILE, line 2: the alias *x stands inside itself"
    )


@pytest.mark.parametrize(
    "text", ["a: 2024-13-40", "a: [1", "a: *nowhere", "a: !!python/name:os.system x", "\x00"]
)
def test_malformed_yaml_is_refused(text: str) -> None:
    assert refused(text, parse_yaml).startswith("FILE is not YAML (")


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, kind in [
        (tmp_path, "a folder"),
        (tmp_path / "pipe", "a named pipe"),
        (Path(os.devnull), "a device"),
    ]:
        with pytest.raises(SourceError, match=f"is {kind}, not a file"):
            read_bytes(path, SourceError)


@pytest.mark.parametrize("name", ["missing", "a\0b", "x" * 5000])
def test_a_path_that_leads_nowhere_is_one_short_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(SourceError, match="Cannot read") as raised:
        read_json(tmp_path / name, SourceError)
    assert len(str(raised.value)) < 500
    assert str(raised.value).isprintable()


def test_bytes_that_are_not_utf8_are_refused_by_their_line(tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_bytes(b"a: 1\nb: \xff\n")
    with pytest.raises(SourceError, match="line 2 is not UTF-8"):
        read_yaml(path, SourceError)


def test_no_more_than_the_limit_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 11)
    assert read_text(path, SourceError, max_bytes=11) == "x" * 11
    with pytest.raises(SourceError, match="more than 10 bytes"):
        read_text(path, SourceError, max_bytes=10)
