from __future__ import annotations

from stepscore.cli.judging.progress_bar import _rate


def test_a_rate_is_a_number_of_a_few_digits_and_unknown_at_first() -> None:
    assert [_rate(speed) for speed in (None, 0.0, 0.05, 2.04, 310.0)] == [
        "",
        "",
        "3.0 a minute",
        "2.0 a second",
        "310.0 a second",
    ]
