"""The audit view: every outcome in words, and from a probe that fails to its worst episode beside the changed one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from stepscore.audit import AuditOptions, audit
from stepscore.episodes import open_episodes
from stepscore.episodes.lerobot.writing.writer import Recording, write_lerobot
from stepscore.judges import get_judge
from stepscore.report import write_audit_report
from tests.media import numbered
from tests.report.planted_audits import PROBES, planted_audit
from tests.web.conftest import Watched, elsewhere, faults
from tests.web.showcase import HOSTILE
from tests.web.videos import photographed_number, served

FRAMES = 12


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The audit of a clock on eight videos whose frames show their numbers."""
    folder = tmp_path_factory.mktemp("clock")

    def make() -> Path:
        recordings = [
            Recording(
                task="count",
                frames=[
                    {"observation.images.top": numbered(e * FRAMES + i), "action": np.zeros(2)}
                    for i in range(FRAMES)
                ],
            )
            for e in range(8)
        ]
        write_lerobot(folder / "dataset", recordings, fps=20.0)
        options = AuditOptions(probes=["beyond-length", "round-trip", "noisy"], full=True)
        made = audit(open_episodes(folder / "dataset"), get_judge("linear-time"), folder / "audit", options)
        made.write(folder / "audit")
        write_audit_report(folder / "audit", folder / "audit" / "report.html")
        return folder / "audit"

    return elsewhere(make)


def planted(folder: Path, **options: Any) -> str:
    outcomes = options.pop("outcomes", dict.fromkeys(PROBES, "pass"))
    made = planted_audit(folder / "audit", outcomes, **options)
    return write_audit_report(made, folder / "page.html").as_uri()


def wait_for_numbers(page: Page, frames: list[int]) -> None:
    page.wait_for_function(
        """frames => { const videos = [...document.querySelectorAll("video")];
             return videos.length === frames.length && videos.every((video, i) => !video.seeking &&
               video.readyState >= 2 && video.dataset.frame === String(frames[i])); }""",
        arg=frames,
    )


def test_from_a_failed_probe_one_comes_to_its_episode_and_the_changed_one_side_by_side(
    clock: Path, watched: Callable[..., Watched]
) -> None:
    seen = watched()
    page = seen.goto((clock / "report.html").as_uri())
    expect(page.locator("h1")).to_contain_text("linear-time passes 1 of 3 probes and fails 2")
    row = page.locator("tr[data-probe='round-trip']").first
    expect(row.locator(".outcome").first).to_have_text("✗ fail")
    assert page.locator("header nav a").all_inner_texts() == ["Audit", "Explorer"]
    link = page.locator("tr.worst[data-probe='round-trip'] a").first
    name = link.inner_text().split()[0]
    link.focus()
    page.keyboard.press("Enter")
    article = page.locator("article[data-compared='2']")
    expect(article).to_have_attribute("data-episode", name)
    expect(article.locator(".column-head").nth(1)).to_contain_text("changed: round-trip")
    # The way there and back is as long as twice the way: the recorded one keeps its last frame.
    number = int(name[-3:])
    for cursor, recorded, changed in ((5, 5, 5), (2 * FRAMES - 2, FRAMES - 1, 0)):
        page.evaluate(
            "([name, frame]) => { location.hash = location.hash.replace(/[0-9]+[?]/, `${frame}?`); }",
            [name, cursor],
        )
        wait_for_numbers(page, [recorded, changed])
        shown = [photographed_number(video) for video in page.locator("video").all()]
        assert shown == [number * FRAMES + recorded, number * FRAMES + changed]
    assert seen.errors == []


def test_a_changed_video_plays_in_its_own_order_and_a_changed_image_is_said(
    clock: Path, watched: Callable[..., Watched]
) -> None:
    with served(clock) as address:
        seen = watched()
        page = seen.goto(f"{address}#/explorer/judge/episode_000003~round-trip/{2 * FRAMES - 4}")
        page.keyboard.press("Space")
        page.wait_for_function(
            f"() => document.querySelector('article').dataset.frame === '{2 * FRAMES - 2}'"
        )
        wait_for_numbers(page, [0])
        page = seen.goto(f"{address}#/explorer/judge/episode_000003~noisy-12/0")
        expect(page.locator(".video-note")).to_contain_text("As recorded; the judge saw it changed: noisy")
        assert seen.errors == []


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        ("pass", "planted passes 6 of 7 probes and fails none; 1 undecided."),
        ("warn", "planted passes 0 of 7 probes and fails none; 6 warn, 1 undecided."),
        ("undecided", "These episodes decide none of 7 probes of planted."),
    ],
)
def test_the_opening_says_no_more_than_the_probes_showed(
    outcome: str, said: str, tmp_path: Path, watched: Callable[..., Watched]
) -> None:
    seen = watched()
    page = seen.goto(planted(tmp_path, outcomes=dict.fromkeys(PROBES, outcome)))
    assert page.locator("h1").inner_text() == said
    marks = page.locator("tr[data-outcome] > td:nth-child(2)").all_inner_texts()
    assert {mark.split()[-1] for mark in marks} == {outcome}
    assert len(marks) == len(PROBES)
    expect(page.locator(".not-applied")).to_contain_text("swapped-cameras not applied: no episode has")
    assert page.locator("header nav a").all_inner_texts() == ["Audit"]  # it has no runs to explore
    assert seen.errors == []


def test_without_trivial_judges_the_page_says_so(tmp_path: Path, watched: Callable[..., Watched]) -> None:
    page = watched().goto(planted(tmp_path, trivial=()))
    expect(page.locator(".audit-headline")).to_contain_text("No trivial judge was audited")
    assert page.locator(".audit-headline .effect-line").count() == page.locator(".headline-rows li").count()


def test_no_text_of_an_audit_becomes_markup(tmp_path: Path, watched: Callable[..., Watched]) -> None:
    seen = watched()
    outcomes = {"round-trip": "fail", f"{HOSTILE}probe": "warn"}
    page = seen.goto(planted(tmp_path, outcomes=outcomes, pairs=2, text=HOSTILE))
    assert HOSTILE.strip() in page.locator("h1").inner_text()
    page.locator("tr.worst a").first.click()
    page.wait_for_selector("article[data-compared='2']")
    assert page.evaluate("() => window.hacked") is None
    assert page.locator("main script, main img").count() == 0
    assert seen.errors == []


@pytest.mark.parametrize(("colours", "width"), [("light", 1280), ("dark", 390)])
def test_the_view_has_no_serious_fault_and_fits(
    colours: str,
    width: int,
    tmp_path: Path,
    watched: Callable[..., Watched],
    axe: str,
) -> None:
    outcomes = dict(zip(PROBES, ("pass", "fail", "warn", "undecided", "fail", "pass"), strict=True))
    seen = watched(viewport={"width": width, "height": 844}, color_scheme=colours)
    page = seen.goto(planted(tmp_path, outcomes=outcomes, pairs=3))
    assert faults(page, axe) == []
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    link = page.locator("tr.worst a").first
    link.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("article[data-compared='2']")
    assert faults(page, axe) == []
