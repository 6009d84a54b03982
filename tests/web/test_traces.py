"""State and action stand below the curve, with its cursor, its time axis and the numbers that were recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from stepscore.report import write_report
from stepscore.report.page.signals import traces
from stepscore.runs import open_run
from tests.web.arm import FPS, recorded
from tests.web.conftest import Watched, elsewhere
from tests.web.videos import served


@pytest.fixture(scope="module")
def on_disk(arm_run: Path) -> str:
    return elsewhere(lambda: write_report([open_run(arm_run)], arm_run.parent / "page")).as_uri()


@pytest.fixture(scope="module")
def address(arm_run: Path) -> Iterator[str]:
    with served(arm_run) as found:
        yield found


def values_at_cursor(page: Page, lane: str) -> list[str]:
    return page.locator(f".trace-lane[data-lane='{lane}'] output").all_inner_texts()


def check_lanes(page: Page, frame: int) -> None:
    """The lanes of the first episode and their numbers at a frame."""
    lanes = page.locator(".trace-lane")
    expect(lanes).to_have_count(4)
    assert [lane.get_attribute("data-lane") for lane in lanes.all()] == ["pan", "lift", "grip", "force"]
    page.wait_for_selector(f"article[data-frame='{frame}']")
    signals = recorded(0)
    state, action = (signals[name][frame, 0] for name in ("observation.state", "action"))
    shown = [float(text) for text in values_at_cursor(page, "pan")]
    assert shown == pytest.approx([state, action], abs=0.02)


@pytest.mark.parametrize("where", ["on disk", "served"])
def test_lanes_show_what_was_recorded_at_the_cursor(
    where: str, on_disk: str, address: str, watched: Callable[..., Watched]
) -> None:
    seen = watched()
    page = seen.goto((on_disk if where == "on disk" else address) + "#/explorer/run/episode_000000/20")
    check_lanes(page, 20)
    # The state of the lift is unknown from frame 10 to 14: its line is in two parts, the action's in one.
    drawn = {line: page.locator(f"[data-lane=lift] path[data-line={line}]") for line in ("state", "action")}
    assert {line: path.get_attribute("d").count("M") for line, path in drawn.items()} == {  # type: ignore[union-attr]
        "state": 2,
        "action": 1,
    }
    page.evaluate("() => { location.hash = '#/explorer/run/episode_000000/12'; }")
    page.wait_for_selector("article[data-frame='12']")
    assert values_at_cursor(page, "lift")[0] == "–"
    assert float(values_at_cursor(page, "lift")[1]) == pytest.approx(3 - 12 / FPS + 0.1, abs=0.02)
    assert seen.errors == []


def test_a_press_on_a_lane_seeks_and_cursor_and_axis_are_those_of_the_curve(
    on_disk: str, watched: Callable[..., Watched]
) -> None:
    page = watched(viewport={"width": 1280, "height": 1500}).goto(on_disk + "#/explorer/run/episode_000000/5")
    axis = page.locator(".trace-axis").bounding_box()
    plot = page.locator(".curve .u-over").bounding_box()
    assert axis is not None
    assert plot is not None
    assert (axis["x"], axis["width"]) == pytest.approx((plot["x"], plot["width"]), abs=1.5)
    page.mouse.click(axis["x"] + axis["width"] * 30.5 / 40, axis["y"] + 20)
    page.wait_for_selector("article[data-frame='30']")
    cursors = [page.locator(name).bounding_box() for name in (".trace-cursor", ".curve .cursor")]
    lefts = [box["x"] for box in cursors if box is not None]
    assert lefts[0] == pytest.approx(lefts[1], abs=1.5)
    assert lefts[0] == pytest.approx(axis["x"] + axis["width"] * 30 / 40, abs=1.5)


def test_signals_and_dimensions_are_chosen_and_the_choice_stays(
    on_disk: str, watched: Callable[..., Watched]
) -> None:
    page = watched().goto(on_disk + "#/explorer/run/episode_000000/20")
    page.locator(".traces").get_by_label("action", exact=True).uncheck()
    expect(page.locator("[data-lane=pan] path")).to_have_count(1)
    page.get_by_role("button", name="grip", exact=True).press("Enter")
    expect(page.locator(".trace-lane")).to_have_count(3)
    expect(page.get_by_role("button", name="grip", exact=True)).to_be_focused()
    page.keyboard.press("n")
    expect(page.locator("article")).to_have_attribute("data-episode", "episode_000001")
    expect(page.locator(".trace-lane")).to_have_count(3)
    expect(page.locator("[data-lane=pan] path")).to_have_count(1)
    page.get_by_role("button", name="Show all").click()
    expect(page.locator(".trace-lane")).to_have_count(4)


def test_episodes_side_by_side_share_the_lanes_of_a_signal(
    on_disk: str, watched: Callable[..., Watched]
) -> None:
    seen = watched()
    page = seen.goto(on_disk + "#/explorer/run/episode_000000/25?with=episode_000001%7Cepisode_000002")
    expect(page.locator("[data-lane=pan] path")).to_have_count(3)
    page.locator(".traces select[name=signal]").select_option("action")
    shown = [float(text) for text in values_at_cursor(page, "pan")]
    assert shown == pytest.approx([recorded(k)["action"][25, 0] for k in range(3)], abs=0.02)
    page.locator(".traces select[name=signal]").select_option("observation.force")
    expect(page.locator(".trace-lane")).to_have_count(1)
    assert seen.errors == []


def test_what_is_left_out_is_said(
    arm_run: Path, watched: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traces, "MAX_BYTES", 1)
    small = elsewhere(lambda: write_report([open_run(arm_run)], arm_run.parent / "small"))
    page = watched().goto(f"{small.as_uri()}#/explorer/run/episode_000000")
    expect(page.locator(".trace-lane")).to_have_count(4)  # the worst failure comes first
    page.keyboard.press("n")
    expect(page.locator(".traces")).to_contain_text("not on this page because of its size")


def test_on_a_phone_a_served_page_keeps_video_play_and_curve_on_the_first_screen(
    address: str, watched: Callable[..., Watched]
) -> None:
    page = watched(viewport={"width": 390, "height": 844}).goto(f"{address}#/explorer")
    page.wait_for_function("() => document.querySelector('video').readyState >= 1")
    expect(page.locator(".trace-lane").first).to_be_attached()
    boxes = [
        page.locator(part).first.bounding_box() for part in (".live-runs", "video", "button.play", ".curve")
    ]
    tops = [box["y"] for box in boxes if box is not None]
    assert tops == sorted(tops)
    assert boxes[-1] is not None
    assert boxes[-1]["y"] + boxes[-1]["height"] <= 844
    below = page.locator(".trace-lanes").bounding_box()
    assert below is not None
    assert below["y"] > tops[-1]
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
