"""The report page in a browser: what each view shows, finds, links to and lets through."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from stepscore.cli.app import app
from stepscore.report.page.schema import FORMAT
from tests.web.conftest import Report, Watched, elsewhere
from tests.web.showcase import GOALS, HOSTILE
from tests.web.videos import served

if TYPE_CHECKING:
    from playwright.sync_api import Page

VIEWS = ("overview", "leaderboard", "subgoals", "process", "explorer")
POLICIES = {"hasty", "steady", "timid"}


def metrics_json(run: Path, *options: str) -> list[dict[str, Any]]:
    """What ``stepscore metrics RUN --json`` prints."""
    result = elsewhere(lambda: CliRunner().invoke(app, ["metrics", str(run), "--json", *options]))
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def rows_of(page: Page) -> list[str]:
    return page.locator("table.board tbody tr").evaluate_all("rows => rows.map((row) => row.dataset.policy)")


def column(page: Page, metric: str) -> list[float]:
    """Values of one leaderboard column from top to bottom."""
    return page.evaluate(
        """metric => {
          const heads = [...document.querySelectorAll("table.board thead th")];
          const at = heads.findIndex((head) => head.dataset.metric === metric);
          const rows = [...document.querySelectorAll("table.board tbody tr")];
          return rows.map((row) => Number(row.cells[at].dataset.value));
        }""",
        metric,
    )


class TestOpening:
    def test_every_view_opens_from_disk_without_an_error_or_a_request_elsewhere(
        self, showcase: Report, watched: Callable[..., Watched]
    ) -> None:
        seen = watched()
        for view in VIEWS:
            page = seen.goto(f"{showcase.address}#/{view}")
            page.wait_for_selector(f"main.view-{view} h1")
        page.wait_for_function("() => document.querySelector('video').readyState >= 2")
        assert seen.errors == []
        assert {address.split(":", 1)[0] for address in seen.requests} <= {"file", "data"}

    def test_every_view_opens_from_the_server_likewise(
        self, showcase: Report, watched: Callable[..., Watched]
    ) -> None:
        seen = watched()
        with served(showcase.runs[0]) as address:
            for view in VIEWS:
                page = seen.goto(f"{address}#/{view}")
                page.wait_for_selector(f"main.view-{view} h1")
            page.wait_for_function("() => document.querySelector('video').readyState >= 2")
        assert seen.errors == []
        assert seen.hosts() == {"127.0.0.1"}

    def test_a_page_with_data_of_another_format_says_so(
        self, showcase: Report, watched: Callable[..., Watched], tmp_path: Path
    ) -> None:
        other = tmp_path / "old.html"
        text = showcase.page.read_text(encoding="utf-8")
        assert f'{{"format":{FORMAT},' in text
        other.write_text(text.replace(f'{{"format":{FORMAT},', '{"format":0,', 1))
        page = watched().page
        page.goto(other.as_uri())
        assert "stepscore report RUN -o DIR" in page.get_by_role("alert").inner_text()


class TestGoldenValues:
    def test_every_number_of_the_leaderboard_is_that_of_metrics_json(
        self, showcase: Report, watched: Callable[..., Watched]
    ) -> None:
        page = watched().goto(f"{showcase.address}#/leaderboard?columns=all")
        expected = {
            (r["group"]["policy"], r["metric"]): r for r in metrics_json(showcase.runs[0], "--by", "policy")
        }
        shown = page.evaluate(
            """() => {
              const names = [...document.querySelectorAll("table.board thead th")].map((head) => head.dataset.metric);
              return [...document.querySelectorAll("table.board tbody tr")].flatMap((row) => [...row.cells].flatMap(
                (cell, i) => names[i] && cell.dataset.n ? [[row.dataset.policy, names[i], cell.dataset.value ?? null,
                  cell.dataset.lo ?? null, cell.dataset.hi ?? null, cell.dataset.n]] : []));
            }"""
        )
        assert len(shown) >= 3 * 12
        for policy, metric, *numbers in shown:
            row = expected[policy, metric]
            got = [None if number is None else float(number) for number in numbers]
            assert got == [row["value"], row["lo"], row["hi"], row["n"]], (policy, metric)

    def test_every_number_of_an_episode_is_that_of_metrics_json(
        self, showcase: Report, watched: Callable[..., Watched]
    ) -> None:
        page = watched().goto(f"{showcase.address}#/explorer/watcher")
        page.get_by_role("tab", name="Numbers").click()
        shown = page.evaluate(
            """() => [...document.querySelectorAll(".tab-body td[data-run=watcher]")].map(
                 (cell) => [cell.dataset.metric, cell.dataset.value])"""
        )
        name = page.locator("article").get_attribute("data-episode")
        rows = metrics_json(showcase.runs[0], "--show", "episodes")
        (row,) = [row for row in rows if row["episode_id"] == name]
        values = row.get("values", row)
        assert len(shown) >= 10
        for metric, text in shown:
            assert (None if text == "" else float(text)) == values[metric], metric


class TestLeaderboard:
    def test_a_first_press_sorts_the_good_direction_first_and_a_second_turns_it(
        self, showcase: Report, watched: Callable[..., Watched]
    ) -> None:
        page = watched().goto(f"{showcase.address}#/leaderboard")
        for metric, descending in (("MP", True), ("CRA", False)):
            head = page.locator(f"th[data-metric={metric}] button")
            head.click()
            assert column(page, metric) == sorted(column(page, metric), reverse=descending)
            head.click()
            assert column(page, metric) == sorted(column(page, metric), reverse=not descending)

    def test_policies_whose_intervals_overlap_share_a_rank(
        self, showcase: Report, watched: Callable[..., Watched]
    ) -> None:
        page = watched().goto(f"{showcase.address}#/leaderboard?sort=success_label")
        ranks = page.locator("td.rank").all_inner_texts()
        assert ranks == ["=1", "=1", "=1"]

    def test_filters_narrow_the_table_and_live_in_the_address(
        self, showcase: Report, watched: Callable[..., Watched]
    ) -> None:
        page = watched().goto(f"{showcase.address}#/leaderboard")
        page.get_by_label("policy or task").fill("stea")
        assert rows_of(page) == ["steady"]
        page.get_by_label("policy or task").fill("")
        page.locator("select[name=task]").select_option(index=2)
        page.locator("select[name=success]").select_option("label0")
        page.locator("th[data-metric=STR] button").click()
        before = page.locator("table.board").inner_text()
        again = watched().goto(page.url)
        assert again.locator("table.board").inner_text() == before
        page.locator("select[name=success]").select_option("")
        page.locator("select[name=policy]").select_option("timid")
        assert rows_of(page) == ["timid"]

    def test_a_cell_leads_to_the_episodes_behind_it(
        self, showcase: Report, watched: Callable[..., Watched]
    ) -> None:
        page = watched().goto(f"{showcase.address}#/leaderboard?success=label0")
        page.locator("tr[data-policy=timid] td[data-label^='MP'] a").click()
        page.wait_for_selector("main.view-explorer .list-row")
        labels = page.locator(".list-row .mark:first-child").all_inner_texts()
        names = page.locator(".list-row").evaluate_all("rows => rows.map((row) => row.dataset.episode)")
        assert labels
        assert all(text.startswith("✗") for text in labels)
        assert all(name.startswith("timid/") for name in names)

    def test_the_table_downloads_as_csv_and_json(
        self, showcase: Report, watched: Callable[..., Watched]
    ) -> None:
        page = watched().goto(f"{showcase.address}#/leaderboard")
        files = {}
        for kind in ("CSV", "JSON"):
            with page.expect_download() as download:
                page.get_by_role("button", name=kind).click()
            files[kind] = Path(download.value.path()).read_text(encoding="utf-8")
        rows = json.loads(files["JSON"])
        table = list(csv.DictReader(io.StringIO(files["CSV"])))
        assert {row["policy"] for row in rows} == POLICIES
        assert [float(row["value"]) for row in table] == [row["value"] for row in rows]
        expected = {(r["group"]["policy"], r["metric"]): r["value"] for r in metrics_json(showcase.runs[0])}
        assert all(row["value"] == expected[row["policy"], row["metric"]] for row in rows)


class TestSubgoalsAndProcess:
    def test_each_task_has_its_vector_with_intervals_by_judge_and_by_label(
        self, showcase: Report, watched: Callable[..., Watched]
    ) -> None:
        page = watched().goto(f"{showcase.address}#/subgoals")
        assert page.locator("section.task").count() == 3
        first = page.locator("section.task").first
        for source in ("judge", "label"):
            for part in ("reached", "given_previous", "fails_first"):
                lines = first.locator(f"[data-source={source}] [data-part={part}] .dots-line")
                assert lines.count() == len(POLICIES) * len(GOALS)
        assert first.locator(".whisker").count() > 0

    def test_a_dot_leads_to_the_episodes_that_fail_there_first(
        self, showcase: Report, watched: Callable[..., Watched]
    ) -> None:
        page = watched().goto(f"{showcase.address}#/subgoals")
        for summary in page.locator("details.intervals > summary").all():
            summary.click()
        dots = page.locator("[data-part=fails_first] a.dots-line").all()
        dot = next(dot for dot in dots if float(dot.get_attribute("data-value") or 0) > 0)
        share, n = float(dot.get_attribute("data-value") or 0), int(dot.get_attribute("data-n") or 0)
        dot.click()
        page.wait_for_selector("main.view-explorer .list-row")
        assert page.locator(".list-row").count() == round(share * n)

    def test_failures_have_failure_modes_with_advice_and_curves_a_median(
        self, showcase: Report, watched: Callable[..., Watched]
    ) -> None:
        page = watched().goto(f"{showcase.address}#/process")
        assert page.locator(".advice li").count() >= 2
        assert page.locator(".overlay canvas").count() == len(POLICIES)
        assert "median at the end" in (
            page.locator(".overlay canvas").first.get_attribute("aria-label") or ""
        )


class TestExplorer:
    def test_search_filter_and_sort_choose_the_listed_episodes(
        self, showcase: Report, watched: Callable[..., Watched]
    ) -> None:
        page = watched().goto(f"{showcase.address}#/explorer")
        assert page.locator(".counted").inner_text() == "18 episodes"
        page.get_by_label("id, task, policy, instruction").fill("timid green")
        assert page.locator(".counted").inner_text() == "2 episodes"
        page.get_by_label("id, task, policy, instruction").fill("")
        page.locator(".list-controls select[name=sort]").select_option("CRA")
        values = [float(text) for text in page.locator(".list-row .row-side").all_inner_texts()]
        assert values == sorted(values)
        page.locator("button.order").click()
        values = [float(text) for text in page.locator(".list-row .row-side").all_inner_texts()]
        assert values == sorted(values, reverse=True)

    def test_a_deep_link_opens_run_episode_and_frame_and_the_address_follows(
        self, showcase: Report, watched: Callable[..., Watched]
    ) -> None:
        page = watched().goto(f"{showcase.address}#/explorer/second-eye/timid%2Fgreen_01/17")
        article = page.locator("article")
        assert article.get_attribute("data-episode") == "timid/green_01"
        assert article.get_attribute("data-frame") == "17"
        page.locator(".pane").click(position={"x": 3, "y": 3})
        page.keyboard.press("ArrowRight")
        page.wait_for_function("() => location.hash.includes('timid%2Fgreen_01/18')")
        page.reload()
        assert page.locator("article").get_attribute("data-frame") == "18"

    def test_a_question_mark_shows_the_keys_and_escape_leaves_the_search_box(
        self, showcase: Report, watched: Callable[..., Watched]
    ) -> None:
        page = watched().goto(f"{showcase.address}#/explorer/watcher/hasty%2Fred_00/0")
        page.locator(".pane").click(position={"x": 3, "y": 3})
        page.keyboard.press("?")
        assert page.locator("details.keys p").is_visible()
        page.keyboard.press("?")
        assert not page.locator("details.keys p").is_visible()
        page.keyboard.press("/")
        page.keyboard.type("red?")
        assert not page.locator("details.keys p").is_visible()
        assert page.evaluate("() => document.activeElement.tagName") == "INPUT"
        page.keyboard.press("Escape")
        assert page.evaluate("() => document.activeElement.tagName") != "INPUT"
        page.keyboard.press("?")
        assert page.locator("details.keys p").is_visible()

    def test_the_keyboard_steps_plays_and_moves_between_episodes(
        self, showcase: Report, watched: Callable[..., Watched]
    ) -> None:
        page = watched().goto(f"{showcase.address}#/explorer/watcher/hasty%2Fred_00/0")
        page.locator(".pane").click(position={"x": 3, "y": 3})
        article = page.locator("article")
        for key, frame in (
            ("ArrowRight", 1),
            ("Shift+ArrowRight", 11),
            ("ArrowLeft", 10),
            ("End", 47),
            ("Home", 0),
        ):
            page.keyboard.press(key)
            assert article.get_attribute("data-frame") == str(frame), key
        first = article.get_attribute("data-episode")
        page.keyboard.press("n")
        assert article.get_attribute("data-episode") != first
        page.keyboard.press("p")
        assert article.get_attribute("data-episode") == first
        page.locator(".list").focus()
        page.keyboard.press("ArrowDown")
        assert article.get_attribute("data-episode") != first
        page.keyboard.press("Space")
        page.wait_for_function("() => Number(document.querySelector('article').dataset.frame) > 2")
        page.keyboard.press("Space")
        assert page.get_by_role("button", name="Play", exact=True).is_visible()

    def test_jumps_lead_to_the_drop_the_stall_and_the_disagreement(
        self, showcase: Report, watched: Callable[..., Watched]
    ) -> None:
        page = watched().goto(f"{showcase.address}#/explorer?policy=hasty&success=label0")
        for jump, word in (("drop", "Largest drop"), ("stall", "stall"), ("apart", "disagreement")):
            page.locator(f"[data-jump={jump}]").click()
            assert word in page.locator(".jump-status").inner_text()
        page.locator("[data-jump=drop]").click()
        assert int(page.locator("article").get_attribute("data-frame") or 0) > 0

    def test_verdicts_show_the_reason_and_calls_the_exact_prompt(
        self, showcase: Report, watched: Callable[..., Watched]
    ) -> None:
        page = watched().goto(f"{showcase.address}#/explorer")
        lanes = page.locator(".own-lanes .lane.verdict")
        assert lanes.count() == len(GOALS)
        lanes.first.click()
        assert len(page.locator("tr.highlighted .why").inner_text()) > 5
        page.get_by_role("tab", name="Prompts and answers").click()
        assert "Does the block move?" in page.locator("pre.prompt").first.inner_text()
        assert page.locator("pre.answer").first.inner_text() == "The block moves.\n<b>yes</b>"

    def test_several_judges_are_overlaid_and_the_raw_channel_is_there_on_demand(
        self, showcase: Report, watched: Callable[..., Watched]
    ) -> None:
        page = watched().goto(f"{showcase.address}#/explorer")
        shown = page.locator(".judge-toggle").all_inner_texts()
        for text, name in zip(shown, ("watcher", "second-eye", "linear-time", "progress by"), strict=True):
            assert text.startswith(name)
        page.locator(".judges select").select_option("raw")
        assert page.locator(".judges select").input_value() == "raw"
        assert page.locator(".curve canvas").count() == 1

    def test_an_episode_that_is_not_there_is_said_so(
        self, showcase: Report, watched: Callable[..., Watched]
    ) -> None:
        page = watched().goto(f"{showcase.address}#/explorer/watcher/no%2Fsuch/3")
        assert "no episode no/such" in page.get_by_role("alert").inner_text()


@pytest.mark.parametrize(
    "view", ["explorer/watcher/steady%2Fred_01/0", "leaderboard?task=*", "subgoals", "process"]
)
def test_hostile_text_is_shown_as_text(view: str, showcase: Report, watched: Callable[..., Watched]) -> None:
    seen = watched()
    page = seen.goto(f"{showcase.address}#/{view}")
    if view.startswith("explorer"):
        page.get_by_role("tab", name="Episode").click()
        shown = page.locator(".instruction").text_content() or ""
        assert shown.startswith(HOSTILE.strip()[:40])
        assert len(shown) > 10_000
        assert (page.locator("dl.facts dd").first.text_content() or "") == shown
    assert page.evaluate("() => window.hacked") is None
    assert page.locator("script").count() == 2
    assert page.locator("img").count() == 0
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth + 1")
    assert seen.errors == []


def test_a_keyboard_reaches_everything_and_every_control_has_a_name(
    showcase: Report, watched: Callable[..., Watched]
) -> None:
    page = watched().goto(f"{showcase.address}#/explorer/watcher/hasty%2Fred_00/0")
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("button, a, select, input")].filter((control) =>
             !(control.textContent.trim() || control.ariaLabel || control.labels?.length)).length"""
    )
    assert nameless == 0
    slider = page.get_by_role("slider")
    assert slider.get_attribute("aria-valuemax") == "47"
    assert "frame 0 of 48" in (slider.get_attribute("aria-valuetext") or "")
