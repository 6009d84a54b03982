"""A served page follows a run that another process is writing, and leaves the person where they are."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.media import write_video
from tests.paths import ROOT
from tests.web.conftest import Watched
from tests.web.videos import served

# Judges one more episode each time a line comes in; the end of the input is the end of the run.
WRITER = """
import asyncio, sys
from dataclasses import dataclass
import numpy as np
import stepscore
from stepscore.types import Curve, Judgement

@dataclass(frozen=True)
class Stepwise:
    name: str = "stepwise"
    version: int = 1
    models: tuple = ()

    def options(self):
        return {}

    async def judge(self, episode, ask):
        print(episode.id, flush=True)
        if not sys.stdin.readline():
            sys.exit("no more")
        falls = episode.id in "bd"
        progress = [0.0, 0.5, 0.2 if falls else 0.8, 0.1 if falls else 1.0]
        return Judgement(Curve(np.array([0.0, 0.3, 0.6, 0.9]), np.array(progress)), (), progress[-1])

stepscore.score(stepscore.open_episodes(sys.argv[1]), Stepwise(), out=sys.argv[2])
"""


class Writer:
    """A process that judges four episodes, each when it is asked to."""

    def __init__(self, folder: Path) -> None:
        for name in "abcd":
            write_video(folder / "in" / f"{name}.mp4", 12)
        self.run = folder / "run"
        self.process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(folder / "in"), str(self.run)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "a\n"

    def judge(self) -> None:
        """Let it judge one more; it is in the journal when this returns."""
        journal = self.run / "journal.jsonl"
        before = journal.stat().st_size
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        while journal.stat().st_size == before or not journal.read_bytes().endswith(b"\n"):
            assert self.process.poll() in (None, 0)
            time.sleep(0.01)

    def end(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(60)


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    made = Writer(tmp_path)
    yield made
    made.process.kill()
    made.process.wait()


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a run that has judged nothing yet."""
    made = Writer(tmp_path_factory.mktemp("begun"))
    with served(made.run) as address:
        yield address
    made.process.kill()
    made.process.wait()


def test_new_episodes_come_without_a_reload_and_the_place_is_kept(
    writer: Writer, watched: Callable[..., Watched]
) -> None:
    writer.judge()
    writer.judge()
    with served(writer.run) as address:
        seen = watched()
        page = seen.goto(f"{address}#/explorer")
        strip = page.locator(".live-runs")
        expect(strip).to_have_text("2 of 4 judged, running")
        # The worst of the failures so far; then somewhere else in it.
        expect(page.locator("article")).to_have_attribute("data-episode", "b")
        page.evaluate("() => { window.loaded = 'once'; }")
        page.locator(".list-controls select[name=sort]").select_option("MP")
        page.locator("[data-episode=b].list-row").click()
        page.keyboard.press("ArrowRight")
        page.wait_for_selector("article[data-frame='1']")
        page.locator("article").evaluate("article => { article.kept = true; }")
        writer.judge()
        expect(strip).to_have_text("3 of 4 judged, running")
        expect(page.locator(".counted")).to_have_text("3 episodes")
        rows = [row.get_attribute("data-episode") for row in page.locator(".list-row").all()]
        assert sorted(rows) == ["a", "b", "c"]  # type: ignore[type-var]
        assert page.locator(".list-row[aria-selected=true]").get_attribute("data-episode") == "b"
        assert page.locator("article").get_attribute("data-frame") == "1"
        assert page.locator("article").evaluate("article => article.kept"), "the pane was made anew"
        assert page.locator(".list-controls select[name=sort]").input_value() == "MP"
        writer.judge()
        assert writer.end() == 0
        expect(strip).to_have_text("4 of 4 judged, finished")
        expect(page.locator(".counted")).to_have_text("4 episodes")
        # What came later can be opened, in the same page.
        page.locator("[data-episode=d].list-row").click()
        expect(page.locator("article")).to_have_attribute("data-episode", "d")
        page.wait_for_function("() => document.querySelector('video').readyState >= 1")
        assert page.evaluate("() => window.loaded") == "once"
        assert seen.errors == []
        assert seen.hosts() == {"127.0.0.1"}


@pytest.mark.parametrize("view", ["overview", "leaderboard", "subgoals", "process", "explorer"])
def test_a_run_that_has_judged_nothing_yet_has_every_view(
    view: str, begun: str, watched: Callable[..., Watched]
) -> None:
    seen = watched()
    page = seen.goto(f"{begun}#/{view}")
    expect(page.locator(".live-runs")).to_have_text("0 of 4 judged, running")
    assert page.locator("main").inner_text()
    assert seen.errors == []


def test_the_first_episode_of_a_run_opens_by_itself(writer: Writer, watched: Callable[..., Watched]) -> None:
    with served(writer.run) as address:
        seen = watched()
        page = seen.goto(f"{address}#/explorer")
        expect(page.locator(".pane")).to_have_text("No episode is judged yet.")
        writer.judge()
        expect(page.locator("article")).to_have_attribute("data-episode", "a")
        assert seen.errors == []


def test_tables_follow_and_a_killed_run_is_not_called_running(
    writer: Writer, watched: Callable[..., Watched]
) -> None:
    writer.judge()
    with served(writer.run) as address:
        page = watched().goto(f"{address}#/leaderboard")
        expect(page.locator(".live-runs")).to_have_text("1 of 4 judged, running")
        before = page.locator("main").inner_text()
        writer.judge()
        expect(page.locator(".live-runs")).to_have_text("2 of 4 judged, running")
        assert page.locator("main").inner_text() != before
        writer.process.kill()
        writer.process.wait()
        expect(page.locator(".live-runs")).to_have_text("2 of 4 judged, stopped")
        expect(page.locator(".live-runs")).to_have_attribute("data-state", "stopped")
    page.evaluate("() => document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.locator(".live-runs")).to_contain_text("The server does not answer")
