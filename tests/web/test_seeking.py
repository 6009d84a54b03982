"""The frame on screen is the one that the cursor names, in files that hold many episodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, TimeoutError

from tests.web.conftest import Watched, elsewhere
from tests.web.videos import (
    EPISODES,
    FRAMES,
    photographed_number,
    served,
    shown_number,
    wait_for_frame,
    write_numbered_run,
)


@pytest.fixture(scope="module", params=["h264", "av1"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return elsewhere(write_numbered_run, tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture(scope="module")
def address(run: Path) -> Iterator[str]:
    with served(run) as found:
        yield found


def link(episode: int, frame: int) -> str:
    return f"#/explorer/run/episode_{episode:06d}/{frame}"


def test_twenty_random_frames_are_shown_exactly_on_every_view(
    address: str, watched: Callable[..., Watched]
) -> None:
    seen = watched()
    page = seen.goto(address + link(0, 0))
    rng = np.random.default_rng(3)
    wanted = [(int(rng.integers(EPISODES)), int(rng.integers(FRAMES))) for _ in range(18)]
    for episode, frame in [(0, 0), (EPISODES - 1, FRAMES - 1), *sorted(wanted)]:
        page.evaluate("hash => { location.hash = hash; }", link(episode, frame))
        page.wait_for_selector(f"article[data-episode=episode_{episode:06d}][data-frame='{frame}']")
        wait_for_frame(page, frame)
        numbers = [shown_number(video) for video in page.locator("video").all()]
        assert numbers == [episode * FRAMES + frame] * 2
    assert seen.errors == []
    assert seen.hosts() == {"127.0.0.1"}


def test_pressing_and_dragging_on_the_curve_seeks_to_the_frame_there(
    address: str, watched: Callable[..., Watched]
) -> None:
    page = watched().goto(address + link(2, 0))
    box = page.locator(".u-over").bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2

    def x(frame: int) -> float:
        return box["x"] + box["width"] * (frame + 0.5) / FRAMES

    page.mouse.move(x(11), middle)
    page.mouse.down()
    wait_for_frame(page, 11)
    for frame in (15, 22, 31):
        page.mouse.move(x(frame), middle)
    wait_for_frame(page, 31)
    page.mouse.up()
    assert shown_number(page.locator("video").first) == 2 * FRAMES + 31
    assert page.locator(".curve").get_attribute("aria-valuenow") == "31"


def test_the_cursor_follows_playback_and_stops_at_the_end_of_the_episode(
    address: str, watched: Callable[..., Watched]
) -> None:
    # On a busy machine the browser may drop a page's playback altogether; a fresh page then plays.
    for attempt in range(4):
        page = watched().goto(address + link(1, 5))
        try:
            play_to_the_end(page)
            break
        except TimeoutError:
            assert attempt < 3, "none of four pages played to the end of the episode"
    wait_for_frame(page, FRAMES - 1)
    assert page.get_by_role("button", name="Play", exact=True).is_visible()
    assert [shown_number(video) for video in page.locator("video").all()] == [2 * FRAMES - 1] * 2


def play_to_the_end(page: Page) -> None:
    """Play from frame 5 on; cursor and video agree on the way, and the cursor reaches the last frame."""
    wait_for_frame(page, 5)
    page.locator("select[name=speed]").select_option("0.25")
    page.locator(".pane").click(position={"x": 3, "y": 3})
    page.keyboard.press("Space")
    page.wait_for_function(
        """() => {
             const cursor = Number(document.querySelector("article").dataset.frame);
             const shown = Number(document.querySelector("video").dataset.frame);
             return cursor >= 8 && Math.abs(cursor - shown) <= 1;
           }""",
        timeout=20_000,
    )
    page.locator("select[name=speed]").select_option("2")
    last = f"() => document.querySelector('article').dataset.frame === '{FRAMES - 1}'"
    page.wait_for_function(last, timeout=20_000)


def test_frames_are_exact_in_a_page_opened_from_disk(
    run: Path, watched: Callable[..., Watched], tmp_path: Path
) -> None:
    from stepscore.report import write_report
    from stepscore.runs import open_run

    written = elsewhere(lambda: write_report([open_run(run)], tmp_path))
    seen = watched()
    page = seen.goto(written.as_uri() + link(4, 0))
    page.add_style_tag(content="figcaption { display: none }")
    for frame in (0, 17, 39):
        page.evaluate("hash => { location.hash = hash; }", link(4, frame))
        page.wait_for_selector(f"article[data-frame='{frame}']")
        wait_for_frame(page, frame)
        assert photographed_number(page.locator("video").first) == 4 * FRAMES + frame
    assert seen.errors == []
    assert seen.hosts() == set()
