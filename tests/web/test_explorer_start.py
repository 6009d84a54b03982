"""The explorer opens where something went wrong, and says what everything on it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from playwright.sync_api import expect

from stepscore.report import page_data, page_text
from tests.report.made_runs import write_run
from tests.web.conftest import Report, Watched, elsewhere

if TYPE_CHECKING:
    from playwright.sync_api import Page

STEPS = 20
CURVES = {
    "success that falls": np.r_[np.linspace(0, 1, 10), np.full(5, 0.2), np.full(5, 1.0)],
    "small drop": np.r_[np.linspace(0, 0.5, 10), np.linspace(0.4, 0.6, 10)],
    "undone": np.r_[np.linspace(0, 0.9, 12), np.full(8, 0.1)],
    "stalls": np.r_[np.linspace(0, 0.3, 6), np.full(14, 0.3)],
}
PREFIX = "a/very/long/path/to/recordings/of/the/robot/"


def made(folder: Path, names: list[str], success: Callable[[str], bool | None]) -> str:
    """The address of a page of these curves."""

    def change(number: int, record: dict[str, Any]) -> None:
        name = names[number]
        record["id"] = f"{PREFIX}{number:02d}/{name.replace(' ', '_')}/front"
        record["episode"]["success"] = success(name)
        record["judgement"]["curve"]["progress"] = CURVES[name].tolist()

    run = write_run(folder / "run", len(names), steps=STEPS, tasks=1, policies=1, change=change)
    page = folder / "page.html"
    page.write_text(elsewhere(lambda: page_text(page_data([run]))), encoding="utf-8")
    return page.as_uri()


def opened(page: Page) -> tuple[str, int]:
    article = page.locator("article")
    return article.get_attribute("data-episode") or "", int(article.get_attribute("data-frame") or -1)


@pytest.mark.parametrize(
    ("names", "episode", "frame", "words"),
    [
        (["success that falls", "small drop", "stalls", "undone"], "03/undone", 11, "Largest drop: 90 % "),
        (["success that falls", "stalls"], "01/stalls", 5, "Longest stall"),
    ],
)
def test_it_opens_on_the_worst_failure_at_its_worst_time(
    names: list[str], episode: str, frame: int, words: str, tmp_path: Path, watched: Callable[..., Watched]
) -> None:
    address = made(tmp_path, names, lambda name: name.startswith("success"))
    page = watched().goto(f"{address}#/explorer")
    assert opened(page) == (f"{PREFIX}{episode}/front", frame)
    assert words in page.locator(".jump-status").inner_text()
    page.keyboard.press("p")
    assert opened(page)[1] == 0


def test_without_a_failure_it_opens_at_the_first_value(
    tmp_path: Path, watched: Callable[..., Watched]
) -> None:
    address = made(tmp_path, ["success that falls", "success that falls"], lambda _: True)
    page = watched().goto(f"{address}#/explorer")
    assert opened(page)[0].startswith(f"{PREFIX}00/")
    assert "no value yet" not in page.locator(".live").inner_text()


def test_the_list_says_what_its_marks_and_numbers_are_and_keeps_what_differs_of_an_id(
    tmp_path: Path, watched: Callable[..., Watched]
) -> None:
    address = made(
        tmp_path,
        ["success that falls", "undone", "stalls"],
        lambda name: {"success that falls": True, "undone": False}.get(name),
    )
    page = watched().goto(f"{address}#/explorer")
    rows = [text.split("\n") for text in page.locator(".list-row").all_inner_texts()]
    ids, numbers, marks = zip(*((row[0], row[1], row[-1]) for row in rows), strict=True)
    assert ids[1].endswith("01/undone…")
    assert len(set(ids)) == 3
    assert [number.strip() for number in numbers] == ["ends at 100 %", "ends at 10 %", "ends at 30 %"]
    assert list(marks) == [
        "✓ succeeds by label and judge",
        "✗ fails by label and judge",
        "? no label✗ fails by judge",
    ]
    page.locator(".list-controls select[name=sort]").select_option("MP")
    assert "MP 100.0" in page.locator(".list-row").first.inner_text()
    tags = page.locator(".tags .tag").all_inner_texts()
    assert "label: failure" in tags
    assert not {"none", "unknown"} & set(tags)


def test_a_judge_without_curves_shows_whose_curve_is_drawn(
    tmp_path: Path, watched: Callable[..., Watched]
) -> None:
    def no_curve(number: int, record: dict[str, Any]) -> None:
        del record["judgement"]["curve"]

    runs = [
        write_run(tmp_path / "verdicts", 4, steps=STEPS, judge="verdicts", change=no_curve),
        write_run(tmp_path / "curves", 4, steps=STEPS, judge="recorded"),
    ]
    page_file = tmp_path / "page.html"
    page_file.write_text(elsewhere(lambda: page_text(page_data(runs))), encoding="utf-8")
    page = watched().goto(f"{page_file.as_uri()}#/explorer/verdicts")
    assert page.locator(".judge-toggle").all_inner_texts() == ["recorded (success by progress)"]
    assert "by recorded" in page.locator(".live-name").inner_text()
    text = page.locator("article").inner_text()
    assert "no curve." not in text.lower()
    assert "why it fails: no curve by this judge" in text


def test_labelled_progress_is_drawn_beside_the_judged_curve_and_can_be_hidden(
    showcase: Report, watched: Callable[..., Watched]
) -> None:
    page = watched().goto(f"{showcase.address}#/explorer/watcher/steady%2Fred_00/20")
    dark = """canvas => {
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      let n = 0;
      for (let i = 0; i < data.length; i += 4)
        if (data[i + 3] > 200 && Math.max(data[i], data[i + 1], data[i + 2]) < 70) n += 1;
      return n;
    }"""
    assert page.locator(".curve canvas").evaluate(dark) > 100
    page.get_by_label("progress by labelled stages").uncheck()
    expect(page.locator(".curve canvas")).to_have_count(1)
    assert page.locator(".curve canvas").evaluate(dark) == 0


def test_on_a_phone_video_play_and_curve_are_on_the_first_screen(
    showcase: Report, watched: Callable[..., Watched]
) -> None:
    page = watched(viewport={"width": 390, "height": 844}).goto(f"{showcase.address}#/explorer")
    page.wait_for_function("() => document.querySelector('video').readyState >= 1")
    for part in ("video >> nth=0", "button.play", ".curve"):
        box = page.locator(part).bounding_box()
        assert box is not None
        assert box["y"] >= 0, part
        assert box["y"] + box["height"] <= 844, part
    below = page.locator(".live").bounding_box()
    curve = page.locator(".curve").bounding_box()
    assert below is not None
    assert curve is not None
    assert below["y"] > curve["y"]
