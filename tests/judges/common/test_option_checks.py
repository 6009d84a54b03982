"""An option that is not allowed is refused with its name, its value and what is allowed."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Literal

import numpy as np
import pytest

from stepscore.errors import OptionError
from stepscore.judges.common.option_checks import (
    OptionCheck,
    at_least,
    below_one,
    check_options,
    one_of,
    optional,
    positive,
    whole,
    within,
)

Form = Literal["published", "json"]


def check(value: object, allowed: OptionCheck) -> bool:
    """True where the value is allowed; else the check raises."""
    check_options(SimpleNamespace(fps=value), fps=allowed)
    return True


@pytest.mark.parametrize(
    ("value", "allowed"),
    [
        (2, whole(2)),
        (np.int64(3), whole(2)),
        (0.5, positive()),
        (7, positive()),
        (0, at_least(0)),
        (0, within(0, 1)),
        (1.0, within(0, 1)),
        (0.0, below_one()),
        ("json", one_of(Form)),
        (None, optional(positive())),
        (2.0, optional(positive())),
    ],
)
def test_what_is_allowed_passes(value: object, allowed: OptionCheck) -> None:
    assert check(value, allowed)


@pytest.mark.parametrize(
    ("value", "allowed", "message"),
    [
        (1, whole(2), "fps must be an integer from 2 to 100000, got 1."),
        (2.5, whole(2), "fps must be an integer from 2 to 100000, got 2.5."),
        (True, whole(0), "fps must be an integer from 0 to 100000, got True."),
        ("3", whole(0), "fps must be an integer from 0 to 100000, got '3'."),
        (None, whole(0), "fps must be an integer from 0 to 100000, got None."),
        (0, positive(), "fps must be a number above 0 and at most 1e+09, got 0."),
        (math.inf, positive(), "fps must be a number above 0 and at most 1e+09, got inf."),
        (math.nan, at_least(0), "fps must be a number of at least 0 and at most 1e+09, got nan."),
        (1.5, within(0, 1), "fps must be a number in 0..1, got 1.5."),
        (math.nan, within(0, 1), "fps must be a number in 0..1, got nan."),
        (1, below_one(), "fps must be a number from 0 to below 1, got 1."),
        ("jsn", one_of(Form), "Unknown fps 'jsn'. Did you mean 'json'? Valid: json, published."),
        (3, one_of(Form), "Unknown fps '3'. Valid: json, published."),
        (["json"], one_of(Form), "Valid: json, published."),
        (-1, optional(positive()), "fps must be a number above 0 and at most 1e+09, got -1."),
    ],
)
def test_anything_else_is_refused(value: object, allowed: OptionCheck, message: str) -> None:
    with pytest.raises(OptionError) as refused:
        check(value, allowed)
    assert message in str(refused.value)
