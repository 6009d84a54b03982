"""A Range header is read as RFC 9110 says."""

from __future__ import annotations

import pytest

from stepscore.server.byte_ranges import ByteRange, UnsatisfiableRangeError, parse_range


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("bytes=0-0", (0, 0)),
        ("bytes=0-", (0, 99)),
        ("bytes=5-9", (5, 9)),
        ("bytes=5-5000", (5, 99)),
        ("bytes=99-", (99, 99)),
        ("bytes=-1", (99, 99)),
        ("bytes=-100", (0, 99)),
        ("bytes=-5000", (0, 99)),
        ("Bytes= 1-2 ", (1, 2)),
        ("bytes=0-" + "9" * 400, (0, 99)),
    ],
)
def test_a_valid_range_is_parsed(header: str, expected: tuple[int, int]) -> None:
    assert parse_range(header, 100) == ByteRange(*expected)


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "bytes",
        "bytes=",
        "bytes=-",
        "bytes=a-b",
        "bytes=9-5",
        "items=0-5",
        "bytes=0-1,5-6",
        "bytes=٣-٤",
    ],
)
def test_anything_but_a_single_range_means_the_whole_file(header: str | None) -> None:
    assert parse_range(header, 100) is None


@pytest.mark.parametrize("header", ["bytes=100-", "bytes=100-200", "bytes=-0", "bytes=" + "9" * 400 + "-"])
def test_a_range_outside_the_file_is_unsatisfiable(header: str) -> None:
    with pytest.raises(UnsatisfiableRangeError):
        parse_range(header, 100)


def test_an_empty_file_has_no_range() -> None:
    for header in ("bytes=0-", "bytes=-5"):
        with pytest.raises(UnsatisfiableRangeError):
            parse_range(header, 0)
