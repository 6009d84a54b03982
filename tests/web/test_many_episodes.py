"""A page of many episodes draws only what is in sight and reads only what is asked for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stepscore.report import page_data, page_text
from tests.report.made_runs import write_run
from tests.web.conftest import Watched, elsewhere

EPISODES = 1500


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("many")
    run = write_run(folder / "run", EPISODES, steps=20, tasks=2, policies=2)
    page = folder / "page.html"
    page.write_text(elsewhere(lambda: page_text(page_data([run]))), encoding="utf-8")
    return page.as_uri()


def test_only_the_rows_in_sight_are_drawn_wherever_the_list_stands(
    address: str, watched: Callable[..., Watched]
) -> None:
    page = watched().goto(f"{address}#/explorer")
    assert page.locator(".counted").inner_text() == "1,500 episodes"
    assert 5 < page.locator(".list-row").count() < 60
    page.locator(".list").evaluate("list => { list.scrollTop = list.scrollHeight; }")
    page.wait_for_selector(f".list-row[aria-posinset='{EPISODES}']")
    assert page.locator(".list-row").count() < 60
    page.locator(f".list-row[aria-posinset='{EPISODES}']").click()
    name = page.locator(".list-row[aria-selected=true]").get_attribute("data-episode")
    assert page.locator("article").get_attribute("data-episode") == name


def test_the_first_view_decodes_nothing_and_no_column_is_decoded_twice(
    address: str, watched: Callable[..., Watched]
) -> None:
    seen = watched()
    seen.page.add_init_script(
        """const read = atob;
           window.decoded = [];
           window.atob = (text) => { window.decoded.push(text.length); return read(text); };"""
    )
    page = seen.goto(f"{address}#/leaderboard")
    assert page.evaluate("() => window.decoded.length") == 0
    page.evaluate("() => { location.hash = '#/explorer'; }")
    page.wait_for_selector("article")
    decoded = page.evaluate("() => window.decoded.length")
    assert decoded > 0
    row = page.locator(".list-row[aria-selected=true]").get_attribute("aria-posinset")
    page.keyboard.press("n")
    page.wait_for_selector(f".list-row[aria-posinset='{int(row or 0) + 1}'][aria-selected=true]")
    assert page.evaluate("() => window.decoded.length") == decoded


def test_many_curves_are_thinned_out_but_counted_in_the_median(
    address: str, watched: Callable[..., Watched]
) -> None:
    page = watched().goto(f"{address}#/process")
    captions = page.locator(".overlay figcaption").all_inner_texts()
    assert captions
    assert all("of 375 episodes drawn" in caption for caption in captions)
