"""axe-core finds no serious fault in any view, light or dark, in a wide window or on a phone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.web.conftest import Report, Watched, faults
from tests.web.videos import served

VIEWS = ("overview", "leaderboard", "subgoals", "process", "explorer")
TABS = ("Verdicts", "Prompts and answers", "Numbers", "Episode")


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("colours", ["light", "dark"])
def test_no_view_has_a_serious_fault(
    colours: str, width: int, showcase: Report, watched: Callable[..., Watched], axe: str
) -> None:
    seen = watched(viewport={"width": width, "height": 844}, color_scheme=colours)
    for view in VIEWS:
        page = seen.goto(f"{showcase.address}#/{view}")
        page.wait_for_selector(f"main.view-{view} h1")
        assert faults(page, axe) == [], view
    for tab in TABS:
        page.get_by_role("tab", name=tab).click()
        assert faults(page, axe) == [], tab


@pytest.mark.parametrize(("colours", "width"), [("dark", 1280), ("light", 390)])
def test_no_state_of_the_explorer_has_a_serious_fault(
    colours: str, width: int, arm_run: Path, watched: Callable[..., Watched], axe: str
) -> None:
    """Lanes of state and action, one episode and three side by side, on a page that follows its run."""
    with served(arm_run) as address:
        seen = watched(viewport={"width": width, "height": 844}, color_scheme=colours)
        for state in ("20", "20?with=episode_000001%7Cepisode_000002"):
            page = seen.goto(f"{address}#/explorer/run/episode_000000/{state}")
            page.wait_for_selector(".trace-lane")
            page.wait_for_selector(".live-runs")
            assert faults(page, axe) == [], state
            assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), state
        page.goto(f"{address}#/explorer?text=nothing")
        page.wait_for_selector(".empty")
        assert faults(page, axe) == []


def test_a_fault_would_be_found(showcase: Report, watched: Callable[..., Watched], axe: str) -> None:
    page = watched().goto(f"{showcase.address}#/explorer")
    page.evaluate("() => document.querySelector('main').append(document.createElement('button'))")
    assert [name for name, _ in faults(page, axe)] == ["button-name"]
