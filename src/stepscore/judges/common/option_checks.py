"""Checks of a judge's options: which values are allowed, with one message for each kind of option."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, TypeAlias, get_args

from stepscore.errors import OptionError, UnknownNameError

OptionCheck: TypeAlias = Callable[[str, object], None]
"""Takes an option's name and value; raises OptionError where the value is not allowed."""


def check_options(judge: object, **checks: OptionCheck) -> None:
    """Check options of a judge.

    Args:
        judge: Has each option as an attribute.
        checks: The check of each option, by its name: ``frames=whole(2), fps=optional(positive())``.
    """
    for name, check in checks.items():
        check(name, getattr(judge, name))


def whole(least: int) -> OptionCheck:
    """Return a check that allows whole numbers from ``least``."""
    return _number(
        f"a whole number of at least {least}", lambda v: isinstance(v, Integral) and int(v) >= least
    )


def positive() -> OptionCheck:
    """Return a check that allows finite numbers above 0."""
    return _number("a number above 0 and finite", lambda v: 0 < v < math.inf)


def at_least(least: float) -> OptionCheck:
    """Return a check that allows finite numbers from ``least``."""
    return _number(f"a number of at least {least:g} and finite", lambda v: least <= v < math.inf)


def within(low: float, high: float) -> OptionCheck:
    """Return a check that allows numbers from ``low`` to ``high``, both included."""
    return _number(f"a number in {low:g}..{high:g}", lambda v: low <= v <= high)


def below_one() -> OptionCheck:
    """Return a check that allows numbers from 0 to below 1."""
    return _number("a number from 0 to below 1", lambda v: 0 <= v < 1)


def one_of(choices: object) -> OptionCheck:
    """Return a check that allows the values of a ``Literal``."""

    def check(name: str, value: object) -> None:
        if value not in get_args(choices):
            raise OptionError(str(UnknownNameError(name, str(value), get_args(choices))))

    return check


def optional(check: OptionCheck) -> OptionCheck:
    """Return a check that allows ``None`` besides what ``check`` allows."""
    return lambda name, value: None if value is None else check(name, value)


def _number(allowed: str, is_allowed: Callable[[Any], bool]) -> OptionCheck:
    def check(name: str, value: object) -> None:
        if isinstance(value, bool) or not isinstance(value, Real) or not is_allowed(value):
            raise OptionError(f"{name} is {value!r}; it must be {allowed}.")

    return check
