"""A figure of the model card: an estimate, its target and what trivial judges reach."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from stepscore.metrics.stats import mean_estimate, statistic_estimate
from stepscore.types import Estimate

BASELINES = ("length alone", "linear time", "constant")
RESAMPLES = 1000
HELD_OUT_GROUP = "Held-out tasks, gate off"
"""Beginning of the headings of figures on tasks that were never trained."""


@dataclass(frozen=True)
class Figure:
    """One number.

    Attributes:
        group: Heading under which it stands.
        name: Name, unique in its group.
        estimate: Its value, interval and n.
        target: Target; ``None`` for a number that is only reported.
        at_most: The target is an upper bound.
        baselines: Values of judges that look at no image, by name.
        note: Remark for the reader.
    """

    group: str
    name: str
    estimate: Estimate
    target: float | None = None
    at_most: bool = False
    baselines: Mapping[str, float] = field(default_factory=dict)
    note: str = ""

    @property
    def mark(self) -> str:
        """``pass`` or ``short`` of the target, ``unknown`` without a value, empty without a target."""
        if self.target is None:
            return ""
        value = self.estimate.value
        if math.isnan(value):
            return "unknown"
        return "pass" if (value <= self.target if self.at_most else value >= self.target) else "short"

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Figure:
        """Return the figure of a :meth:`row`."""
        estimate = Estimate(
            value=_known(row["value"]),
            lo=_known(row["lo"]),
            hi=_known(row["hi"]),
            coverage=_known(row["coverage"]),
            n=row["n"],
            clusters=row["clusters"],
            method=row["method"],
        )
        baselines = {name: _known(value) for name, value in row["baselines"].items()}
        return cls(row["group"], row["name"], estimate, row["target"], row["at_most"], baselines, row["note"])

    def row(self) -> dict[str, Any]:
        """As JSON values; null where not known."""
        e = self.estimate
        return {
            "group": self.group,
            "name": self.name,
            **{end: number(getattr(e, end)) for end in ("value", "lo", "hi", "coverage")},
            "n": e.n,
            "clusters": e.clusters,
            "method": e.method,
            "target": self.target,
            "at_most": self.at_most,
            "mark": self.mark,
            "baselines": {name: number(value) for name, value in self.baselines.items()},
            "note": self.note,
        }


def number(value: float) -> float | None:
    """A JSON number; null where it is not known."""
    return float(value) if math.isfinite(value) else None


def _known(value: float | None) -> float:
    return math.nan if value is None else value


def plain(value: float, n: int, method: str = "") -> Estimate:
    """A number without an interval."""
    return Estimate(
        value, math.nan, math.nan, n=n, clusters=n, coverage=1.0 if n else math.nan, method=method
    )


def average(values: ArrayLike, units: Units) -> Estimate:
    """Mean over episodes, scenes as clusters and tasks as strata."""
    return mean_estimate(values, clusters=units.pairs, strata=units.tasks)


def over_points(
    func: Callable[..., float],
    columns: Sequence[Sequence[ArrayLike]],
    units: Units,
    *,
    resamples: int = RESAMPLES,
) -> Estimate:
    """A statistic over all points of all episodes, with an interval that resamples scenes.

    Args:
        func: Takes one array a column, over points.
        columns: For each column, an array for each episode.
        units: The episodes.
        resamples: Bootstrap replicates.

    Returns:
        The estimate; its n is of episodes.
    """
    lengths = [len(np.asarray(values)) for values in columns[0]]
    if not sum(lengths):
        return plain(math.nan, 0, "no known values")
    flat = tuple(np.concatenate([np.asarray(v, dtype=np.float64) for v in column]) for column in columns)
    pairs = np.repeat(np.array(units.pairs, dtype=object), lengths)
    tasks = np.repeat(np.array(units.tasks, dtype=object), lengths)
    found = statistic_estimate(
        func, flat, clusters=pairs.tolist(), strata=tasks.tolist(), resamples=resamples
    )
    return replace(found, n=len(lengths))


@dataclass(frozen=True)
class Units:
    """Scene and task of each episode of a figure."""

    pairs: Sequence[str | None]
    tasks: Sequence[str]

    @classmethod
    def of(cls, rows: Iterable[Any]) -> Units:
        """Those of scored episodes."""
        kept = list(rows)
        return cls([row.pair for row in kept], [row.task for row in kept])


def write_json(path: Path, figures: Sequence[Figure], about: Mapping[str, Any]) -> None:
    """Write all figures and how they were made."""
    content = {**about, "figures": [figure.row() for figure in figures]}
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def read_json(path: Path) -> tuple[list[Figure], dict[str, Any]]:
    """Read the figures of a file and how they were made; both empty where there is no file."""
    if not path.is_file():
        return [], {}
    about = json.loads(path.read_text(encoding="utf-8"))
    return [Figure.of_row(row) for row in about.pop("figures")], about


def markdown(figures: Sequence[Figure]) -> str:
    """Tables for the model card, one a group."""
    parts = []
    for group, members in groupby(figures, key=lambda figure: figure.group):
        rows = list(members)
        based = [name for name in BASELINES if any(name in row.baselines for row in rows)]
        parts += [f"### {group}", "", _line(["figure", "value", "n", "target", "", *based])]
        parts.append("|" + "---|" * (5 + len(based)))
        parts += [_line(_cells(row, based)) for row in rows]
        parts += ["", *(f"- {row.name}: {row.note}" for row in rows if row.note), ""]
    return "\n".join(parts).rstrip() + "\n"


def _cells(figure: Figure, based: Sequence[str]) -> list[str]:
    e = figure.estimate
    ends = f" [{e.lo:.3f}, {e.hi:.3f}]" if math.isfinite(e.lo) and math.isfinite(e.hi) else ""
    n = f"{e.n}" if e.clusters in (0, e.n) else f"{e.n} ({e.clusters} scenes)"
    sign = "≤" if figure.at_most else "≥"
    target = "" if figure.target is None else f"{sign} {figure.target:g}"
    others = [_shown(figure.baselines[name]) if name in figure.baselines else "" for name in based]
    return [figure.name, _shown(e.value) + ends, n, target, figure.mark, *others]


def _shown(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3f}"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
