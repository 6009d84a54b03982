"""The time to look at in a curve, and which failures come first."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepscore.analysis import measure_episodes, worst_failures, worst_time
from tests.analysis.findings.planted import planted

nan = float("nan")


@pytest.mark.parametrize(
    ("progress", "kind", "time_s", "text"),
    [
        ([0.0, 0.4, 0.9, 0.7, 0.2, 0.3], "undone", 4.0, "undone at 4.0 s"),
        ([0.0, 0.3, 0.31, 0.3, 0.32, 0.33], "stalls", 1.0, "stalls at 1.0 s"),
        ([0.01, 0.02, 0.02, 0.03, 0.03, 0.05], "stalls", 0.0, "stalls from the start"),
        ([0.0, 0.1, 0.2, 0.3, 0.4, 0.5], "ends", 5.0, "ends at 50 %"),
        ([0.0, 0.4, nan, 0.9, nan, 0.1], "undone", 5.0, "undone at 5.0 s"),
        ([0.0, 0.1, 0.2, 0.3, 0.4, nan], "ends", 4.0, "ends at 40 %"),
    ],
)
def test_the_time_is_the_largest_drop_else_the_longest_stall_else_the_end(
    progress: list[float], kind: str, time_s: float, text: str
) -> None:
    found = worst_time(np.arange(6.0), progress)
    assert found is not None
    assert (found.kind, found.time_s, found.text) == (kind, time_s, text)


def test_one_known_sample_has_no_worst_time() -> None:
    assert worst_time([0.0, 1.0], [nan, 0.4]) is None


@pytest.mark.parametrize("seed", range(20))
def test_the_drop_and_the_stall_are_those_of_the_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    progress = np.clip(np.cumsum(rng.normal(0.01, 0.03, 40)), 0, 1)
    times = np.cumsum(rng.uniform(0.1, 1.0, 40))
    found = worst_time(times, progress)
    assert found is not None
    falls = [max(progress[: i + 1]) - progress[i] for i in range(40)]
    if max(falls) >= 0.1:
        assert found.time_s == times[int(np.argmax(np.round(falls, 6)))]
        assert found.severity == pytest.approx(max(falls), abs=1e-6)
        return
    best = [max(progress[: i + 1]) for i in range(40)]
    spans = [(times[j] - times[i], -i) for i in range(40) for j in range(i, 40) if best[j] - best[i] <= 0.05]
    longest, start = max(spans)
    assert found.kind == ("stalls" if longest / (times[-1] - times[0]) >= 0.33 else "ends")
    assert found.time_s == (times[-start] if found.kind == "stalls" else times[-1])


def test_failures_are_spread_over_policies_and_tasks(tmp_path: Path) -> None:
    def undone(policy: str | None, i: int, record: dict[str, Any]) -> None:
        # Those of a are all deeper than those of b.
        low = 0.1 if policy == "a" else 0.4
        record["judgement"]["curve"]["progress"] = [*np.linspace(0, 0.9, 12), *np.linspace(0.85, low, 8)]

    run = planted(tmp_path / "run", {"a": [0] * 12, "b": [0] * 12, "c": [1] * 12}, tasks=3, change=undone)
    found = worst_failures(measure_episodes(run), 6)
    assert len(found) == 6
    assert found[0].policy == "a"
    assert Counter(failure.policy for failure in found) == {"a": 3, "b": 3}
    assert len({(failure.policy, failure.task) for failure in found}) == 6


def test_without_labels_failures_are_by_judge_and_without_curves_have_no_time(tmp_path: Path) -> None:
    def no_curve(policy: str | None, i: int, record: dict[str, Any]) -> None:
        record["judgement"].pop("curve")

    run = planted(tmp_path / "run", {"a": [0, 1, 0]}, labelled=False, change=no_curve)
    found = worst_failures(measure_episodes(run))
    assert [failure.text for failure in found] == ["fails, by judge"] * 2
    assert [failure.worst for failure in found] == [None, None]


def test_where_nothing_failed_there_is_nothing_to_show(tmp_path: Path) -> None:
    assert worst_failures(measure_episodes(planted(tmp_path / "run", {"a": [1, 1]}))) == ()
