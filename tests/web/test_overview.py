"""The overview: its sentence, the dots with their intervals, the funnel, the worst failures and the trust card."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

import stepscore
from stepscore.analysis import run_findings, worst_time
from stepscore.episodes import open_episodes
from stepscore.report import page_data, page_text
from stepscore.runs import Run, open_run
from tests.analysis.findings.planted import planted
from tests.analysis.findings.test_first_failures import with_subgoals
from tests.report.made_runs import write_run
from tests.web.conftest import Report, Watched, elsewhere
from tests.web.showcase import Watcher, write_rollouts
from tests.web.videos import served

if TYPE_CHECKING:
    from playwright.sync_api import Page

Opened = Callable[..., Watched]


def made(folder: Path, runs: Sequence[Run]) -> str:
    """The address of a page of these runs."""
    page = folder / "page.html"
    page.write_text(elsewhere(lambda: page_text(page_data(runs))), encoding="utf-8")
    return page.as_uri()


def one_judge_twice(folder: Path) -> list[Run]:
    """Runs of one judge with two options."""
    episodes = open_episodes(write_rollouts(folder / "rollouts", scenes=1))
    return [
        stepscore.score(episodes, Watcher(noise=noise), out=folder / f"noise-{noise}")
        for noise in (0.0, 0.08)
    ]


def texts(page: Page, selector: str) -> list[str]:
    return [text.strip() for text in page.locator(selector).all_inner_texts()]


class TestOpening:
    def test_it_opens_on_the_sentences_of_the_analysis(self, showcase: Report, watched: Opened) -> None:
        page = watched().goto(showcase.address)
        found = elsewhere(lambda: run_findings(open_run(showcase.runs[0])))
        assert page.locator("main.view-overview h1").inner_text() == " ".join(found.opening.sentences)
        assert page.locator(".headline .limits").inner_text() == " ".join(found.opening.notes)
        assert {text.split("\n")[0]: text.split("\n")[1] for text in texts(page, ".aspects li")} == {
            one.headline: one.sentence for one in found.trust.aspects
        }
        phrases = {one.policy: one.phrase for one in found.first_failures}
        shown = page.locator(".standings li[data-policy]").evaluate_all(
            "rows => rows.map((row) => [row.dataset.policy, row.querySelector('.phrase').textContent])"
        )
        assert dict(shown) == phrases

    @pytest.mark.parametrize(
        ("outcomes", "options", "said"),
        [
            ({"a": [1] * 12, "b": [0] * 12}, {"scenes": True}, "a succeeds more often than b."),
            (
                {"a": [1, 0] * 6, "b": [0, 1] * 6},
                {"scenes": True},
                "a and b cannot be told apart with 12 rollouts each.",
            ),
            ({"a": [1] * 2, "b": [0] * 2}, {}, "too few to show any difference, however large."),
            (
                {"a": [1] * 12, "b": [0] * 12},
                {"labelled": False},
                "By the judge, a succeeds more often than b.",
            ),
            ({"a": [1] * 6 + [None] * 8, "b": [1] * 2 + [0] * 12}, {}, "cannot be told apart"),
            ({"a": [1] * 7 + [0]}, {}, "a succeeds in 7 of 8 rollouts (95 % interval 53 to 98 %)."),
            ({"a": [1]}, {}, "One rollout does not show how often the policy succeeds."),
            ({"a": [None] * 4}, {"labelled": False}, "Nothing is known of 4 rollouts"),
        ],
    )
    def test_a_planted_run_is_said_what_it_shows_and_drawn_without_an_error(
        self, outcomes: Any, options: Any, said: str, tmp_path: Path, watched: Opened
    ) -> None:
        seen = watched()
        page = seen.goto(made(tmp_path, [planted(tmp_path / "run", outcomes, **options)]))
        assert said in page.locator("h1").inner_text()
        assert page.locator(".standings li[data-policy]").count() == len(outcomes)
        assert seen.errors == []

    def test_an_uncalibrated_judge_without_labels_is_not_said_to_be_trusted(
        self, tmp_path: Path, watched: Opened
    ) -> None:
        run = planted(tmp_path / "run", {"a": [1] * 12, "b": [0] * 12}, labelled=False)
        page = watched().goto(made(tmp_path, [run]))
        assert "success is the judge's verdict (uncalibrated)" in page.locator(".limits").inner_text()
        assert "is unknown: no labels to compare it with" in page.locator(".trust").inner_text()
        assert page.locator("[data-answer=yes]").count() == 0


class TestPolicies:
    def test_where_labels_are_partial_each_dot_has_its_own_n(self, tmp_path: Path, watched: Opened) -> None:
        outcomes: dict[str | None, list[int | None]] = {"a": [1] * 9 + [None] * 3, "b": [0] * 4 + [None] * 8}
        page = watched().goto(made(tmp_path, [planted(tmp_path / "run", outcomes)]))
        text = page.locator(".policies").inner_text()
        assert "rollouts each" not in text
        assert "9 of 12 rollouts" in text
        assert "4 of 12 rollouts" in text

    def test_each_dot_has_the_interval_of_metrics_and_no_n_in_every_cell(
        self, showcase: Report, watched: Opened
    ) -> None:
        page = watched().goto(showcase.address)
        (board, *_) = elsewhere(lambda: page_data([open_run(showcase.runs[0])]))["boards"]
        cells = {
            group["policy"]: group["cells"][board["findings"]["opening"]["metric"]]
            for group in board["overall"]
        }
        shown = page.locator(".standings li[data-policy]").evaluate_all(
            """rows => rows.map((row) => {
                 const { value, lo, hi, n } = row.querySelector(".measure").dataset;
                 return [row.dataset.policy, [value, lo, hi, n].map(Number)];
               })"""
        )
        assert dict(shown) == {policy: list(cell[:4]) for policy, cell in cells.items()}
        assert "n 6" not in page.locator(".policies").inner_text()
        assert "6 rollouts each" in page.locator(".policies").inner_text()
        boxes = page.locator(".standings .scale").evaluate_all(
            """scales => scales.map((scale) => {
                 const [line, dot] = [scale, scale.querySelector(".dot")].map((e) => e.getBoundingClientRect());
                 return (dot.x + dot.width / 2 - line.x) / line.width;
               })"""
        )
        assert boxes == pytest.approx([values[0] for _, values in shown], abs=0.02)

    def test_the_best_comes_first_and_the_funnel_has_the_share_of_each_subgoal(
        self, tmp_path: Path, watched: Opened
    ) -> None:
        rows = [(1, 1, 1)] * 3 + [(1, 0, 0)] * 4 + [(0, 0, 0)]
        run = planted(
            tmp_path / "run", {"bad": [0] * 8, "good": [1] * 3 + [0] * 5}, change=with_subgoals(rows)
        )
        page = watched().goto(made(tmp_path, [run]))
        names = page.locator(".standings li[data-policy]").evaluate_all(
            "rows => rows.map((r) => r.dataset.policy)"
        )
        assert names == ["good", "bad"]
        first = page.locator(".standings li").first.locator(".funnel")
        assert texts(page, ".standings li:first-child .column") == ["88", "38", "38"]
        heights = first.locator(".column").evaluate_all(
            """columns => columns.map((column) => column.querySelector(".bar").getBoundingClientRect().height /
                 column.querySelector(".room").clientHeight)"""
        )
        assert heights == pytest.approx([7 / 8, 3 / 8, 3 / 8], abs=0.02)
        assert "reach: 87.5 %" in (first.get_attribute("aria-label") or "")

    def test_without_subgoals_the_bars_are_quarters_of_the_judges_progress(
        self, tmp_path: Path, watched: Opened
    ) -> None:
        run = planted(tmp_path / "run", {"a": [1] * 3 + [0]})
        page = watched().goto(made(tmp_path, [run]))
        assert (
            "25, 50, 75 and 100 % of progress, by the judge, uncalibrated"
            in page.locator(".policies").inner_text()
        )
        assert texts(page, ".column") == ["75", "75", "75", "0"]


class TestWorstFailures:
    def test_each_has_a_frame_of_its_worst_time_and_opens_the_explorer_there(
        self, showcase: Report, watched: Opened
    ) -> None:
        seen = watched()
        page = seen.goto(showcase.address)
        found = elsewhere(lambda: run_findings(open_run(showcase.runs[0]))).worst
        cards = page.locator(".failure")
        assert cards.count() == len(found) > 1
        for place, failure in enumerate(found):
            card = cards.nth(place)
            assert card.get_attribute("data-episode") == failure.episode_id
            assert failure.text in card.inner_text().replace("\u00a0", " ")
            assert card.locator("img").evaluate("image => image.naturalWidth > 50")
        card = cards.first
        time_s = float(card.get_attribute("data-time") or "nan")
        card.click()
        page.wait_for_selector("main.view-explorer article")
        article = page.locator("article")
        assert article.get_attribute("data-episode") == found[0].episode_id
        assert int(article.get_attribute("data-frame") or -1) == int(time_s * 12 + 1e-6)
        page.wait_for_function("() => document.querySelector('video').dataset.frame !== undefined")
        assert seen.errors == []

    def test_the_server_shows_the_same_frames(self, showcase: Report, watched: Opened) -> None:
        seen = watched()
        with served(showcase.runs[0]) as address:
            page = seen.goto(address)
            shown = page.locator(".failure img").evaluate_all("images => images.map((i) => i.naturalWidth)")
        assert shown
        assert all(shown)
        assert seen.errors == []

    def test_frames_are_few_and_small_and_those_on_screen_at_the_worst_time(self, showcase: Report) -> None:
        text = showcase.page.read_text(encoding="utf-8")
        match = re.search(r'id="stepscore-data">(.*?)</script>', text, re.DOTALL)
        assert match is not None
        data = json.loads(match.group(1))
        assert 0 < len(data["posters"]) <= 24
        assert sum(map(len, data["posters"])) < 24 * 20_000
        failure = data["boards"][0]["findings"]["worst"][0]
        image = Image.open(io.BytesIO(base64.b64decode(data["posters"][failure["poster"]])))
        assert max(image.size) <= 240
        run = open_run(showcase.runs[0])
        (row,) = [
            r
            for r in run.episodes().to_pylist()
            if r["episode_id"] == data["episodes"]["id"][failure["episode"]]
        ]
        frames = _frames(row)
        worst = elsewhere(lambda: run_findings(run)).worst[0].worst
        assert worst is not None
        got = np.asarray(image.convert("RGB"), dtype=float)
        distances = [np.abs(frame - got).mean() for frame in frames]
        nearest = int(np.argmin(distances))
        assert distances[int(worst.time_s * 12 + 1e-6)] == pytest.approx(distances[nearest], abs=0.5)

    def test_a_page_without_videos_has_curves_and_no_frames(self, tmp_path: Path, watched: Opened) -> None:
        page = watched().goto(made(tmp_path, [write_run(tmp_path / "run", 20, steps=20)]))
        assert page.locator(".failure .small-curve path").count() > 1
        assert page.locator(".failure img").count() == 0

    def test_the_time_to_look_at_is_that_of_the_analysis(
        self, tmp_path: Path, watched: Opened, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        curves = _odd_curves()

        def change(number: int, record: dict[str, Any]) -> None:
            record["id"] = f"episode-{number:03d}"
            record["episode"] |= {"policy": f"policy {number}", "task": f"task {number}", "success": False}
            progress = curves[number]
            curve = record["judgement"]["curve"]
            # Quarters of a second: their tenths are ties, which Python and browsers round differently.
            curve["time_s"] = [(i + 1) / 4 for i in range(len(progress))]
            curve["progress"] = [None if np.isnan(p) else float(p) for p in progress]

        monkeypatch.setattr("stepscore.report.page.leaderboards.findings.MOST_FAILURES", len(curves))
        run = write_run(tmp_path / "run", len(curves), steps=30, change=change)
        page = watched().goto(made(tmp_path, [run]))
        table = run.curves().to_pydict()
        ids, times = np.array(table["episode_id"]), np.array(table["time_s"])
        progress = np.array(table["progress"], dtype=float)
        assert page.locator(".failure").count() == len(curves)
        kinds = set()
        for card in page.locator(".failure").all():
            own = ids == card.get_attribute("data-episode")
            want = worst_time(times[own], progress[own])
            shown = card.get_attribute("data-time")
            kinds.add(want.kind if want else None)
            if want is None:
                assert shown is None
                continue
            assert float(shown or "nan") == pytest.approx(want.time_s, abs=1e-6), want
            assert want.text in card.inner_text().replace("\u00a0", " "), want
        assert kinds == {"undone", "stalls", "ends", None}


def _frames(row: dict[str, Any]) -> list[np.ndarray]:
    """Every frame of an episode's main view."""
    from stepscore.episodes import open_episodes

    episode = open_episodes(row["source"])[row["episode_id"]]
    view = next(iter(episode.views.values()))
    return list(view.read(range(view.info().n_frames), 240).astype(float))


