"""ProcVLM's way: remaining actions, then progress; and verdicts from what remains."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import stepscore
from stepscore.episodes import Episode
from stepscore.episodes.labels.subgoals import Subgoal
from stepscore.errors import OptionError
from stepscore.judges.published.procvlm import ProcVlm, done_by_point, verdicts_of
from stepscore.models import Request
from stepscore.models.mock import MockModel
from stepscore.runs.run import Run
from tests.fakes import FakeView, episode
from tests.judges.asked import frames_of, images_of, one_row, run_judge, text_of
from tests.judges.common.malformed import malformed

GOALS = (
    Subgoal("grasp the handle"),
    Subgoal("pull the drawer", mode="holds"),
    Subgoal("let go", mode="holds"),
)
NAMES = [goal.name for goal in GOALS]


def said(left: list[str], percent: float) -> str:
    """An answer in the published form."""
    if not left:
        return f"Nothing is missing, no further steps required. <progress>{percent:.2f}%</progress>"
    listed = "\n".join(f"{n}. {action}" for n, action in enumerate(left, start=1))
    end = f"Therefore, the estimated progress is <progress>{percent:.2f}%</progress>."
    return f"The following steps are required:\n{listed}\n{end}"


def by_time(answers: list[str]) -> Callable[[Request], str]:
    """A script that answers by the last frame shown: the k-th of the points gets the k-th answer."""
    points = np.round(np.linspace(0, 49, len(answers))).astype(int).tolist()
    return lambda request: answers[points.index(frames_of(request)[-1])]


def judged(out: Path, answers: list[str], subject: Episode | None = None, **options: object) -> Run:
    judge = ProcVlm(MockModel("m", script=by_time(answers)), points=len(answers), **options)  # type: ignore[arg-type]
    return run_judge(judge, subject or episode(subgoals=GOALS), out)


class TestCurve:
    def test_is_what_was_stated_beside_what_the_remaining_actions_imply(self, tmp_path: Path) -> None:
        run = judged(tmp_path, [said(NAMES, 5), said(NAMES[1:], 40), said(NAMES[2:], 70), said([], 100)])
        curve = run.curves().to_pydict()
        assert curve["progress"] == curve["stated"] == pytest.approx([0.05, 0.4, 0.7, 1.0])
        assert curve["derived"] == pytest.approx([0, 1 / 3, 2 / 3, 1])
        assert curve["remaining"] == [3, 2, 1, 0]
        assert one_row(run)["success_score"] == 1.0

    def test_an_answer_that_cannot_be_read_is_unknown_and_counted(self, tmp_path: Path) -> None:
        run = judged(tmp_path, [said(NAMES, 5), "I cannot tell.", "<progress>70</progress>"])
        curve = run.curves().to_pydict()
        assert curve["progress"] == [0.05, None, 0.7]
        assert curve["derived"] == [0.0, None, None]
        assert one_row(run)["facts"] == '{"unread": 1.0}'
        assert one_row(run)["coverage"] == pytest.approx(2 / 3)

    def test_a_value_outside_0_to_100_stays_raw(self, tmp_path: Path) -> None:
        run = judged(tmp_path, [said(NAMES, 5), said(NAMES, 140)])
        curve = run.curves().to_pydict()
        assert curve["progress"] == [0.05, None]
        assert curve["raw"] == [0.05, 1.4]
        assert one_row(run)["success_score"] is None

    def test_derived_progress_may_be_the_curve(self, tmp_path: Path) -> None:
        run = judged(tmp_path, [said(NAMES, 90), said(NAMES[1:], 95)], progress="derived")
        assert run.curves().column("progress").to_pylist() == pytest.approx([0, 1 / 3])
        assert one_row(run)["success_score"] == 0.0

    def test_without_subgoals_there_is_progress_alone(self, tmp_path: Path) -> None:
        run = judged(tmp_path, [said(["Grasp it"], 5), said([], 96)], episode())
        assert run.verdicts().num_rows == 0
        assert "derived" not in run.curves().column_names
        assert one_row(run)["success_score"] == 1.0


class TestVerdicts:
    def test_what_remains_is_not_done_and_what_does_not_is(self, tmp_path: Path) -> None:
        run = judged(tmp_path, [said(NAMES, 5), said(NAMES[1:], 40), said(["Let go."], 70)])
        rows = run.verdicts().to_pylist()
        assert [(r["answer"], r["when_s"], r["score"]) for r in rows] == [
            ("yes", pytest.approx(2.4), None),
            ("yes", pytest.approx(4.9), None),
            ("no", None, None),
        ]
        assert rows[2]["why"] == "among the remaining actions at the last moment"

    def test_an_action_in_other_words_leaves_the_rest_unknown(self) -> None:
        done = done_by_point([("let go", "tug at it")], GOALS)
        assert np.array_equal(done, [[math.nan, math.nan, 0.0]], equal_nan=True)

    def test_ever_counts_what_came_undone_and_holds_does_not(self) -> None:
        goals = (Subgoal("a", mode="ever"), Subgoal("b", mode="holds"))
        done = np.array([[0, 0], [1, 1], [0, 0]], dtype=float)
        ever, holds = verdicts_of(done, goals, np.array([0.0, 1.0, 2.0]))
        assert (ever.answer, ever.when_s) == ("yes", 1.0)
        assert ever.why.endswith("and later again")
        assert (holds.answer, math.isnan(holds.when_s)) == ("no", True)

    def test_holds_dates_from_the_start_of_the_last_run(self) -> None:
        done = np.array([[1.0], [0.0], [1.0], [1.0]])
        (verdict,) = verdicts_of(done, (Subgoal("a", mode="holds"),), np.arange(4.0))
        assert verdict.when_s == 2.0

    def test_an_unreadable_end_is_unknown(self) -> None:
        (verdict,) = verdicts_of(np.array([[0.0], [math.nan]]), (Subgoal("a"),), np.arange(2.0))
        assert (verdict.answer, verdict.why) == ("unknown", "")


class TestWindow:
    def windows(self, tmp_path: Path, **options: object) -> list[list[int]]:
        model = MockModel(said([], 100))
        run_judge(ProcVlm(model, points=4, **options), episode(), tmp_path)  # type: ignore[arg-type]
        return sorted((frames_of(request) for request in model.requests), key=lambda frames: frames[-1])

    def test_slides_over_the_judged_frames_and_is_padded_with_the_first(self, tmp_path: Path) -> None:
        assert self.windows(tmp_path, window=3) == [[0, 0, 0], [0, 0, 16], [0, 16, 33], [16, 33, 49]]

    def test_may_be_left_short(self, tmp_path: Path) -> None:
        assert self.windows(tmp_path, window=3, pad=False) == [[0], [0, 16], [0, 16, 33], [16, 33, 49]]

    def test_may_look_back_by_seconds(self, tmp_path: Path) -> None:
        found = self.windows(tmp_path, window=3, spacing_s=0.5)
        assert found == [[0, 0, 0], [6, 11, 16], [23, 28, 33], [39, 44, 49]]

    def test_costs_one_call_a_point_and_window_times_views_images(self, tmp_path: Path) -> None:
        model = MockModel(said([], 100))
        views = {name: FakeView(mark=name) for name in ("top", "wrist")}
        run = run_judge(ProcVlm(model, points=5), episode(views=views), tmp_path)
        usage = run.usage().to_pylist()[0]
        assert (usage["calls"], usage["images"]) == (5, 5 * 8 * 2)


def test_the_table_of_calls_stands_in_the_order_of_time(tmp_path: Path) -> None:
    run = run_judge(ProcVlm(MockModel(said([], 100)), points=40, window=1), episode(), tmp_path)
    frames = [json.loads(text)[-1]["index"] for text in run.calls().column("frames").to_pylist()]
    assert len(frames) == 40
    assert frames == sorted(frames)


class TestPrompt:
    def test_is_the_published_one_without_subgoals(self, tmp_path: Path) -> None:
        model = MockModel(said([], 100))
        run_judge(ProcVlm(model, points=2), episode(), tmp_path)
        assert text_of(model.requests[0]) == (
            'Given the recent observation and the task "open the drawer", first infer the remaining atomic '
            "actions required to complete the task. Then estimate the current completion percentage and "
            "output it as a float wrapped by <progress> tags."
        )

    def test_gives_the_steps_in_their_words_where_there_are_subgoals(self, tmp_path: Path) -> None:
        model = MockModel(said([], 100))
        run_judge(ProcVlm(model, points=2), episode(subgoals=GOALS), tmp_path)
        assert "- grasp the handle\n- pull the drawer\n- let go" in text_of(model.requests[0])

    def test_may_be_the_published_one_all_the_same(self, tmp_path: Path) -> None:
        model = MockModel(said([], 100))
        run_judge(ProcVlm(model, points=2, template="published"), episode(subgoals=GOALS), tmp_path)
        assert "pull the drawer" not in text_of(model.requests[0])


class TestOptions:
    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"template": "own"}, "auto, published, steps"),
            ({"progress": "both"}, "derived, stated"),
            ({"window": 0}, "window is 0"),
            ({"spacing_s": 0.0}, "spacing_s is 0.0"),
            ({"points": 0}, "points is 0"),
            ({"layout": "grid"}, "tiled"),
        ],
    )
    def test_a_wrong_option_says_what_is_allowed(self, wrong: dict[str, object], message: str) -> None:
        with pytest.raises(OptionError, match=message):
            ProcVlm(MockModel("x"), **wrong)  # type: ignore[arg-type]

    @pytest.mark.parametrize("options", [{"template": "steps"}, {"progress": "derived"}])
    def test_what_needs_subgoals_says_so(self, tmp_path: Path, options: dict[str, str]) -> None:
        judge = ProcVlm(MockModel("x"), **options)  # type: ignore[arg-type]
        run = run_judge(judge, [episode("a"), episode("b", subgoals=GOALS)], tmp_path / "some")
        without, having = run.judgements().column("error").to_pylist()
        assert "--subgoals" in without
        assert having is None
        with pytest.raises(OptionError, match=r"none of the 1 episodes has any.*--subgoals FILE"):
            run_judge(judge, episode(), tmp_path / "none")


def test_malformed_answers_make_no_number_that_they_do_not_state(tmp_path: Path) -> None:
    texts = [
        t.encode("utf-8", "ignore").decode() for t in malformed([said(NAMES, 84.13), said([], 100)], 1_600, 5)
    ]
    answers = iter(texts)
    judge = ProcVlm(MockModel("m", script=lambda _: next(answers)), window=1, points=16)
    run = run_judge(judge, [episode(f"e{n:03d}", subgoals=GOALS) for n in range(100)], tmp_path)
    assert run.judgements().column("error").null_count == 100
    values = [v for v in run.curves().column("progress").to_pylist() if v is not None]
    assert 0 < len(values) < 1_600
    everything = "\n".join(texts)
    assert all(f"{100 * value:.10f}".rstrip("0").rstrip(".") in everything for value in values)


@pytest.mark.parametrize("views", [1, 2, 3])
def test_the_real_three_camera_episode(shared_data: Path, tmp_path: Path, views: int) -> None:
    (subject,) = stepscore.open_episodes(shared_data / "multiview")
    names = list(subject.views)[:views]
    model = MockModel(said(["Grasp the cup"], 37.5))
    run = run_judge(ProcVlm(model, points=3, window=4, size=96), subject, tmp_path, views=names)
    assert run.curves().column("progress").to_pylist() == [0.375] * 3
    assert run.curves().column("time_s").to_pylist()[-1] == pytest.approx(42.5333, abs=1e-3)
    assert [len(images_of(request)) for request in model.requests] == [4 * views] * 3
    assert {p.clip.frames.shape for request in model.requests for p in images_of(request)} == {(1, 72, 96, 3)}
