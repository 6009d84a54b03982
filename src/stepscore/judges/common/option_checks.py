"""Checks of a judge's options: which values are allowed, with one message for each kind of option."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, TypeAlias, get_args

from stepscore.errors import OptionError, UnknownNameError

OptionCheck: TypeAlias = Callable[[str, object], None]
"""Takes an option's name and value; raises OptionError where the value is not allowed."""

MOST = 100_000
"""Most frames, points or tokens of an option, so that a typo cannot fill the memory."""


def check_options(judge: object, **checks: OptionCheck) -> None:
    """Check the options of a judge: ``frames=whole(2), fps=optional(frame_rate())``."""
    for name, check in checks.items():
        check(name, getattr(judge, name))


def whole(least: int, most: int = MOST) -> OptionCheck:
    """Return a check that allows integers from ``least`` to ``most``."""
    return _number(
        f"an integer from {least} to {most}",
        lambda v: isinstance(v, Integral) and least <= int(v) <= most,
    )


def positive(most: float = 1e9) -> OptionCheck:
    """Return a check that allows numbers above 0, up to ``most``."""
    return _number(f"a number above 0 and at most {most:g}", lambda v: 0 < v <= most)


def at_least(least: float, most: float = 1e9) -> OptionCheck:
    """Return a check that allows numbers from ``least`` to ``most``."""
    return _number(f"a number of at least {least:g} and at most {most:g}", lambda v: least <= v <= most)


def frame_rate() -> OptionCheck:
    """Return a check that allows frames per second: above 0, up to 1000."""
    return positive(1000)


def image_size() -> OptionCheck:
    """Return a check that allows the longer side of an image in pixels, and ``None`` for the recorded size."""
    return optional(whole(1, 8192))


def seed() -> OptionCheck:
    """Return a check that allows 64-bit integers, as servers do."""
    return whole(-(2**63), 2**63 - 1)


def boolean() -> OptionCheck:
    """Return a check that allows true and false: a text such as "no" would count as true."""

    def check(name: str, value: object) -> None:
        if not isinstance(value, bool):
            raise OptionError(f"{name} must be true or false, got {value!r}.")

    return check


def text() -> OptionCheck:
    """Return a check that allows texts."""

    def check(name: str, value: object) -> None:
        if not isinstance(value, str):
            raise OptionError(f"{name} must be a text, got {value!r}.")

    return check


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
            raise OptionError(f"{name} must be {allowed}, got {value!r}.")

    return check
