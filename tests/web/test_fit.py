"""Every view fits its window, at desktop and phone width, light and dark; the docs show each of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.paths import DOCS
from tests.web.conftest import Report, Watched
from tools import screenshots

VIEWS = {
    "overview": "overview",
    "leaderboard": "leaderboard?sort=MP",
    "subgoals": "subgoals",
    "process": "process",
    "explorer": "explorer/watcher/hasty%2Fred_00/34",
}
SIZES = {"desktop": (1360, 860), "phone": (390, 844)}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("colours", ["light", "dark"])
def test_every_view_fits_its_window(
    size: str, colours: str, showcase: Report, watched: Callable[..., Watched]
) -> None:
    width, height = SIZES[size]
    seen = watched(viewport={"width": width, "height": height}, color_scheme=colours)
    for view, path in VIEWS.items():
        page = seen.goto(f"{showcase.address}#/{path}")
        page.wait_for_selector(f"main.view-{view} h1")
        page.evaluate(
            "() => document.querySelectorAll('main details').forEach((one) => { one.open = true; })"
        )
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), view
        ground = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        assert (sum(int(part) for part in ground[4:-1].split(",")) < 200) == (colours == "dark")
    assert seen.errors == []


def test_all_tabs_are_seen_on_a_narrow_phone(showcase: Report, watched: Callable[..., Watched]) -> None:
    page = watched(viewport={"width": 360, "height": 740}).goto(f"{showcase.address}#/overview")
    assert page.locator("nav a").count() == 5
    widths = page.locator("nav").evaluate("(nav) => [nav.scrollWidth, nav.clientWidth]")
    assert widths[0] <= widths[1]


def test_the_docs_show_a_screenshot_of_every_view_at_both_widths_in_both_colours() -> None:
    names = {
        f"{view}-{size}-{colours}.webp"
        for view in (*screenshots.VIEWS, *screenshots.OTHER_PAGES)
        for size in screenshots.SIZES
        for colours in screenshots.COLOURS
    }
    assert set(screenshots.VIEWS) >= set(VIEWS)
    assert {path.name for path in screenshots.IMAGES.iterdir()} == names
    text = (DOCS / "results" / "report.md").read_text(encoding="utf-8")
    assert [name for name in sorted(names) if f"images/report/{name})" not in text] == []
    assert sum((screenshots.IMAGES / name).stat().st_size for name in names) < 3_000_000
