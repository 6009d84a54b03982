"""A page of many episodes keeps curves in parts beside it, which it loads from disk when they are looked at."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect

from stepscore.analysis import measure_episodes
from stepscore.report import write_report
from stepscore.report.page import data, paging
from stepscore.report.page.paging import judgement_pages
from stepscore.runs import Run, open_run
from tests.report.made_runs import write_run
from tests.web.conftest import Watched, elsewhere
from tests.web.videos import served

EPISODES = 600


@pytest.fixture(scope="module")
def small_pages() -> Iterator[None]:
    """Every page has parts, of fifty episodes each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data, "MAX_BYTES", 0)
        patch.setattr(judgement_pages, "POINTS", 1000)
        patch.setattr(judgement_pages, "SAMPLE", 200)
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    def change(number: int, record: object) -> None:
        assert isinstance(record, dict)
        reached = "yes" if number % 3 else "no"
        goal = {"name": "lift", "criterion": "", "mode": None, "view": None, "reviewed": True, "label": None}
        record["episode"]["subgoals"] = [goal]
        record["episode"]["stages"] = [{"name": f"stage {number}", "start_s": 0.0, "end_s": 1.0}]
        verdict = {
            "subgoal": "lift",
            "answer": reached,
            "score": None,
            "when_s": None,
            "why": f"why {number}",
        }
        record["judgement"]["verdicts"] = [verdict]

    folder = tmp_path_factory.mktemp("paged")
    return write_run(
        folder / "run", EPISODES, steps=20, tasks=2, policies=2, channels=("raw",), change=change
    )


@pytest.fixture(scope="module")
def page(run: Run, small_pages: None) -> Path:
    return elsewhere(lambda: write_report([run], run.path.parent / "page"))


def late_episode(run: Run) -> tuple[str, float]:
    """An episode of the last page, and where its curve ends."""
    last = run.curves().to_pylist()[-1]
    return last["episode_id"], last["progress"]


def parts_of(seen: Watched) -> list[str]:
    return [address.rsplit("/", 1)[1] for address in seen.requests if "-data/" in address]


def test_an_episode_of_a_late_page_is_read_from_its_own_part_on_disk(
    page: Path, run: Run, watched: Callable[..., Watched]
) -> None:
    name, ends = late_episode(run)
    seen = watched()
    opened = seen.goto(f"{page.as_uri()}#/explorer/run/{name.replace('/', '%2F')}/19")
    opened.wait_for_selector("article")
    assert parts_of(seen) == ["run-0-page-11.js"]
    assert opened.locator("article").get_attribute("data-episode") == name
    expect(opened.locator(".lane.stages")).to_contain_text("stage")
    expect(opened.get_by_role("tabpanel")).to_contain_text("why")
    row = opened.locator(".list-row[aria-selected=true] .row-side")
    assert row.inner_text() == f"{100 * ends:.0f} %"
    opened.get_by_role("tab", name="Numbers").click()
    metrics = measure_episodes(open_run(run.path))
    at = [one["episode_id"] for one in metrics.episodes].index(name)
    shown = opened.locator("tr", has_text="MP").first.inner_text()
    assert f"{100 * metrics.values['MP'][at]:.1f}" in shown
    assert page.stat().st_size < 700_000
    assert seen.errors == []


def test_lists_search_sort_and_filter_over_all_episodes(
    page: Path, run: Run, watched: Callable[..., Watched]
) -> None:
    metrics = measure_episodes(open_run(run.path))
    ids = np.array([one["episode_id"] for one in metrics.episodes])
    seen = watched()
    opened = seen.goto(f"{page.as_uri()}#/explorer?sort=PPL")
    opened.wait_for_selector("article")
    opened.locator(".list").evaluate("list => { list.scrollTop = 0; }")
    opened.wait_for_selector(".list-row[aria-posinset='1']")
    first = opened.locator(".list-row[aria-posinset='1']").get_attribute("data-episode")
    best = metrics.values["PPL"]
    assert best[ids.tolist().index(first)] == np.nanmax(best)
    opened.get_by_label("id, task, policy, instruction").fill("00599")
    expect(opened.locator(".counted")).to_have_text("1 episode")
    opened.evaluate("() => { location.hash = '#/explorer?subgoal=lift&answer=no'; }")
    expect(opened.locator(".counted")).to_have_text("200 episodes")
    opened.evaluate("() => { location.hash = '#/explorer?success=label0&policy=policy-0'; }")
    failed = sum(not one["success"] and one["policy"] == "policy-0" for one in metrics.episodes)
    expect(opened.locator(".counted")).to_have_text(f"{failed} episodes")
    assert seen.errors == []


def test_every_view_of_a_paged_report_shows_what_the_whole_one_shows(
    page: Path, run: Run, watched: Callable[..., Watched], tmp_path: Path
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data, "MAX_BYTES", 1e9)
        whole = elsewhere(lambda: write_report([run], tmp_path / "whole"))
    assert not (tmp_path / "whole" / "index-data").exists()
    of_whole, of_paged = watched(), watched()
    for view in ("overview", "leaderboard", "leaderboard?task=*&success=label1", "subgoals"):
        opened = of_whole.goto(f"{whole.as_uri()}#/{view}")
        opened.wait_for_selector("main h1")
        expected = opened.locator("main").inner_text()
        opened = of_paged.goto(f"{page.as_uri()}#/{view}")
        opened.wait_for_selector("main h1")
        for _ in range(100):  # the view before it stays until its parts are loaded
            if opened.locator("main").inner_text() == expected:
                break
            opened.wait_for_timeout(50)
        assert opened.locator("main").inner_text() == expected
    assert of_whole.errors == of_paged.errors == []
    opened = watched().goto(f"{page.as_uri()}#/process")
    expect(opened.locator("main")).to_contain_text("Of 200 episodes spread over all")


def test_a_page_without_its_folder_says_so(
    page: Path, tmp_path: Path, watched: Callable[..., Watched]
) -> None:
    shutil.copy(page, tmp_path / "index.html")
    opened = watched().goto(f"{(tmp_path / 'index.html').as_uri()}#/leaderboard")
    opened.evaluate("() => { location.hash = '#/explorer'; }")
    expect(opened.get_by_role("alert")).to_contain_text("move both or neither")


def test_a_served_page_asks_its_server_for_parts(
    run: Run, small_pages: None, watched: Callable[..., Watched]
) -> None:
    name, _ = late_episode(run)
    with served(run.path) as address:
        seen = watched()
        opened = seen.goto(f"{address}#/explorer/run/{name.replace('/', '%2F')}/19")
        opened.wait_for_selector("article")
        assert [one for one in seen.requests if "/parts/" in one] == [f"{address}parts/1-run-0-page-11"]
        opened.keyboard.press("p")
        opened.wait_for_selector("article")
        assert seen.errors == []


def test_a_part_is_found_by_its_name_alone(tmp_path: Path) -> None:
    parts = paging.ServedParts()
    parts.begin()
    assert parts.read(parts.write("run-0-page-0", {"x": 1})) == b'{"x":1}'
    for name in ("", "1-../../etc/passwd", "../1-run-0-page-0", "x-run-0-page-0", "1-run-0-page-1"):
        assert parts.read(name) is None
