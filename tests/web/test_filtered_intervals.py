"""A task and a success filter together: the page computes the numbers, and they are those of `metrics`."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepscore.analysis import grouped_estimates, measure_episodes
from stepscore.report import page_data, page_text
from stepscore.runs import Run
from stepscore.types import Estimate
from tests.report.made_runs import write_run
from tests.web.conftest import Watched, elsewhere

Cells = dict[tuple[str, str], Any]

CELLS = """() => {
  const heads = [...document.querySelectorAll("table.board thead th")].map((head) => head.dataset.metric);
  const number = (text) => (text === undefined ? null : Number(text));
  return [...document.querySelectorAll("table.board tbody tr")].flatMap((row) =>
    [...row.cells].flatMap((cell, at) => {
      const { value, lo, hi, n } = cell.dataset;
      return value === undefined ? [] : [[row.dataset.policy, heads[at], ...[value, lo, hi, n].map(number)]];
    }),
  );
}"""


def shown(seen: Watched, page: Path) -> Cells:
    """The cells of a task among failures by label: value, ends, n."""
    opened = seen.goto(f"{page.as_uri()}#/leaderboard?task=task%200&success=label0&columns=all")
    return {(policy, metric): rest for policy, metric, *rest in opened.evaluate(CELLS)}


def made(folder: Path, change: Callable[[int, dict[str, Any]], None] | None = None) -> tuple[Path, Run]:
    run = write_run(folder / "run", 160, steps=20, tasks=2, policies=2, change=change)
    page = folder / "page.html"
    page.write_text(elsewhere(lambda: page_text(page_data([run]))), encoding="utf-8")
    return page, run


def expected(run: Run) -> dict[tuple[str, str], Estimate]:
    found = elsewhere(lambda: grouped_estimates(measure_episodes([run]), ("task", "policy")))
    return {
        (str(m.group["policy"]), m.metric.removesuffix("|failure:label")): m.estimate
        for m in found
        if m.group["task"] == "task 0" and m.metric.endswith("|failure:label")
    }


def test_rates_have_the_very_interval_and_means_one_within_the_noise_of_its_draws(
    tmp_path: Path, watched: Callable[..., Watched]
) -> None:
    page, run = made(tmp_path)
    cells, right = shown(watched(), page), expected(run)
    bootstrapped = 0
    assert len(cells) > 20
    for key, (value, lo, hi, n) in cells.items():
        estimate = right[key]
        assert n == estimate.n
        assert value == pytest.approx(estimate.value, abs=1e-9)
        if math.isnan(estimate.lo):
            assert (lo, hi) == (None, None), (key, estimate)
            continue
        noisy = estimate.method.startswith(("BCa", "bootstrap-t"))
        bootstrapped += noisy
        slack = 0.2 * (estimate.hi - estimate.lo) if noisy else 1e-9
        assert [lo, hi] == pytest.approx([estimate.lo, estimate.hi], abs=slack), (key, estimate)
    assert bootstrapped >= 5


def test_where_scenes_repeat_the_page_gives_no_interval(
    tmp_path: Path, watched: Callable[..., Watched]
) -> None:
    def share_scenes(number: int, record: dict[str, Any]) -> None:
        record["episode"]["pair"] = f"scene-{number // 16}"

    page, run = made(tmp_path, share_scenes)
    cells, right = shown(watched(), page), expected(run)
    assert any(estimate.clusters < estimate.n for estimate in right.values())
    for key, (value, lo, hi, n) in cells.items():
        assert (value, n) == (pytest.approx(right[key].value, abs=1e-9), right[key].n)
        if right[key].clusters < n:
            assert (lo, hi) == (None, None)
