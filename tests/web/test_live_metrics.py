"""The values beside the video are those of opd_prefixes at the cursor, in every revision shown."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

from stepscore.metrics.opd import opd_prefixes
from stepscore.report import page_data, page_text
from tests.report.made_runs import write_run
from tests.web.conftest import Watched, elsewhere

Curves = tuple[str, list[tuple[str, np.ndarray, np.ndarray, np.ndarray]]]
STEPS = 60
METRICS = ("MC", "MP", "PPL", "CRA", "STR")
FINISHES = np.concatenate(
    [np.linspace(0, 1, 20), np.full(10, 0.95), [0.9, 0.8], np.linspace(0.8, 0.99, 8), np.full(20, 0.96)]
)
LIKELY = np.round(np.clip(np.sin(np.arange(STEPS) / 6) / 2 + 0.35, 0, 1), 3)
PROBABILITIES = {5: LIKELY.tolist(), 6: [*LIKELY[:44].tolist(), None, *LIKELY[45:].tolist()]}
# Steps through the episode by keyboard and reads the live table at some positions. Without a video each sample
# is a frame.
WALK = """(positions) => {
  const press = (key) => dispatchEvent(new KeyboardEvent("keydown", { key }));
  const frame = () => Number(document.querySelector("article").dataset.frame);
  press("Home");
  return positions.map((position) => {
    for (let tries = 0; frame() < position && tries < 1000; tries++) press("ArrowRight");
    return [...document.querySelectorAll(".live-table td")].map(
      ({ dataset }) => [dataset.revision, dataset.metric, dataset.value]);
  });
}"""


def _odd_curves(number: int, record: dict[str, Any]) -> None:
    """Episode 0 begins at time 0, 1 has an unknown sample, 2 swings wildly, 3 stands still.

    4 finishes, wavers, and goes on; 5 does so by its success probability, of which a sample is unknown in 6.
    """
    curve = record["judgement"]["curve"]
    if number == 0:
        curve["time_s"][0] = 0.0
    if number == 1:
        curve["progress"][40] = None
    if number == 2:
        curve["progress"] = np.random.default_rng(1).uniform(0, 1, STEPS).tolist()
    if number == 3:
        curve["progress"] = [0.25] * STEPS
    if number >= 4:
        curve["progress"] = FINISHES.tolist()
    curve["channels"] = {"success_probability": PROBABILITIES.get(number, [None] * STEPS)}


@pytest.fixture(scope="module")
def curves(tmp_path_factory: pytest.TempPathFactory) -> Curves:
    folder = tmp_path_factory.mktemp("live")
    run = write_run(folder / "run", 7, steps=STEPS, tasks=1, policies=1, change=_odd_curves)
    page = folder / "page.html"
    page.write_text(elsewhere(lambda: page_text(page_data([run]))), encoding="utf-8")
    table = run.curves().to_pydict()
    ids = np.array(table["episode_id"])
    times, progress = np.array(table["time_s"]), np.array(table["progress"], dtype=float)
    probability = np.array(table["success_probability"], dtype=float)
    chosen = [ids == name for name in sorted(set(ids))]
    return page.as_uri(), [(str(ids[own][0]), times[own], progress[own], probability[own]) for own in chosen]


def test_live_metrics_equal_opd_prefixes_at_twenty_positions_in_every_revision(
    curves: Curves, watched: Callable[..., Watched]
) -> None:
    address, episodes = curves
    page = watched().goto(address + "#/explorer")
    rng = np.random.default_rng(5)
    for name, times, progress, probability in episodes:
        page.locator(".list").press("Home")
        page.locator(f".list-row[data-episode='{name}']").click()
        page.wait_for_selector(f"article[data-episode='{name}']")
        expected = {rev: opd_prefixes(progress, rev, times) for rev in ("v1.0", "paper", "v1.5")}
        by = None if np.isnan(probability).all() else probability
        expected["robust"] = opd_prefixes(progress, "robust", times, success_probability=by)
        positions = sorted(rng.choice(STEPS, 20, replace=False).tolist())
        for i, cells in zip(positions, page.evaluate(WALK, positions), strict=True):
            assert len(cells) == 4 * len(METRICS)
            for revision, metric, text in cells:
                got = math.nan if text == "" else float(text)
                want = expected[revision][metric][i]
                np.testing.assert_allclose(got, want, atol=2e-9, err_msg=f"{name} {revision} {metric} at {i}")


def test_milestones_light_up_when_the_best_so_far_reaches_them(
    curves: Curves, watched: Callable[..., Watched]
) -> None:
    address, episodes = curves
    name, _, progress, _ = episodes[2]
    page = watched().goto(address + "#/explorer")
    page.locator(f".list-row[data-episode='{name}']").click()
    page.wait_for_selector(f"article[data-episode='{name}']")
    # The address follows a little later; changed before that, it would lead back to the episode before.
    page.wait_for_function("name => decodeURIComponent(location.hash).includes(name)", arg=name)
    for i in (0, 5, STEPS - 1):
        page.evaluate("i => { location.hash = location.hash.replace(/\\/\\d+$/, `/${i}`); }", i)
        page.wait_for_selector(f"article[data-frame='{i}']")
        reached = int(sum(progress[: i + 1].max() >= q for q in (0.25, 0.5, 0.75, 1.0)))
        # The panel is drawn with the next repaint of the screen, just after the frame's number.
        expect(page.locator(".milestones li.lit")).to_have_count(reached)
