"""The board of judges: a table that sorts, trivial judges and others' figures apart, and the Pareto front."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import expect

from stepscore.report import write_board_report
from tests.report.planted_boards import planted_board
from tests.web.conftest import Watched, faults
from tests.web.showcase import HOSTILE


def written(folder: Path, text: str = "") -> str:
    return write_board_report(planted_board(folder / "board", text), folder / "page.html").as_uri()


def test_the_table_sorts_and_keeps_trivial_judges_apart(
    tmp_path: Path, watched: Callable[..., Watched]
) -> None:
    seen = watched()
    page = seen.goto(written(tmp_path))
    expect(page.locator("h1")).to_have_text("5 judges on sim-12")
    rows = page.locator(".judges-table tbody tr")

    def order() -> list[str | None]:
        return [row.get_attribute("data-judge") for row in rows.all()]

    assert order() == ["careful", "cheap", "beaten", "claimed", "mute", "clock"]
    page.get_by_role("button", name="success AUC").press("Enter")
    assert order() == ["beaten", "claimed", "cheap", "careful", "mute", "clock"]
    page.get_by_role("button", name="tokens a video").click()
    assert order()[0] in ("cheap", "mute")
    assert order()[-1] == "clock"
    expect(rows.filter(has_text="claimed by somebody")).to_have_count(1)
    expect(rows.filter(has_text="it gives no curve")).to_have_count(1)
    assert page.locator(".pareto circle.on").count() == 2
    expect(page.locator(".published")).to_contain_text("measured by others on other data")
    assert seen.errors == []


def test_no_text_of_a_board_becomes_markup(tmp_path: Path, watched: Callable[..., Watched]) -> None:
    seen = watched()
    page = seen.goto(written(tmp_path, HOSTILE))
    assert HOSTILE.strip() in page.locator("h1").inner_text()
    assert page.evaluate("() => window.hacked") is None
    assert page.locator("main script, main img").count() == 0
    assert seen.errors == []


@pytest.mark.parametrize(("colours", "width"), [("light", 1280), ("dark", 390)])
def test_the_view_has_no_serious_fault_and_fits(
    colours: str, width: int, tmp_path: Path, watched: Callable[..., Watched], axe: str
) -> None:
    page = watched(viewport={"width": width, "height": 844}, color_scheme=colours).goto(written(tmp_path))
    assert faults(page, axe) == []
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