def _odd_curves() -> list[np.ndarray]:
    """Drops, stalls, ends, ties, unknown samples, one sample, and random walks around the thresholds."""
    rng = np.random.default_rng(3)
    fixed = [
        np.linspace(0, 1, 30),
        np.r_[np.linspace(0, 0.9, 12), np.full(8, 0.1)],
        np.r_[np.linspace(0, 0.3, 6), np.full(14, 0.3)],
        np.r_[0.5, 0.4, 0.5, 0.4, np.linspace(0.5, 0.9, 10)],
        np.r_[np.linspace(0, 0.995, 25), 0.996],
        np.full(10, 0.0),
        np.linspace(0, 0.625, 30),
        np.r_[np.nan, 0.2, np.nan, 0.8, 0.1, np.nan],
        np.array([0.4]),
    ]
    walks = [
        np.clip(np.cumsum(rng.normal(0.02, scale, 30)), 0, 1)
        for scale in (0.01, 0.02, 0.03, 0.05, 0.08)
        for _ in range(2)
    ]
    coarse = [np.round(walk * 20) / 20 for walk in walks[:6]]
    return [*fixed, *walks, *coarse]


class TestWarningsAndDetails:
    def test_warnings_take_one_line_and_unfold(self, watched: Opened, tmp_path: Path) -> None:
        runs = elsewhere(lambda: one_judge_twice(tmp_path))
        page = watched().goto(made(tmp_path, runs))
        box = page.locator(".warnings").bounding_box()
        assert box is not None
        assert box["height"] < 45
        assert not page.locator(".warning[data-kind=protocols]").is_visible()
        page.locator(".warnings > summary").click()
        assert (
            "judge.options.noise is 0.0, not 0.08"
            in page.locator(".warning[data-kind=protocols]").inner_text()
        )

    def test_judges_that_are_meant_to_differ_bring_no_warning(
        self, showcase: Report, watched: Opened
    ) -> None:
        page = watched().goto(showcase.address)
        assert page.locator(".warning[data-kind=protocols]").count() == 0

    def test_what_is_folded_has_precision_recall_and_f1_and_each_baseline_once(
        self, showcase: Report, watched: Opened
    ) -> None:
        page = watched().goto(showcase.address)
        assert not page.locator(".agreement").is_visible()
        page.get_by_text("Agreement of judges with labels").click()
        table = page.locator(".agreement table").first
        heads = [text.split("\u00a0")[0] for text in table.locator("thead th").all_inner_texts()]
        measures = [
            "accuracy",
            "balanced accuracy",
            "precision",
            "recall",
            "F1",
            "MCC",
            "FPR",
            "FNR",
            "kappa",
        ]
        assert heads == ["Judge", "n", *measures]
        judges = table.locator("tbody th").all_inner_texts()
        assert len(judges) == len(set(judges)) == 5
        (run,) = [open_run(showcase.runs[0])]
        data = elsewhere(lambda: page_data([run]))
        row = data["judge_agreement"][0]
        shown = (
            table.locator("tbody tr")
            .first.locator("td.est")
            .evaluate_all("cells => cells.map((cell) => Number(cell.dataset.value))")
        )
        assert shown == [row["cells"][f"success: {name}"][0] for name in heads[2:]]

    def test_every_metric_name_has_its_direction(self, showcase: Report, watched: Opened) -> None:
        seen = watched()
        for view, tables in (
            ("overview", ".folded table.numbers:not(.runs)"),
            ("leaderboard?columns=all", "table.board"),
            ("process", "table.numbers"),
        ):
            page = seen.goto(f"{showcase.address}#/{view}")
            heads = page.locator(f"{tables} thead th.num").evaluate_all(
                "heads => heads.map((h) => h.textContent)"
            )
            plain = {"Rank", "Episodes", "n"}
            named = [text for text in heads if text not in plain]
            assert named
            undirected = [text for text in named if "↑" not in text and "↓" not in text]
            assert all(text.startswith(("coverage", "points", "duration")) for text in undirected), undirected
        assert any("CRA\u00a0↓" in text for text in heads)
        page = seen.goto(f"{showcase.address}#/subgoals")
        page.locator("details.intervals > summary").first.click()
        heads = texts(page, ".source[data-source=judge] >> nth=0 >> h4")
        assert [head.split("\u00a0")[1][0] for head in heads] == ["↑", "↑", "↓"]
        assert all("↑" in text for text in texts(page, ".matrix tr.group th"))


