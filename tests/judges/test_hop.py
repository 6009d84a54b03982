"""Hops between frames: the laws of the modes, and what happens when an answer, or the goal, is missing."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import stepscore
from stepscore.episodes import Episode
from stepscore.errors import OptionError
from stepscore.judges.hop import GOAL, Hop, fuse_by_confidence, goal_change, progress_after_hop
from stepscore.models import Request
from stepscore.models.mock import MockModel
from stepscore.runs.run import Run
from tests.fakes import FakeView, episode
from tests.judges.asked import frames_of, images_of, one_row, run_judge, text_of
from tests.judges.common.malformed import malformed

BROKEN = "<score>-25.0.0.5.6.6.6"
Said = dict[tuple[int, int], str]


@pytest.fixture
def goal(tmp_path: Path) -> Path:
    """A goal image unlike any frame of the fake view."""
    path = tmp_path / "goal.png"
    Image.new("RGB", (8, 6), (200, 10, 10)).save(path)
    return path


def subject(goal: Path | None = None, frames: int = 5) -> Episode:
    goals = {} if goal is None else {"top": goal}
    return episode(views={"top": FakeView(frames)}, goals=goals)


def percent(value: float) -> str:
    return f"<score>{100 * value:+.1f}%</score>"


def pair_of(request: Request) -> tuple[int, int]:
    """(before, after) of a question about one view; the goal as BEFORE is GOAL."""
    before, after = images_of(request)[-2:]
    red = int(before.clip.frames[0, 0, 0, 0]) == 200
    return GOAL if red else int(before.clip.indices[0]), int(after.clip.indices[0])


def table(said: Said) -> Callable[[Request], str]:
    return lambda request: said[pair_of(request)]


def judged(out: Path, said: Said, goal: Path | None, **options: object) -> tuple[Run, MockModel]:
    model = MockModel("m", script=table(said))
    judge = Hop(model, points=4, **options)  # type: ignore[arg-type]
    return run_judge(judge, subject(goal), out / "run"), model


INCREMENTAL = {(0, 1): percent(0.5), (1, 2): percent(0.4), (2, 3): percent(-0.5), (3, 4): percent(1)}
FORWARD = {(0, t): percent(v) for t, v in enumerate([0.4, 0.6, 0.3, 0.9], start=1)}
BACKWARD = {(GOAL, t): percent(v) for t, v in enumerate([-0.6, -0.2, -0.5, 0.0], start=1)}


class TestModes:
    def test_incremental_takes_a_share_of_what_is_left_or_done(self, tmp_path: Path, goal: Path) -> None:
        run, model = judged(tmp_path, INCREMENTAL, goal)
        assert run.curves().column("progress").to_pylist() == pytest.approx([0.5, 0.7, 0.35, 1.0])
        assert run.curves().column("hop").to_pylist() == pytest.approx([0.5, 0.4, -0.5, 1.0])
        assert run.curves().column("time_s").to_pylist() == pytest.approx([0.1, 0.2, 0.3, 0.4])
        assert len(model.requests) == 4
        assert one_row(run)["success_score"] == 1.0

    def test_forward_is_the_hop_from_the_start(self, tmp_path: Path, goal: Path) -> None:
        run, _ = judged(tmp_path, FORWARD, goal, mode="forward")
        assert run.curves().column("progress").to_pylist() == pytest.approx([0.4, 0.6, 0.3, 0.9])
        assert one_row(run)["success_score"] == 0.0

    def test_backward_is_one_plus_the_hop_from_the_goal(self, tmp_path: Path, goal: Path) -> None:
        run, _ = judged(tmp_path, BACKWARD, goal, mode="backward")
        assert run.curves().column("progress").to_pylist() == pytest.approx([0.4, 0.8, 0.5, 1.0])

    def test_fused_is_the_mean_of_the_three(self, tmp_path: Path, goal: Path) -> None:
        run, model = judged(tmp_path, {**FORWARD, **INCREMENTAL, **BACKWARD}, goal, mode="fused")
        curve = run.curves().to_pydict()
        # The first forward and the first incremental question are the same pair, asked once by each mode.
        mean = np.mean([curve["incremental"], curve["forward"], curve["backward"]], axis=0)
        assert curve["progress"] == pytest.approx(mean.tolist())
        assert curve["incremental"] == pytest.approx([0.5, 0.7, 0.35, 1.0])
        assert len(model.requests) <= 12

    def test_the_questions_hold_start_goal_before_and_after(self, tmp_path: Path, goal: Path) -> None:
        _, model = judged(tmp_path, INCREMENTAL, goal)
        (asked,) = [request for request in model.requests if pair_of(request) == (1, 2)]
        text = text_of(asked)
        assert text.index("REFERENCE START") < text.index("REFERENCE END") < text.index("BEFORE:")
        assert frames_of(asked) == [0, 0, 1, 2]
        assert images_of(asked)[1].clip.frames[0, 0, 0].tolist() == [200, 10, 10]

    def test_three_views_make_the_published_eight_images(self, tmp_path: Path, goal: Path) -> None:
        views = {name: FakeView(5, mark=name) for name in ("high", "left", "right")}
        model = MockModel(percent(0.1))
        run = run_judge(Hop(model, points=2), episode(views=views, goals={"high": goal}), tmp_path / "run")
        assert [len(images_of(request)) for request in model.requests] == [8, 8]
        assert run.usage().column("images").to_pylist() == [16]
        assert "left: " in text_of(model.requests[0])


class TestUnknown:
    def test_a_broken_backward_answer_is_unknown_and_not_success(self, tmp_path: Path, goal: Path) -> None:
        run, _ = judged(tmp_path, {**BACKWARD, (GOAL, 4): BROKEN}, goal, mode="backward")
        assert run.curves().column("progress").to_pylist()[-1] is None
        assert one_row(run)["success_score"] is None
        assert one_row(run)["coverage"] == 0.75

    def test_incremental_continues_from_the_last_known_point(self, tmp_path: Path, goal: Path) -> None:
        said = {**INCREMENTAL, (1, 2): BROKEN, (1, 3): percent(0.2)}
        run, model = judged(tmp_path, said, goal)
        assert run.curves().column("progress").to_pylist() == [
            pytest.approx(0.5),
            None,
            pytest.approx(0.6),
            pytest.approx(1.0),
        ]
        assert len(model.requests) == 5
        assert json.loads(str(one_row(run)["facts"]))["unread"] == 1

    def test_a_model_that_never_states_a_hop_is_asked_once_a_point(self, tmp_path: Path, goal: Path) -> None:
        model = MockModel("sorry")
        run = run_judge(Hop(model, points=4), subject(goal), tmp_path / "run")
        assert run.curves().column("progress").to_pylist() == [None] * 4
        assert len(model.requests) == 4

    @pytest.mark.parametrize("text", ["<score>+150%</score>", "<score>nan</score>", "<score>0.5</score>", ""])
    def test_a_hop_that_cannot_be_is_unknown(self, tmp_path: Path, goal: Path, text: str) -> None:
        run, _ = judged(tmp_path, {**FORWARD, (0, 2): text}, goal, mode="forward")
        assert run.curves().column("progress").to_pylist()[1] is None

    def test_below_the_start_or_above_the_goal_stays_raw(self, tmp_path: Path, goal: Path) -> None:
        said = {**FORWARD, (0, 2): percent(-0.3)}
        run, _ = judged(tmp_path / "a", said, goal, mode="forward")
        assert run.curves().column("progress").to_pylist()[1] is None
        assert run.curves().column("raw").to_pylist()[1] == pytest.approx(-0.3)
        run, _ = judged(tmp_path / "b", said, goal, mode="forward", clip=True)
        assert run.curves().column("progress").to_pylist()[1] == 0.0
        run, _ = judged(tmp_path / "c", {**BACKWARD, (GOAL, 1): percent(0.2)}, goal, mode="backward")
        assert run.curves().column("raw").to_pylist()[0] == pytest.approx(1.2)
        assert run.curves().column("progress").to_pylist()[0] is None

    def test_a_first_hop_below_zero_leaves_progress_at_zero(self, tmp_path: Path, goal: Path) -> None:
        run, _ = judged(tmp_path, {**INCREMENTAL, (0, 1): percent(-0.4)}, goal)
        assert run.curves().column("progress").to_pylist()[:2] == pytest.approx([0.0, 0.4])


class TestGoal:
    @pytest.mark.parametrize("mode", ["forward", "backward", "fused"])
    def test_without_one_it_warns_and_judges_incrementally(self, tmp_path: Path, mode: str) -> None:
        with pytest.warns(UserWarning, match="has no goal image: judged in incremental mode"):
            run, model = judged(tmp_path, INCREMENTAL, None, mode=mode)
        assert run.curves().column("progress").to_pylist() == pytest.approx([0.5, 0.7, 0.35, 1.0])
        assert "REFERENCE END" not in text_of(model.requests[0])
        assert json.loads(str(one_row(run)["facts"])) == {
            "goal_change": None,
            "goal_used": 0.0,
            "unread": 0.0,
        }

    def test_incremental_without_one_is_no_warning(self, tmp_path: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            run, _ = judged(tmp_path, INCREMENTAL, None)
        assert run.curves().column("progress").to_pylist() == pytest.approx([0.5, 0.7, 0.35, 1.0])

    @pytest.mark.parametrize("mode", ["incremental", "backward", "fused"])
    def test_one_that_looks_like_the_start_is_left_out(self, tmp_path: Path, mode: str) -> None:
        alike = tmp_path / "alike.png"
        Image.new("RGB", (8, 6), (3, 2, 4)).save(alike)
        with pytest.warns(UserWarning, match=r"looks like its start \(0.00% of the pixels differ\)"):
            run, model = judged(tmp_path, INCREMENTAL, alike, mode=mode)
        assert "backward" not in run.curves().column_names
        assert "REFERENCE END" not in text_of(model.requests[0])

    def test_the_check_can_be_turned_off(self, tmp_path: Path) -> None:
        alike = tmp_path / "alike.png"
        Image.new("RGB", (8, 6), (3, 2, 4)).save(alike)
        _, model = judged(tmp_path, INCREMENTAL, alike, alike=0.0)
        assert "REFERENCE END" in text_of(model.requests[0])

    def test_real_rollouts_end_unlike_they_start_and_a_saved_start_is_known(
        self, shared_data: Path, tmp_path: Path
    ) -> None:
        changes = []
        for number, real in enumerate(stepscore.open_episodes(shared_data / "rollouts")):
            (view,) = real.views
            ends = real.clip(indices=[0, real.views[view].info().n_frames - 1]).frames
            for name, frame in zip(("start.jpg", "end.png"), ends, strict=True):
                Image.fromarray(frame).save(tmp_path / f"{number}-{name}")
            saved, end = (
                goal_change(Episode(**{**vars(real), "goals": {view: tmp_path / f"{number}-{name}"}}))
                for name in ("start.jpg", "end.png")
            )
            changes.append((saved, end))
        saved, ends = np.array(changes).T
        assert saved.max() < Hop(MockModel("x")).alike < 0.06 < ends.min()


def naive_incremental(hops: list[float]) -> list[float]:
    p, found = 0.0, []
    for r in hops:
        p = p + (1 - p) * r if r >= 0 else p + p * r
        found.append(p)
    return found


@given(st.floats(0, 1), st.floats(-1, 1))
def test_a_step_never_leaves_0_to_1(progress: float, hop: float) -> None:
    after = progress_after_hop(progress, hop)
    assert 0.0 <= after <= 1.0
    assert after >= progress if hop >= 0 else after <= progress


def test_incremental_progress_is_the_naive_loops() -> None:
    hops = np.random.default_rng(0).uniform(-1, 1, 200).tolist()
    p, found = 0.0, []
    for hop in hops:
        p = progress_after_hop(p, hop)
        found.append(p)
    assert found == pytest.approx(naive_incremental(hops), abs=1e-12)


def test_hops_compose_by_their_multiplicative_law() -> None:
    # (1 - H_pr) = (1 - H_pq)(1 - H_qr) for progress: one long hop equals two short ones.
    one = progress_after_hop(0.3, 1 - (1 - 0.5) * (1 - 0.2))
    assert progress_after_hop(progress_after_hop(0.3, 0.5), 0.2) == pytest.approx(one)


class TestFusionByConfidence:
    def naive(self, i: list[float], f: list[float], b: list[float], alpha: float, eps: float) -> list[float]:
        p, i_before, found = 0.0, 0.0, []
        for it, ft, bt in zip(i, f, b, strict=True):
            m = (ft + bt) / 2
            w = math.exp(-alpha * (abs(bt - ft) / (m + eps)) ** 2)
            p = p + (w / 2) * (m - p + (it - i_before))
            i_before = it
            found.append(p)
        return found

    def test_is_equations_9_to_11(self) -> None:
        rng = np.random.default_rng(1)
        i, f, b = rng.uniform(0.05, 1, (3, 50))
        fused = fuse_by_confidence(i, f, b, alpha=1.0, eps=1e-6)
        assert fused.tolist() == pytest.approx(self.naive(i.tolist(), f.tolist(), b.tolist(), 1.0, 1e-6))

    def test_hardly_moves_where_forward_and_backward_disagree(self) -> None:
        agree = fuse_by_confidence(np.array([0.5]), np.array([0.5]), np.array([0.5]), alpha=1.0, eps=1e-6)
        split = fuse_by_confidence(np.array([0.5]), np.array([0.0]), np.array([1.0]), alpha=1.0, eps=1e-6)
        assert agree[0] == pytest.approx(0.5)
        assert split[0] == pytest.approx(0.5 * math.exp(-4), rel=1e-4)

    def test_continues_from_the_last_known_point(self) -> None:
        i, f, b = np.array([0.2, 0.4, 0.6]), np.array([0.2, math.nan, 0.6]), np.array([0.2, 0.4, 0.6])
        fused = fuse_by_confidence(i, f, b, alpha=1.0, eps=1e-6)
        assert fused.tolist() == pytest.approx([0.2, math.nan, 0.6], nan_ok=True)

    def test_takes_modes_below_zero(self) -> None:
        below = np.array([-0.5, -1.0])
        fused = fuse_by_confidence(np.zeros(2), below, below, alpha=1.0, eps=1e-6)
        assert np.all(np.isfinite(fused))

    def test_is_chosen_by_option(self, tmp_path: Path, goal: Path) -> None:
        said = {**FORWARD, **INCREMENTAL, **BACKWARD}
        run, _ = judged(tmp_path, said, goal, mode="fused", fusion="confident")
        curve = run.curves().to_pydict()
        expected = self.naive(curve["incremental"], curve["forward"], curve["backward"], 1.0, 1e-6)
        assert curve["raw"] == pytest.approx(expected)
        # Equation 11 can leave 0..1; what does is unknown, as everywhere.
        assert expected[-1] > 1
        assert curve["progress"] == [*curve["raw"][:-1], None]


class TestOptions:
    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"mode": "sideways"}, "backward, forward, fused, incremental"),
            ({"fusion": "max"}, "confident, mean"),
            ({"alike": 1.5}, "alike"),
            ({"eps": 0.0}, "eps"),
            ({"points": 0}, "points must be .*, got 0"),
        ],
    )
    def test_a_wrong_option_says_what_is_allowed(self, wrong: dict[str, object], message: str) -> None:
        with pytest.raises(OptionError, match=message):
            Hop(MockModel("x"), **wrong)  # type: ignore[arg-type]

    def test_one_frame_is_no_hop(self, tmp_path: Path) -> None:
        run = run_judge(Hop(MockModel("x")), subject(frames=1), tmp_path)
        assert "has one frame" in run.judgements().column("error").to_pylist()[0]


def test_malformed_answers_make_no_hop_that_they_do_not_state(tmp_path: Path) -> None:
    texts = [
        t.encode("utf-8", "ignore").decode() for t in malformed([percent(0.25), percent(-0.405)], 3_000, 7)
    ]
    answers = iter(texts)
    judge = Hop(MockModel("m", script=lambda _: next(answers)), points=16)
    run = run_judge(judge, [subject_named(n) for n in range(50)], tmp_path)
    assert run.judgements().column("error").null_count == 50
    hops = [hop for hop in run.curves().column("hop").to_pylist() if hop is not None]
    everything = "\n".join(texts)
    assert 0 < len(hops) < 800
    assert all(f"{abs(100 * hop):.10f}".rstrip("0").rstrip(".") in everything for hop in hops)
    progress = [p for p in run.curves().column("progress").to_pylist() if p is not None]
    assert all(0 <= p <= 1 for p in progress)


def subject_named(n: int) -> Episode:
    return episode(f"e{n:03d}", views={"top": FakeView(40, mark=str(n))})


@pytest.mark.parametrize("mode", ["incremental", "forward", "backward", "fused"])
@pytest.mark.parametrize("views", [1, 2, 3])
def test_the_real_three_camera_episode(shared_data: Path, tmp_path: Path, views: int, mode: str) -> None:
    (real,) = stepscore.open_episodes(shared_data / "multiview")
    names = list(real.views)[:views]
    last = real.clip("cam_high", indices=[1276]).frames[0]
    Image.fromarray(last).save(tmp_path / "goal.png")
    with_goal = Episode(**{**vars(real), "goals": {"cam_high": tmp_path / "goal.png"}})
    model = MockModel(percent(-0.2) if mode == "backward" else percent(0.2))
    run = run_judge(Hop(model, mode=mode, points=2, size=96), with_goal, tmp_path / "run", views=names)  # type: ignore[arg-type]
    expected = {
        "incremental": [0.2, 0.36],
        "forward": [0.2, 0.2],
        "backward": [0.8, 0.8],
        "fused": [(0.2 + 0.2 + 1.2) / 3, (0.36 + 0.2 + 1.2) / 3],
    }
    assert run.curves().column("progress").to_pylist() == pytest.approx(expected[mode])
    counts = {len(images_of(request)) for request in model.requests}
    backwards = {2 + 1 + views}
    assert counts == {"backward": backwards, "fused": backwards | {2 + 2 * views}}.get(mode, {2 + 2 * views})
