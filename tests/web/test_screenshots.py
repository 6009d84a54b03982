"""Screenshots of every view for the docs, at desktop and phone width, light and dark.

Written to docs/images/report when STEPSCORE_SCREENSHOTS is set; otherwise the views are only checked to fit.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable

import pytest
from PIL import Image

from tests.paths import DOCS
from tests.web.conftest import Report, Watched

IMAGES = DOCS / "images" / "report"
VIEWS = {
    "overview": "overview",
    "leaderboard": "leaderboard?sort=MP",
    "subgoals": "subgoals",
    "process": "process",
    "explorer": "explorer/watcher/hasty%2Fred_00/34",
}
SIZES = {"desktop": (1360, 860), "phone": (390, 844)}


def write_screenshot(png: bytes, name: str) -> None:
    """Save a screenshot in 256 colours, which is a third of the bytes and looks the same."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    few = Image.open(io.BytesIO(png)).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    few.save(IMAGES / name, optimize=True)


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
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), view
        ground = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        assert (sum(int(part) for part in ground[4:-1].split(",")) < 200) == (colours == "dark")
        if os.environ.get("STEPSCORE_SCREENSHOTS"):
            if view == "explorer":
                page.wait_for_function("() => document.querySelector('video').dataset.frame === '34'")
            whole = view != "explorer" or size == "phone"
            write_screenshot(page.screenshot(full_page=whole), f"{view}-{size}-{colours}.png")
    assert seen.errors == []