class TestSubgoals:
    def test_the_judge_with_verdicts_is_shown_unless_another_is_chosen(
        self, tmp_path: Path, watched: Opened
    ) -> None:
        rows = [(1, 1, 0)] * 6
        runs = [
            planted(tmp_path / "curves", {"a": [1] * 6}, judge="curves"),
            planted(
                tmp_path / "verdicts",
                {"a": [1] * 6},
                judge="verdicts",
                change=with_subgoals(rows, by="judge"),
            ),
        ]
        page = watched().goto(f"{made(tmp_path, runs)}#/subgoals")
        assert page.locator("select[name=judge] option:checked").inner_text().startswith("verdicts")
        assert page.locator("table.matrix [data-source=judge]").count() == 1
        # The other views stay with the first judge.
        page.get_by_role("link", name="Leaderboard").click()
        page.wait_for_selector("main.view-leaderboard")
        assert page.locator("select[name=judge] option:checked").inner_text().startswith("curves")

    def test_the_matrix_has_the_share_that_reaches_each_subgoal_with_n_once_a_row(
        self, showcase: Report, watched: Opened
    ) -> None:
        page = watched().goto(f"{showcase.address}#/subgoals")
        data = elsewhere(lambda: page_data([open_run(showcase.runs[0])]))
        expected = {
            (table["task"], table["source"], table["policy"]): [list(cell[:4]) for cell in table["reached"]]
            for table in data["boards"][0]["subgoals"]
        }
        shown = page.locator("table.matrix tbody tr[data-policy]").evaluate_all(
            """rows => rows.map((row) => [
                 row.closest("section").dataset.task, row.closest("tbody").dataset.source, row.dataset.policy,
                 [...row.querySelectorAll("td.est")].map(({ dataset: { value, lo, hi, n } }) =>
                   [value, lo, hi, n].map((text) => (text === undefined ? null : Number(text)))),
                 row.cells[1].textContent,
               ])"""
        )
        assert {(task, source, policy): cells for task, source, policy, cells, _ in shown} == expected
        for *_, cells, n in shown:
            assert int(n) == max(cell[3] for cell in cells)
        row = page.locator("table.matrix tr[data-policy=timid]").first
        row.locator("td.est a").first.click()
        page.wait_for_selector("main.view-explorer .list-row")
        assert all(
            name.startswith("timid/")
            for name in page.locator(".list-row").evaluate_all(
                "rows => rows.map((row) => row.dataset.episode)"
            )
        )

    def test_n_stands_once_beside_the_policy(self, showcase: Report, watched: Opened) -> None:
        page = watched().goto(f"{showcase.address}#/subgoals")
        page.locator("details.intervals > summary").first.click()
        first = page.locator("section.task").first.locator(".source[data-source=label]")
        assert {text.strip() for text in first.locator(".legend small").all_inner_texts()} == {"n 2"}
        assert first.locator("[data-part=reached] .dots-value small").count() == 0


