"""The report page of 10,000 episodes with 100 curve points each, in Chromium.

Limits: data under 15 MB, first view under 2 s, switch of episode under 200 ms (median of 20); the page of 50
episodes without videos under 1 MB. `--episodes N` for another size.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from stepscore.report.page import data_text, page_data, page_text

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.report.made_runs import write_run

if TYPE_CHECKING:
    from playwright.sync_api import Page

# The curve is on screen after the second animation frame that follows the key.
_SWITCH = """() => new Promise((done) => {
  const begun = performance.now();
  dispatchEvent(new KeyboardEvent("keydown", { key: "n", bubbles: true }));
  requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - begun)));
})"""


def write_page(folder: Path, episodes: int) -> tuple[Path, float]:
    """Write a page without videos; return its path and the megabytes of its data."""
    run = write_run(folder / f"run{episodes}", episodes, steps=100)
    started = time.perf_counter()
    data = page_data([run])
    print(f"{episodes} episodes measured in {time.perf_counter() - started:.1f} s")
    page = folder / f"page{episodes}.html"
    page.write_text(page_text(data), encoding="utf-8")
    return page, len(data_text(data).encode()) / 1e6


def first_view(page: Page, address: str) -> float:
    """Seconds from opening the page to its first contentful paint."""
    page.goto(address)
    page.wait_for_selector("body[data-ready]")
    return (
        float(page.evaluate("() => performance.getEntriesByName('first-contentful-paint')[0].startTime"))
        / 1000
    )


def switches(page: Page, address: str) -> list[float]:
    """Milliseconds of 20 changes of episode in the explorer."""
    page.goto(f"{address}#/explorer")
    page.wait_for_selector("article")
    return [float(page.evaluate(_SWITCH)) for _ in range(20)]


def main() -> None:
    from playwright.sync_api import sync_playwright

    options = argparse.ArgumentParser()
    options.add_argument("--episodes", type=int, default=10_000)
    episodes = options.parse_args().episodes
    with tempfile.TemporaryDirectory() as name:
        page, data = write_page(Path(name), episodes)
        small = write_page(Path(name), 50)[0].stat().st_size / 1e6
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            tab = browser.new_page()
            opened = min(first_view(tab, page.as_uri()) for _ in range(3))
            switched = statistics.median(switches(tab, page.as_uri()))
            browser.close()
    print(f"{episodes} episodes: {data:.1f} MB of data (limit 15)")
    print(f"first view {opened:.2f} s (limit 2), switch of episode {switched:.0f} ms (limit 200)")
    print(f"50 episodes without videos: {small:.2f} MB (limit 1)")
    if data > 15 or opened > 2 or switched > 200 or small > 1:
        sys.exit(1)


if __name__ == "__main__":
    main()
