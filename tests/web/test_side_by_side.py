"""Episodes side by side share one clock: seeking and playing move all, and a shorter one keeps its last frame."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, TimeoutError, expect

import stepscore
from stepscore.episodes import open_episodes
from stepscore.episodes.lerobot.writing.writer import Recording, write_lerobot
from stepscore.judges import get_judge
from tests.media import numbered
from tests.web.conftest import Report, Watched, elsewhere
from tests.web.videos import served, shown_number

LENGTHS = (24, 40, 32)
FIRST = (0, 24, 64)  # the number that an episode's first frame shows; all are in one file
LINK = "#/explorer/run/episode_000001/{}?with=episode_000000%7Cepisode_000002"
ORDER = (1, 0, 2)


def write_run(folder: Path) -> Path:
    recordings = [
        Recording(
            task="count",
            frames=[{"observation.images.top": numbered(first + i), "action": np.zeros(2)} for i in range(n)],
        )
        for first, n in zip(FIRST, LENGTHS, strict=True)
    ]
    write_lerobot(folder / "dataset", recordings, fps=20.0)
    stepscore.score(open_episodes(folder / "dataset"), get_judge("linear-time"), out=folder / "run")
    return folder / "run"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(elsewhere(write_run, tmp_path_factory.mktemp("several"))) as found:
        yield found


def wait_for_frames(page: Page, cursor: int) -> None:
    """Wait until each video shows its frame at this time, or its last one."""
    frames = [min(cursor, LENGTHS[episode] - 1) for episode in ORDER]
    page.wait_for_function(
        """frames => [...document.querySelectorAll("video")].every((video, i) => video.paused &&
             !video.seeking && video.readyState >= 2 && video.dataset.frame === String(frames[i]))""",
        arg=frames,
    )
    numbers = [shown_number(video) for video in page.locator("video").all()]
    assert numbers == [FIRST[episode] + frame for episode, frame in zip(ORDER, frames, strict=True)]


def test_a_shared_address_shows_every_episode_at_the_same_time(
    address: str, watched: Callable[..., Watched]
) -> None:
    seen = watched()
    page = seen.goto(address + LINK.format(10))
    assert page.locator("h1").inner_text() == "3 episodes side by side"
    wait_for_frames(page, 10)
    for cursor in (35, 23, 39, 0):
        page.evaluate("hash => { location.hash = hash; }", LINK.format(cursor))
        page.wait_for_selector(f"article[data-frame='{cursor}']")
        wait_for_frames(page, cursor)
    slider = page.get_by_role("slider")
    assert slider.get_attribute("aria-valuemax") == "39"
    assert page.locator(".curve .cursor").count() == 1
    assert page.locator(".curve .cursor-dot").count() == 3
    assert seen.errors == []


def test_playing_goes_on_to_the_end_of_the_longest_while_shorter_ones_wait(
    address: str, watched: Callable[..., Watched]
) -> None:
    # On a busy machine the browser may drop a page's playback altogether; a fresh page then plays.
    for attempt in range(4):
        page = watched().goto(address + LINK.format(16))
        wait_for_frames(page, 16)
        page.locator(".pane").click(position={"x": 3, "y": 3})
        page.keyboard.press("Space")
        try:
            page.wait_for_selector("article[data-frame='39']", timeout=20_000)
            break
        except TimeoutError:
            assert attempt < 3, "none of four pages played to the end"
    wait_for_frames(page, 39)
    heads = page.locator(".column-head output").all_inner_texts()
    assert [text.endswith("ended") for text in heads] == [False, True, True]
    assert page.get_by_role("button", name="Play", exact=True).is_visible()


def test_episodes_are_added_and_taken_away_and_the_address_follows(
    showcase: Report, watched: Callable[..., Watched]
) -> None:
    page = watched().goto(f"{showcase.address}#/explorer/watcher/hasty%2Fred_00/7")
    page.locator(".list-row[data-episode='steady/red_00']").click(modifiers=["Control"])
    expect(page.locator("article")).to_have_attribute("data-compared", "2")
    assert page.locator("article").get_attribute("data-frame") == "7"
    page.locator(".compare-toggle").click()
    page.locator(".list-row[data-episode='hasty/red_01']").click()
    expect(page.locator("video")).to_have_count(3)
    assert page.locator(".list-row[aria-selected=true]").count() == 3
    page.wait_for_function("() => (location.hash.match(/red_01/g) ?? []).length === 1")
    again = watched().goto(page.url)
    assert again.locator(".column-head").count() == 3
    again.locator("select[name=camera]").select_option("top")
    expect(again.locator("video")).to_have_count(3)
    again.get_by_role("button", name="Take hasty/red_00 away").click()
    expect(again.locator("article")).to_have_attribute("data-episode", "steady/red_00")
    again.keyboard.press("n")
    expect(again.locator(".column-head")).to_have_count(0)


def test_the_menu_offers_the_same_scene_and_jumps_name_the_episode(
    showcase: Report, watched: Callable[..., Watched]
) -> None:
    page = watched().goto(f"{showcase.address}#/explorer/watcher/hasty%2Fred_00/0")
    page.locator("select[name=compare]").select_option("scene")
    names = page.locator(".column-head strong").all_inner_texts()
    assert names == ["hasty", "steady", "timid"]
    page.locator("[data-jump=drop]").click()
    assert "red_00: Largest drop" in page.locator(".jump-status").inner_text()
    page.locator("[data-jump=apart]").click()
    assert "Largest disagreement" in page.locator(".jump-status").inner_text()


def test_a_click_holds_while_the_list_is_drawn_anew(
    showcase: Report, watched: Callable[..., Watched]
) -> None:
    page = watched().goto(f"{showcase.address}#/explorer/watcher/hasty%2Fred_00/7")
    row = page.locator(".list-row[data-episode='steady/red_00']")
    row.scroll_into_view_if_needed()
    page.wait_for_timeout(300)  # the list is drawn again after it was scrolled
    box = row.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.evaluate(
        "() => new Promise((drawn) => { document.querySelector('.list').dispatchEvent(new Event('scroll')); "
        "requestAnimationFrame(() => requestAnimationFrame(drawn)); })"
    )
    page.mouse.up()
    expect(page.locator("article")).to_have_attribute("data-episode", "steady/red_00", timeout=10_000)
