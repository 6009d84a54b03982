"""The report page of 10,000 episodes with 100 curve points each, in Chromium.

The runs are those of ``benchmarks.scale.commands``: labelled, with verdicts, stages and subgoals, without videos.
Limits: data under 15 MB, first view under 2 s, switch of episode under 200 ms (median of 20); the page of 50
episodes under 1 MB. `--episodes 1000 10000 100000` writes a report of each size, in a process of its own, and prints
its time and peak memory: at most 12 times the time for ten times the episodes, under 2 GB; a page with parts opens
and switches within the same limits. `--work DIR` keeps the runs and uses them again.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.scale.commands import MOST_GROWTH, MOST_MEMORY_MB, Taken, commands, prepare, run_command
from stepscore.report import parts_folder

if TYPE_CHECKING:
    from playwright.sync_api import Page

# The curve is on screen after the second animation frame that follows the key, and after its part has come.
_SWITCH = """() => new Promise((done) => {
  const begun = performance.now();
  dispatchEvent(new KeyboardEvent("keydown", { key: "n", bubbles: true }));
  const look = () => document.querySelector("article")
    ? requestAnimationFrame(() => done(performance.now() - begun)) : requestAnimationFrame(look);
  requestAnimationFrame(look);
})"""


class Written(NamedTuple):
    """A report, what it took to write it, and how large it is."""

    page: Path
    taken: Taken
    page_mb: float
    parts_mb: float


def write_page(work: Path, episodes: int) -> Written:
    """Write the report of the labelled run of ``benchmarks.scale.commands``, in a process of its own."""
    line = commands(work, episodes)
    prepare(work, episodes, fresh=False)
    for name in ("report",) if (work / f"run_{episodes}").is_dir() else ("judge", "report"):
        taken = run_command(line[name], work / f"{name}_{episodes}.txt")
        if taken.code:
            sys.exit(f"stepscore {' '.join(line[name])} ended with {taken.code}")
    page = work / f"page_{episodes}" / "index.html"
    parts = sum(path.stat().st_size for path in parts_folder(page).glob("*.js"))
    return Written(page, taken, page.stat().st_size / 1e6, parts / 1e6)


def first_view(page: Page, address: str) -> float:
    """Seconds from opening the page until its first view is drawn."""
    page.goto("about:blank")
    started = time.perf_counter()
    page.goto(address)
    page.wait_for_selector("body[data-ready]")
    return time.perf_counter() - started


def switches(page: Page, address: str) -> list[float]:
    """Milliseconds of 20 changes of episode in the explorer."""
    page.goto(f"{address}#/explorer")
    page.wait_for_selector("article")
    return [float(page.evaluate(_SWITCH)) for _ in range(20)]


def in_browser(pages: list[Path]) -> list[tuple[float, float]]:
    """Seconds of the first view and milliseconds of a switch of each page."""
    from playwright.sync_api import sync_playwright

    found = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for page in pages:
            tab = browser.new_page()
            opened = min(first_view(tab, page.as_uri()) for _ in range(3))
            found.append((opened, statistics.median(switches(tab, page.as_uri()))))
            tab.close()
        browser.close()
    return found


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--episodes", type=int, nargs="+", default=[10_000])
    options.add_argument("--work", type=Path)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        work = given.work or Path(name)
        small = write_page(work, 50)
        written = [write_page(work, episodes) for episodes in given.episodes]
        shown = in_browser([one.page for one in written])
    good = small.page_mb < 1
    print(f"50 episodes without videos: {small.page_mb:.2f} MB (limit 1)")
    before: tuple[int, float] | None = None
    for episodes, one, (opened, switched) in zip(given.episodes, written, shown, strict=True):
        growth = (
            ""
            if before is None
            else f", {one.taken.cpu_s / before[1]:.1f} times those of {before[0]} episodes"
        )
        print(
            f"{episodes} episodes: {one.taken.wall_s:.1f} s, {one.taken.cpu_s:.1f} s of processor time{growth}; "
            f"{one.taken.memory_mb:.0f} MB of memory; page {one.page_mb:.1f} MB, parts {one.parts_mb:.1f} MB; "
            f"first view {opened:.2f} s (limit 2), switch of episode {switched:.0f} ms (limit 200)"
        )
        good &= opened < 2 and switched < 200 and one.taken.memory_mb < MOST_MEMORY_MB
        good &= one.page_mb < 15 or bool(one.parts_mb)
        if before is not None and episodes == 10 * before[0]:
            good &= one.taken.cpu_s / before[1] <= MOST_GROWTH
        before = episodes, one.taken.cpu_s
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
