from __future__ import annotations

from collections.abc import Mapping

import pytest

from stepscore.errors import OptionError
from stepscore.judges import get_judge
from stepscore.runs.protocol import Protocol, canonical_json, protocol_of


def test_equal_settings_have_equal_hashes_whatever_their_order() -> None:
    assert Protocol({"a": 1, "b": {"c": 2, "d": 3}}).hash == Protocol({"b": {"d": 3, "c": 2}, "a": 1}).hash


def test_an_option_changes_the_hash() -> None:
    assert protocol_of(get_judge("linear-time")).hash != protocol_of(get_judge("linear-time", points=5)).hash


def test_views_change_the_hash() -> None:
    judge = get_judge("linear-time")
    assert len({protocol_of(judge, v).hash for v in (None, ["top"], ["top", "wrist"], ["wrist", "top"])}) == 4


def test_differences_are_sentences() -> None:
    ours, theirs = Protocol({"judge": {"points": 1}, "x": "a"}), Protocol({"judge": {"points": 2}})
    assert ours.differences(theirs) == ["judge.points is 1, not 2", 'x is "a", not absent']
    assert ours.differences(ours) == []


def test_a_long_value_is_told_by_its_beginning() -> None:
    ours, theirs = Protocol({"map": list(range(100))}), Protocol({"map": list(range(1, 100))})
    (said,) = ours.differences(theirs)
    assert said.startswith("map is [0, 1, 2,")
    assert "…, not [1, 2, 3," in said
    assert len(said) < 120


def test_nan_is_refused() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json({"x": float("nan")})


def test_an_option_that_is_no_json_value_is_named() -> None:
    class Odd:
        name = "odd"
        models = ()
        version = 1

        def options(self) -> Mapping[str, object]:
            return {"x": object()}

    with pytest.raises(OptionError, match="'odd' has an option that is not a JSON value"):
        protocol_of(Odd())  # type: ignore[arg-type]
