"""The effect of sampling and judge noise on OPD v1.0 and on the robust revision, and what robust still finds.

    python -m benchmarks.tables.opd_robust [--data FOLDER]

FOLDER holds rollouts/<benchmark>/<task>/step_metrics.csv; without it there is no first table. The constants
of the revision were chosen on those curves, and not on the synthetic ones of the next two.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from stepscore.metrics import compute_opd
from stepscore.types import FloatArray

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
METRICS = ("MP", "MC", "PPL", "CRA", "STR")
NOISE = 0.01
JITTER = (0.005, 0.01, 0.02, 0.03, 0.05)
Drawn = tuple[FloatArray, FloatArray, FloatArray, float]


def real_curves(data: Path) -> list[FloatArray]:
    """The progress columns of the recorded rollouts; their rows are evenly spaced in time."""
    curves = []
    for path in sorted(data.glob("rollouts/*/*/step_metrics.csv")):
        with path.open(encoding="utf-8") as lines:
            curves.append(np.array([float(row["StepProgress"]) for row in csv.DictReader(lines)]))
    return curves


def synthetic_curves(count: int = 60, seed: int = 0) -> list[FloatArray]:
    """Rises with pauses and dips, as a judge answers in fractions k/q, at times a level off."""
    rng = np.random.default_rng(seed)
    curves = []
    for _ in range(count):
        length, levels = int(rng.integers(30, 90)), int(rng.integers(10, 36))
        times = np.linspace(0, 1, length)
        pace = np.interp(times, np.linspace(0, 1, 8), rng.uniform(0.2, 2.0, 8))
        for start in rng.uniform(0, 0.9, rng.integers(0, 4)):
            pace[(times >= start) & (times < start + rng.uniform(0.03, 0.2))] = 0.0
        progress = rng.uniform(0.2, 1.0) * pace.cumsum() / pace.sum()
        for start in rng.uniform(0.1, 0.95, rng.integers(0, 5)):
            progress[(times >= start) & (times < start + rng.uniform(0.02, 0.1))] -= rng.uniform(0.05, 0.3)
        off = rng.choice([-1, 0, 1], length, p=[0.1, 0.8, 0.1])
        curves.append(np.clip((np.round(progress * levels) + off) / levels, 0.0, 1.0))
    return curves


def jittery_curves(count: int = 60, seed: int = 0) -> list[FloatArray]:
    """Jerky rises under a judge whose answers are off by up to .2, anew at every sample: a hard case."""
    rng = np.random.default_rng(seed)
    curves = []
    for _ in range(count):
        length, levels = int(rng.integers(20, 90)), int(rng.integers(10, 36))
        pace = rng.gamma(0.5, 1.0, length)
        rise = rng.uniform(0.2, 1.0) * pace.cumsum() / pace.sum()
        size = rng.choice([0.0, 0.03, 0.1, 0.2], length, p=[0.6, 0.25, 0.1, 0.05])
        curves.append(np.clip(np.round((rise + size * rng.choice([-1, 1], length)) * levels) / levels, 0, 1))
    return curves


def movement(curves: Sequence[FloatArray], revision: str, seeds: int = 8) -> dict[str, dict[str, float]]:
    """Mean |change| of each metric when every second sample is dropped (both phases) and under noise."""
    changes: dict[str, dict[str, list[float]]] = {m: {"thinned": [], "noise": []} for m in METRICS}
    for index, curve in enumerate(curves):
        times = np.arange(1.0, len(curve) + 1)
        whole = compute_opd(curve, revision, times)
        variants = [("thinned", curve[phase::2], times[phase::2]) for phase in (0, 1)]
        for seed in range(seeds):
            noise = np.random.default_rng([index, seed]).normal(0.0, NOISE, len(curve))
            variants.append(("noise", np.clip(curve + noise, 0.0, 1.0), times))
        for kind, progress, clock in variants:
            value = compute_opd(progress, revision, clock)
            for metric in METRICS:
                changes[metric][kind].append(abs(value[metric] - whole[metric]))
    return {
        m: {kind: float(np.mean(values)) for kind, values in kinds.items()} for m, kinds in changes.items()
    }


def rank_agreement(curves: Sequence[FloatArray]) -> dict[str, float]:
    """Spearman correlation over the curves between v1.0 and robust, per metric."""
    old, new = ([compute_opd(curve, revision) for curve in curves] for revision in ("v1.0", "robust"))
    return {m: float(spearmanr([v[m] for v in old], [v[m] for v in new]).statistic) for m in METRICS}


def _rise(rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """A rise from 0 to .6..1 at a changing pace, as knots of share of work and progress."""
    pace = rng.uniform(0.5, 1.5, rng.integers(3, 8))
    return np.linspace(0, 1, len(pace) + 1), rng.uniform(0.6, 1.0) * np.append(0, pace.cumsum()) / pace.sum()


def planted_drops(steps: int, count: int, seed: int = 0) -> Iterator[Drawn]:
    """Times, a rise, the same with a fall of .1 to .3 held for 5 to 15 % of the time, and depth x share."""
    rng = np.random.default_rng(seed)
    times = np.linspace(0, 1, steps)
    for _ in range(count):
        knots, rise = _rise(rng)
        share = rng.uniform(0.05, 0.15)
        start = rng.uniform(0.3, 0.95 - share)
        height = float(np.interp(start, knots, rise))
        if height < 0.1:
            continue
        depth = rng.uniform(0.1, min(height, 0.3))
        clean = np.interp(times, knots, rise)
        yield (
            times,
            clean,
            np.where((times >= start) & (times < start + share), height - depth, clean),
            depth * share,
        )


def planted_stalls(steps: int, count: int, seed: int = 0) -> Iterator[Drawn]:
    """Times, a rise, the same frozen for 10 to 20 % of the time before it goes on, and that share."""
    rng = np.random.default_rng(seed)
    times = np.linspace(0, 1, steps)
    for _ in range(count):
        knots, rise = _rise(rng)
        share = rng.uniform(0.1, 0.2)
        start = rng.uniform(0.05, 0.9) * (1 - share)
        work = np.where(times < start, times, np.maximum(start, times - share)) / (1 - share)
        yield times, np.interp(times, knots, rise), np.interp(work, knots, rise), share


def found(metric: str, steps: int, *, noise: float, thinned: bool, count: int = 200) -> float:
    """Share of plants that raise the metric by at least a third of the planted value, noise and all."""
    plants = planted_drops if metric == "CRA" else planted_stalls
    rng = np.random.default_rng(1)
    hits = []
    for times, clean, planted, amount in plants(steps, count):
        keep = slice(int(rng.integers(2)), None, 2) if thinned else slice(None)
        error = rng.normal(0.0, noise, steps)
        before, after = (np.clip(p + error, 0, 1)[keep] for p in (clean, planted))
        rise = (
            compute_opd(after, "robust", times[keep])[metric]
            - compute_opd(before, "robust", times[keep])[metric]
        )
        hits.append(rise >= amount / 3)
    return float(np.mean(hits))


def known_traces(steps: int, count: int = 150, seed: int = 1) -> list[FloatArray]:
    """Rises of changing pace with up to three pauses; half of them finish, and stand at 1 from then on."""
    rng = np.random.default_rng(seed)
    times = np.linspace(0, 1, steps)
    traces = []
    for _ in range(count):
        pace = np.interp(times, np.linspace(0, 1, 6), rng.uniform(0.3, 1.7, 6))
        for start in rng.uniform(0, 0.8, rng.integers(0, 4)):
            pace[(times >= start) & (times < start + rng.uniform(0.05, 0.25))] = 0.0
        work = np.append(0.0, pace[1:].cumsum())
        top, end = (1.0, rng.uniform(0.7, 1.0)) if rng.random() < 0.5 else (rng.uniform(0.4, 0.9), 1.0)
        traces.append(np.minimum(np.interp(times / end, times, top * work / work[-1]), top))
    return traces


def stagnation_under_noise(revision: str, steps: int, noise: float, seed: int = 2) -> float:
    """Rank correlation of the STR of noisy traces with that of the same traces without noise."""
    rng = np.random.default_rng(seed)
    clean = known_traces(steps)
    noisy = [np.clip(trace + rng.normal(0.0, noise, steps), 0, 1) for trace in clean]
    values = [[compute_opd(trace, revision)["STR"] for trace in traces] for traces in (clean, noisy)]
    return float(spearmanr(*values, nan_policy="omit").statistic)


def print_stagnation_under_noise() -> None:
    print(
        "\nSTR of known traces with judge noise: rank correlation with STR of the clean trace, v1.0 / robust"
    )
    print(f"{'samples':>8}" + "".join(f"{f'noise {noise}':>16}" for noise in JITTER))
    for steps in (16, 32, 64, 128):
        cells = [[stagnation_under_noise(r, steps, noise) for r in ("v1.0", "robust")] for noise in JITTER]
        print(f"{steps:8d}" + "".join(f"{f'{old:.2f} / {new:.2f}':>16}" for old, new in cells))


def print_movement(title: str, curves: Sequence[FloatArray]) -> None:
    old, new, rho = movement(curves, "v1.0"), movement(curves, "robust"), rank_agreement(curves)
    columns = f"{'v1.0':>8} {'robust':>8} {'ratio':>7}"
    print(f"{title}\n{'':5} every second sample dropped     noise of {NOISE}              rank")
    print(f"{'':5} {columns}     {columns}  {'rho':>5}")
    for m in METRICS:
        cells = [
            f"{old[m][k]:8.4f} {new[m][k]:8.4f} {new[m][k] / old[m][k]:7.2f}" for k in ("thinned", "noise")
        ]
        print(f"{m:5} {cells[0]}     {cells[1]}  {rho[m]:5.2f}")
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    recorded = real_curves(parser.parse_args().data)
    if recorded:
        print_movement(f"{len(recorded)} recorded curves", recorded)
    print_movement("60 synthetic curves", synthetic_curves())
    print_movement("60 jittery curves", jittery_curves())
    print(f"planted and found     {'samples':>8} {'as is':>7} {'thinned':>8} {'noise':>7} {'both':>7}")
    for label, metric in (("drops >= .1, 5 %", "CRA"), ("stalls >= 10 %", "STR")):
        for steps in (50, 100, 200):
            rates = [found(metric, steps, noise=s, thinned=t) for s in (0.0, NOISE) for t in (False, True)]
            print(f"{label:21} {steps:8d} " + " ".join(f"{100 * r:6.1f}%" for r in rates))
    print_stagnation_under_noise()


if __name__ == "__main__":
    main()
