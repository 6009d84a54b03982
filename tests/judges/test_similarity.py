"""Similarity with a goal or a text: its forms, what is unknown, and what it must not be taken for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import stepscore
from stepscore.analysis import calibrate
from stepscore.episodes import Episode
from stepscore.episodes.labels import Label, Labels
from stepscore.errors import CapabilityError, OptionError
from stepscore.judges import get_judge
from stepscore.judges.similarity import Similarity
from stepscore.models import DecodedMedia, Request, ScoreSimilarity, Similarities
from stepscore.models.mock import MockModel
from stepscore.types import FloatArray, Frames
from tests.fakes import FakeView, episode
from tests.judges.asked import one_row, run_judge

RNG = np.random.default_rng(3)


@pytest.fixture
def goal(tmp_path: Path) -> Path:
    path = tmp_path / "goal.png"
    Image.new("RGB", (8, 6), (200, 10, 10)).save(path)
    return path


class BrightView(FakeView):
    """Frames from grey 100 on, so that a model tells its video from others in any order of requests."""

    def read(self, indices: Sequence[int], size: int | None = None) -> Frames:
        return super().read(indices, size) + np.uint8(100)


def subject(goal: Path | None, n: int = 5) -> Episode:
    return episode(views={"top": FakeView(n)}, goals={} if goal is None else {"top": goal})


def features(n: int) -> tuple[FloatArray, FloatArray]:
    """Unit features of n frames and of a goal, the frames on a way from the first to near the goal."""
    start, end, goal = RNG.normal(size=(3, 8))
    way = np.linspace(0, 1, n)[:, None]
    frames = (1 - way) * start + way * (0.7 * goal + 0.3 * end)
    return frames / np.linalg.norm(frames, axis=1, keepdims=True), goal / np.linalg.norm(goal)


def model_of(frames: FloatArray, goal: FloatArray, **options: Any) -> MockModel:
    references = np.stack([goal, frames[0]])
    answer = Similarities(frames @ references.T, references @ references.T)
    return MockModel("m", script=lambda request: answer, **options)


def test_gap_is_the_share_of_the_similarity_that_was_missing(tmp_path: Path, goal: Path) -> None:
    x, g = features(5)
    model = model_of(x, g)
    run = run_judge(Similarity(model, frames=5), subject(goal), tmp_path / "run")
    cosine = x @ g
    expected = (cosine[1:] - cosine[0]) / (1 - cosine[0])
    curves = run.curves()
    assert curves.column("gap").to_pylist() == pytest.approx(expected)
    assert curves.column("raw").to_pylist() == pytest.approx(cosine[1:])
    assert curves.column("progress").to_pylist() == pytest.approx(expected)
    assert curves.column("time_s").to_pylist() == pytest.approx(
        [0.1, 0.2, 0.3, 0.4]
    )  # 0 at 0 s by definition
    row = one_row(run)
    assert row["success_score"] == pytest.approx(np.mean(expected[-3:]))
    assert row["calibrated"] is False
    (request,) = model.requests  # all frames and the goal in one
    assert isinstance(request, ScoreSimilarity)
    assert request.shape == (5, 2)


def test_projection_is_the_place_on_the_line_from_the_first_frame_to_the_goal(
    tmp_path: Path, goal: Path
) -> None:
    x, g = features(6)
    run = run_judge(
        Similarity(model_of(x, g), frames=6, form="projection"), subject(goal, 6), tmp_path / "run"
    )
    naive = [(f - x[0]) @ (g - x[0]) / np.sum((g - x[0]) ** 2) for f in x[1:]]
    assert run.curves().column("projection").to_pylist() == pytest.approx(naive)


def test_a_frame_less_like_the_goal_than_the_start_is_unknown_unless_it_is_clipped(
    tmp_path: Path, goal: Path
) -> None:
    x, g = features(4)
    x[2] = -g  # farther from the goal than anything
    for clip, shown in ((False, None), (True, 0.0)):
        run = run_judge(
            Similarity(model_of(x, g), frames=4, clip=clip), subject(goal, 4), tmp_path / str(clip)
        )
        assert run.curves().column("progress").to_pylist()[1] == shown
        assert run.curves().column("gap").to_pylist()[1] < 0
        assert run.curves().column("raw").to_pylist()[1] == pytest.approx(-1)


def test_a_goal_like_the_start_and_an_unknown_answer_have_no_progress(tmp_path: Path, goal: Path) -> None:
    x, _ = features(4)
    run = run_judge(Similarity(model_of(x, x[0]), frames=4), subject(goal, 4), tmp_path / "alike")
    assert run.curves().column("progress").null_count == 3
    assert one_row(run)["success_score"] is None
    refused = MockModel("m", script=lambda request: math.nan)
    run = run_judge(Similarity(refused, frames=4), subject(goal, 4), tmp_path / "refused")
    assert run.curves().column("progress").null_count == 3
    assert run.curves().column("raw").null_count == 3


def test_a_cosine_is_not_progress_until_it_is_calibrated(tmp_path: Path, goal: Path) -> None:
    def subjects() -> list[Episode]:
        found = []
        for number in range(12):
            rows = [Label("progress", "potential", start_s=t / 10, value=t / 9) for t in range(10)]
            rows.append(Label("success", "holds", value=float(number % 2)))
            view = BrightView if number % 2 else FakeView  # odd episodes are successes
            found.append(
                episode(
                    f"e{number:02d}",
                    views={"top": view(10, mark=f"m{number}")},
                    goals={"top": goal},
                    labels=Labels(tuple(rows)),
                )
            )
        return found

    def script(request: Request) -> FloatArray:
        assert isinstance(request, ScoreSimilarity)
        assert isinstance(request.video, DecodedMedia)
        end = 0.9 if request.video.clip.frames.max() >= 100 else 0.7
        return np.linspace(0.2, end, 10)[:, None]

    rising = MockModel("m", script=script)
    run = run_judge(Similarity(rising, form="cosine", frames=10), subjects(), tmp_path / "cosine")
    assert run.curves().column("progress").null_count == 120
    result = calibrate(run, channel="raw", success_channel="raw")
    path = tmp_path / "map.json"
    from stepscore.judges.common import write_calibration

    write_calibration(result.fitted, path)
    judge = Similarity(rising, form="cosine", frames=10, calibration=path)
    mapped = run_judge(judge, subjects(), tmp_path / "mapped")
    assert mapped.judgements().column("calibrated").to_pylist() == [True] * 12
    assert mapped.curves().column("progress").null_count == 0


def test_a_text_is_compared_where_the_encoder_has_texts(tmp_path: Path) -> None:
    model = MockModel("m", script=lambda request: np.array([[0.1, 0.3], [0.2, 0.3], [0.4, 0.3]]))
    judge = Similarity(model, target="text", frames=3, prompt="a photo of {instruction}")
    run = run_judge(judge, subject(None, 3), tmp_path / "run")
    (request,) = model.requests
    assert isinstance(request, ScoreSimilarity)
    assert request.texts == ("a photo of open the drawer", "a robot arm")
    assert run.curves().column("raw").to_pylist() == pytest.approx([0.1, 0.2, 0.4])
    assert run.curves().column("progress").null_count == 3
    assert one_row(run)["success_score"] == pytest.approx((1 + np.mean([0.1, 0.2, 0.4])) / 2)


def test_projection_on_texts_goes_from_the_baseline_to_the_instruction(tmp_path: Path) -> None:
    x, g = features(4)
    b = RNG.normal(size=8)
    b /= np.linalg.norm(b)
    references = np.stack([g, b])
    answer = Similarities(x @ references.T, references @ references.T)
    model = MockModel("m", script=lambda request: answer)
    judge = Similarity(model, target="text", form="projection", frames=4)
    run = run_judge(judge, subject(None, 4), tmp_path / "run")
    naive = [(f - b) @ (g - b) / np.sum((g - b) ** 2) for f in x]
    assert run.curves().column("projection").to_pylist() == pytest.approx(naive)


def test_views_with_a_goal_are_averaged(tmp_path: Path, goal: Path) -> None:
    answers = {"top": 0.2, "side": 0.6}

    def script(request: Request) -> Similarities:
        assert isinstance(request, ScoreSimilarity)
        # FakeView has no name in its frames; requests come in the order of the views.
        value = list(answers.values())[len(model.requests) - 1]
        return Similarities(np.full((3, 2), value), np.eye(2))

    model = MockModel("m", script=script)
    views = {"top": FakeView(3), "side": FakeView(3), "wrist": FakeView(3)}
    subject_ = episode(views=views, goals={"top": goal, "side": goal})
    run = run_judge(Similarity(model, form="cosine", frames=3), subject_, tmp_path / "run")
    assert run.curves().column("raw").to_pylist() == pytest.approx([0.4] * 3)
    assert run.curves().column("raw:side").to_pylist() == pytest.approx([0.6] * 3)
    assert "raw:wrist" not in run.curves().column_names


def test_without_a_goal_the_row_says_how_to_give_one(tmp_path: Path) -> None:
    run = run_judge(Similarity(MockModel("0.5")), subject(None), tmp_path / "run")
    (row,) = run.judgements().to_pylist()
    assert "has no goal image" in row["error"]
    assert "--goal last-success" in row["error"]


def test_frames_are_encoded_once_and_an_answer_is_taken_from_the_cache(tmp_path: Path, goal: Path) -> None:
    from stepscore.runs import CallOptions

    x, g = features(5)
    model = model_of(x, g)
    options = CallOptions(cache_path=tmp_path / "cache.sqlite")
    for form in ("gap", "projection"):  # another form is another protocol, and the same request
        judge = Similarity(model, frames=5, form=form)
        run = stepscore.score([subject(goal)], judge, tmp_path / form, call_options=options)
    assert len(model.requests) == 1
    assert run.calls().column("kind").to_pylist() == ["score-similarity"]


def test_embedded_compares_goal_images_in_numpy_and_no_texts(tmp_path: Path) -> None:
    from stepscore.cli.judging.demo import ROLLOUTS

    episodes = stepscore.open_episodes(
        ROLLOUTS, labels=ROLLOUTS / "labels.parquet", goal="last-success", limit=2
    )
    run = run_judge(get_judge("similarity", model="embedded", frames=4), list(episodes), tmp_path / "run")
    raw = run.curves().column("raw").to_pylist()
    assert len(raw) == 6
    assert all(0.5 < value < 1 for value in raw)
    with pytest.raises(CapabilityError, match="hf/clip"):
        run_judge(get_judge("similarity", model="embedded", target="text"), list(episodes), tmp_path / "text")


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"target": "text", "form": "gap"}, "form=gap needs goal images"),
        ({"target": "end"}, "target"),
        ({"form": "l2"}, "form"),
        ({"frames": 1}, "frames"),
        ({"target": "text", "prompt": " "}, "prompt is empty"),
        ({"clip": "no"}, "clip"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], wrong: str) -> None:
    with pytest.raises(OptionError, match=wrong):
        Similarity(MockModel("m"), **options)


def test_a_model_that_scores_no_similarity_is_refused(tmp_path: Path, goal: Path) -> None:
    class Talker(MockModel):
        @property
        def capabilities(self) -> Any:
            from stepscore.models import Capabilities

            return Capabilities()

    with pytest.raises(CapabilityError, match="scores no similarity"):
        run_judge(Similarity(Talker("m")), subject(goal), tmp_path / "run")