def test_an_episode_that_two_runs_hold_counts_once_in_what_the_page_computes(
    tmp_path: Path, watched: Opened
) -> None:
    def again(number: int, record: dict[str, Any]) -> None:
        record["episode"]["n_frames"] = 100

    runs = [
        write_run(tmp_path / name, 40, steps=20, tasks=1, policies=1, source=f"rollouts-{name}", change=again)
        for name in ("a", "b")
    ]
    failures = sum(not row["success"] for row in runs[0].episodes().to_pylist())
    assert failures > 1
    address = made(tmp_path, runs)
    page = watched().goto(f"{address}#/leaderboard?task=task%200&success=label0")
    assert page.locator("table.board tbody td[data-label^=MP]").get_attribute("data-n") == str(failures)
    page = watched().goto(f"{address}#/process")
    assert "40 episodes" in page.locator(".overlay figcaption").first.inner_text()


def test_of_a_judge_that_looks_at_no_frame_the_page_shows_labels_and_says_so(
    tmp_path: Path, watched: Opened
) -> None:
    run = write_run(tmp_path / "clock", 24, steps=20, tasks=2, policies=2, judge="linear-time")
    seen = watched()
    page = seen.goto(made(tmp_path, [run]))
    assert "linear-time looks at no frame" in page.locator(".headline .limits").inner_text()
    phrases = texts(page, ".standings .phrase")
    assert len(phrases) == 2
    assert all(text.startswith(("fails in ", "no failure in ")) for text in phrases), phrases
    assert set(page.locator("a.failure").evaluate_all("all => all.map((a) => a.dataset.time ?? '')")) == {""}
    assert page.locator("a.failure .small-curve").count() == 0
    page.get_by_role("link", name="Leaderboard").click()
    heads = page.locator("table.board th[data-metric]").evaluate_all(
        "all => all.map((th) => th.dataset.metric)"
    )
    assert heads == ["success_label", "duration_s"]
    page.get_by_role("link", name="Process").click()
    page.wait_for_selector("main.view-process")
    assert "linear-time looks at no frame" in page.locator(".baseline-note").inner_text()
    assert page.locator("main table, main canvas").count() == 0
