"""A number about a judge's answers, with what it is called in tables and in JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stepscore.types import Estimate


@dataclass(frozen=True)
class Measure:
    """One number.

    Attributes:
        metric: Its name in JSON: ``consistency:order``.
        title: What a person reads.
        code: Its number in the published list of definitions, M1 to M5 and R1 to R5; empty for others.
        ideal: The value of a perfect judge, in words; empty where there is none.
        estimate: The number with its interval.
        group: What else tells it from others of its name.
    """

    metric: str
    title: str
    code: str
    ideal: str
    estimate: Estimate
    group: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self, judge: str, by: str) -> dict[str, Any]:
        """Return its row of JSON."""
        return estimate_row({"judge": judge, "by": by, **self.group}, self.metric, self.estimate)


def estimate_row(group: Mapping[str, str], metric: str, e: Estimate) -> dict[str, Any]:
    """Return an estimate as a row of JSON."""
    return {"group": dict(group), "metric": metric, **e.to_dict()}


def counted(value: float, n: int, method: str) -> Estimate:
    """Return a number that is counted, not estimated: it has no interval."""
    return Estimate(value, math.nan, math.nan, n, n, 1.0 if n else math.nan, method)
