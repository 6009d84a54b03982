"""How often a planted way of failing gets its right name.

    python -m benchmarks.tables.failure_modes [--curves 500]

Rows are the planted failure modes, columns those found, in percent. Levels, times, depths, paces, lengths and the
sampling are random; each curve carries judge noise of .01. The second table holds each rule against its
nearest neighbour: the feature that separates them, over the planted curves of both.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable

import numpy as np

from stepscore.metrics.failure_modes import FAILURE_MODE_RULES, failure_mode
from stepscore.types import FloatArray

Knots = list[tuple[float, float]]
NAMES = [rule.name for rule in FAILURE_MODE_RULES]
NEIGHBOURS = (
    ("early collapse", "regression", "lost_at", 0.4),
    ("regression", "last mile", "loss", 0.1),
    ("last mile", "stagnation", "peak", 0.75),
    ("stagnation", "none", "plateau", 0.33),
    ("inefficient success", "none", "efficiency", 0.6),
)


def stagnation(rng: np.random.Generator) -> Knots:
    """Gets somewhere below .7, then nothing more happens for 40 % of the time or longer."""
    level, start = rng.uniform(0.0, 0.7), rng.uniform(0.05, 0.55)
    pause = rng.uniform(0.4, 1 - start)
    return [(start, level), (start + pause, level), (1, min(level + rng.uniform(0, 0.05), 0.72))]


def regression(rng: np.random.Generator) -> Knots:
    """Gets to .4 or further after 43 % of the time or more, and loses .2 or more of it for good."""
    peak, start = rng.uniform(0.4, 0.95), rng.uniform(0.43, 0.9)
    low = rng.uniform(0.0, peak - 0.2)
    return [(start, peak), (start + rng.uniform(0.02, 0.08), low), (1, low + rng.uniform(0, 0.03))]


def early_collapse(rng: np.random.Generator) -> Knots:
    """Gets to .25 or further in the first third, loses .2 or more, and never comes back."""
    peak, start = rng.uniform(0.25, 0.8), rng.uniform(0.08, 0.32)
    low = rng.uniform(0.0, peak - 0.2)
    return [(start, peak), (start + rng.uniform(0.02, 0.08), low), (1, low + rng.uniform(0, 0.03))]


def last_mile(rng: np.random.Generator) -> Knots:
    """Gets to .78 or further and stays there."""
    level, start = rng.uniform(0.78, 0.95), rng.uniform(0.4, 0.9)
    return [(start, level), (1, level + rng.uniform(-0.05, 0.02))]


def inefficient(rng: np.random.Generator) -> Knots:
    """Succeeds after two or three falls of a quarter to a half."""
    falls = rng.integers(2, 4)
    times = np.linspace(0.15, 0.85, 2 * falls) + rng.uniform(-0.02, 0.02, 2 * falls)
    knots: Knots = []
    for up, down in times.reshape(-1, 2):
        peak = rng.uniform(0.6, 0.8)
        knots += [(float(up), peak), (float(down), peak - rng.uniform(0.25, 0.5))]
    return [*knots, (1, 1.0)]


def out_of_time(rng: np.random.Generator) -> Knots:
    """Rises steadily and is cut off at .25 to .7."""
    return [(1, rng.uniform(0.25, 0.7))]


def clean_success(rng: np.random.Generator) -> Knots:
    """Rises to 1 with at most one small fall."""
    dip = rng.uniform(0.0, 0.1)
    return [(0.5, 0.5), (0.6, 0.5 - dip), (rng.uniform(0.8, 1.0), 1.0), (1.01, 1.0)]


PLANTED: dict[str, tuple[str, bool, Callable[[np.random.Generator], Knots]]] = {
    "early collapse": ("early collapse", False, early_collapse),
    "regression": ("regression", False, regression),
    "last mile": ("last mile", False, last_mile),
    "stagnation": ("stagnation", False, stagnation),
    "inefficient success": ("inefficient success", True, inefficient),
    "out of time": ("none", False, out_of_time),
    "clean success": ("none", True, clean_success),
}


def draw(planted: str, rng: np.random.Generator, noise: float = 0.01) -> tuple[FloatArray, FloatArray]:
    """Times and progress of one curve with that mechanism, of 40 to 200 unevenly spaced samples."""
    knots = [(0.0, rng.uniform(0.0, 0.05)), *PLANTED[planted][2](rng)]
    times = np.cumsum(rng.uniform(0.5, 1.5, rng.integers(40, 201)))
    share = (times - times[0]) / (times[-1] - times[0])
    progress = np.interp(share, [t for t, _ in knots], [p for _, p in knots])
    return times, np.clip(progress + rng.normal(0.0, noise, len(times)), 0.0, 1.0)


def confusion(curves: int, seed: int = 0) -> dict[str, Counter[str]]:
    """For each planted mechanism, how often each name was given."""
    names: dict[str, Counter[str]] = {}
    for index, (planted, (_, success, _make)) in enumerate(PLANTED.items()):
        rng = np.random.default_rng([seed, index])
        drawn = (draw(planted, rng) for _ in range(curves))
        names[planted] = Counter(failure_mode(p, t, success=success).name for t, p in drawn)
    return names


def feature_values(planted: str, feature: str, curves: int) -> FloatArray:
    rng = np.random.default_rng(2)
    success = PLANTED[planted][1]
    drawn = (draw(planted, rng) for _ in range(curves))
    return np.array([failure_mode(p, t, success=success).evidence[feature] for t, p in drawn])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--curves", type=int, default=500)
    curves = parser.parse_args().curves
    print(f"{'planted':20}" + "".join(f"{name:>21}" for name in [*NAMES, "none"]) + f"{'right':>8}")
    for planted, counts in confusion(curves).items():
        cells = "".join(f"{100 * counts[name] / curves:20.1f}%" for name in [*NAMES, "none"])
        print(f"{planted:20}{cells}{100 * counts[PLANTED[planted][0]] / curves:7.1f}%")
    print(
        f"\n{'rule':20} {'nearest neighbour':20} {'feature':11} {'bound':>5}  1st..99th percentile of either"
    )
    for name, other, feature, bound in NEIGHBOURS:
        rival = (
            ("clean success" if name == "inefficient success" else "out of time")
            if other == "none"
            else other
        )
        spans = [
            np.nanpercentile(feature_values(planted, feature, 200), [1, 99]) for planted in (name, rival)
        ]
        print(
            f"{name:20} {rival:20} {feature:11} {bound:5.2f}  "
            + "   ".join(f"{low:5.2f}..{high:4.2f}" for low, high in spans)
        )


if __name__ == "__main__":
    main()
