"""Cells of a printed table: the number, and how a person reads it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepscore.types import Estimate

UNKNOWN = "–"
"""What a cell shows where nothing is known."""


@dataclass(frozen=True)
class Cell:
    """One cell: a text, or a number as text with its interval.

    Attributes:
        text: What a person reads: ``"87.5"``, ``"open the drawer"``.
        bounds: The interval as text: ``("52.9", "97.8")``; ``None`` without one.
        note: A note on this cell: ``"n 7 (58 %)"``.
        bold: Whether it is emphasized.
        metric: The name that ``--json`` has for the number; empty for a text.
        value: The number itself, in the units of ``--json``; NaN where unknown, ``None`` for a text.
        lo: Lower end of its interval.
        hi: Upper end of its interval.
        bare: Whether it is an estimate whose sample is too small for an interval.
        parts: The cells whose texts it shows side by side, ``100 / 50``; empty for one number.
    """

    text: str
    bounds: tuple[str, str] | None = None
    note: str = ""
    bold: bool = False
    metric: str = ""
    value: float | None = None
    lo: float = math.nan
    hi: float = math.nan
    bare: bool = False
    parts: tuple[Cell, ...] = ()


def text_cell(text: str | None, *, bold: bool = False) -> Cell:
    """Return a cell with a text; ``None`` is shown as unknown."""
    return Cell("unknown" if text is None else text, bold=bold)


def count_cell(count: int, metric: str = "") -> Cell:
    """Return a cell with a count."""
    return Cell(str(count), metric=metric, value=float(count))


def number_cell(value: float, form: str, metric: str = "", *, unknown: str = UNKNOWN) -> Cell:
    """Return a cell with a number, written by a format such as ``".2f"``."""
    return Cell(unknown if not math.isfinite(value) else format(value, form), metric=metric, value=value)


def percent_cell(value: float, digits: int = 1, metric: str = "") -> Cell:
    """Return a cell with a share, in percent."""
    return Cell(percent(value, digits), metric=metric, value=value)


def percent(value: float, digits: int = 1) -> str:
    """Return ``0.62`` as ``62.0``, without a sign where it rounds to 0; a dash where the value is unknown."""
    return UNKNOWN if not math.isfinite(value) else f"{100 * value:z.{digits}f}"


def seconds(value: float) -> str:
    """Return ``2.5`` as ``2.50``; a dash where the value is unknown."""
    return UNKNOWN if not math.isfinite(value) else f"{value:.2f}"


def estimate_cell(
    estimate: Estimate | None,
    n: int | None = None,
    metric: str = "",
    *,
    text: Callable[[float], str] = percent,
) -> Cell:
    """Return a cell with an estimate in percent, and its own n and coverage where they are not the row's.

    Args:
        estimate: The estimate; a dash if there is none.
        n: Episodes of the row, which it states once; ``None`` where n needs no saying.
        metric: The name that ``--json`` has for it.
        text: Writes the value and its ends, where they are no shares.
    """
    if estimate is None:
        return Cell(UNKNOWN)
    e = estimate
    known = bool(e.n) and math.isfinite(e.lo) and math.isfinite(e.hi)
    return Cell(
        text(e.value) if e.n else UNKNOWN,
        (text(e.lo), text(e.hi)) if known else None,
        "" if n is None or (e.n == n and not e.coverage < 1) else own_n(e),
        metric=metric,
        value=e.value,
        lo=e.lo,
        hi=e.hi,
        bare=bool(e.n) and math.isfinite(e.value) and not known,
    )


def own_n(estimate: Estimate) -> str:
    """Return an estimate's n, and its coverage in percent where some values are unknown."""
    unknown = f" ({_share(estimate.coverage)} %)" if estimate.coverage < 1 else ""
    return f"n {estimate.n}{unknown}"


def _share(coverage: float) -> str:
    # 99.7 % is not all.
    return f"{100 * coverage:.0f}" if coverage < 0.995 else f"{100 * coverage:.1f}"


def group_name(group: Mapping[str, str | None]) -> str:
    """Return a group's name: ``"pi0 / gvl"``, ``"unknown"``, or ``"all"`` for one group of all."""
    return " / ".join("unknown" if part is None else str(part) for part in group.values()) or "all"
