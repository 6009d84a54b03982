"""GRM is asked as it was published: eight images in order, sampling and laws; what it does not say is unknown."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import stepscore
from stepscore.episodes import Episode
from stepscore.errors import OptionError
from stepscore.judges.published.grm import Grm
from stepscore.models import Request
from stepscore.models.mock import MockModel
from stepscore.runs import CallOptions, dry_run
from tests.fakes import FakeView, episode
from tests.judges.asked import frames_of, one_row, run_judge, text_of
from tests.judges.published.asking import asked, shown
from tests.judges.published.asking import subject as any_subject

GRM = MockModel("tanhuajie2001/Robo-Dopamine-GRM-3B")


@pytest.fixture
def goal(tmp_path: Path) -> Path:
    path = tmp_path / "goal.png"
    Image.new("RGB", (8, 6), (200, 10, 10)).save(path)
    return path


def subject(goal: Path | None, views: int = 1, frames: int = 5) -> Episode:
    return any_subject(views, frames, goals={} if goal is None else {"top": goal})


@pytest.mark.parametrize(
    ("views", "left", "right"), [(1, "top", "top"), (2, "left", "left"), (3, "left", "right")]
)
def test_a_question_has_eight_images_in_the_published_order(
    goal: Path, views: int, left: str, right: str
) -> None:
    requests = asked(Grm(GRM, points=4, prompt="own"), subject(goal, views))
    reference = ["top 0", "goal top"]
    assert [shown(request) for request in requests] == [
        [
            *reference,
            f"top {t}",
            f"{left} {t}",
            f"{right} {t}",
            f"top {t + 1}",
            f"{left} {t + 1}",
            f"{right} {t + 1}",
        ]
        for t in range(4)
    ]


def test_the_modes_differ_in_before_alone(goal: Path) -> None:
    forward = asked(Grm(GRM, points=2, prompt="own", mode="forward"), subject(goal, 3))
    assert [shown(request)[2:5] for request in forward] == [["top 0", "left 0", "right 0"]] * 2
    backward = asked(Grm(GRM, points=2, prompt="own", mode="backward"), subject(goal, 3))
    assert [shown(request)[2:5] for request in backward] == [["goal top"] * 3] * 2


def test_sampling_and_the_place_of_images_are_the_published_ones(goal: Path) -> None:
    (request, *_) = asked(Grm(GRM, points=1, prompt="own"), subject(goal))
    assert (request.temperature, request.top_p, request.top_k, request.max_tokens) == (0.1, 0.9, 50, 1024)
    (turn,) = request.prompt.turns
    assert turn.role == "user"
    assert [isinstance(part, str) for part in turn.parts] == [True, False] * 8 + [True]


def test_an_instruction_places_no_image_and_fills_no_field(goal: Path) -> None:
    tricky = episode(instruction="put <image> on {task}", goals={"top": goal}, views={"top": FakeView(3)})
    (request, *_) = asked(Grm(GRM, points=1, prompt="own"), tricky)
    assert len(shown(request)) == 8
    assert '"put <image> on {task}"' in text_of(request)


def pair_of(request: Request) -> tuple[int, int]:
    frames = frames_of(request)
    return frames[2], frames[5]


def progress(tmp_path: Path, goal: Path, answers: list[str], **options: object) -> list[float | None]:
    """Progress at each point where the model gives these answers, by the number of the frame in AFTER."""
    model = MockModel("Robo-Dopamine-GRM-3B", script=lambda request: answers[frames_of(request)[-1] - 1])
    judge = Grm(model, points=len(answers), prompt="own", **options)  # type: ignore[arg-type]
    run = run_judge(judge, subject(goal, frames=len(answers) + 1), tmp_path / "run")
    one_row(run)
    return list(run.curves().column("progress").to_pylist())


def published(hops: list[float], mode: str) -> list[float]:
    """The laws of the published code, restated."""
    values: list[float] = []
    for r in hops:
        p = values[-1] if values else 0.0
        if mode == "forward":
            values.append(r)
        elif mode == "backward":
            values.append(1 + r)
        elif not values:
            values.append(r)
        else:
            values.append(p + (1 - p) * r if r >= 0 else p + p * r)
    return values


@pytest.mark.parametrize("mode", ["incremental", "forward", "backward"])
def test_the_laws_are_the_published_ones(tmp_path: Path, goal: Path, mode: str) -> None:
    rng = np.random.default_rng(0)
    hops = [-0.2, *(round(float(x), 3) for x in rng.uniform(-1, 1, 12))]
    got = progress(tmp_path, goal, [f"<score>{100 * r:+.1f}%</score>" for r in hops], mode=mode)
    expected = published(hops, mode)
    assert [math.nan if x is None else x for x in got] == pytest.approx(
        [x if 0 <= x <= 1 else math.nan for x in expected], nan_ok=True
    )
    assert any(x is None for x in got), "some of these lie outside 0..1"


def test_an_unreadable_answer_is_unknown_in_every_mode(tmp_path: Path, goal: Path) -> None:
    for mode in ("forward", "backward"):
        got = progress(tmp_path / mode, goal, ["<score>-20%</score>", "", "<score>0%</score>"], mode=mode)
        assert got[1] is None
    # What the pair (2, 3) says is of no use, as point 2 is unknown; 3 is compared with 1 instead.
    said = {
        (0, 1): "<score>+50%</score>",
        (1, 2): "no idea",
        (2, 3): "<score>+9%</score>",
        (1, 3): "<score>+50%</score>",
    }
    model = MockModel("Robo-Dopamine-GRM-3B", script=lambda request: said[pair_of(request)])
    run = run_judge(Grm(model, points=3, prompt="own"), subject(goal, frames=4), tmp_path / "bridged")
    assert run.curves().column("progress").to_pylist() == pytest.approx([0.5, None, 0.75])
    assert len(model.requests) == 4


class TestWhatIsMissing:
    def test_without_a_goal_image_an_episode_fails_with_the_way_out(self, tmp_path: Path) -> None:
        run = run_judge(Grm(GRM, prompt="own"), subject(None), tmp_path / "run")
        (row,) = run.judgements().to_pylist()
        assert "-J end=last" in row["error"]

    def test_its_own_last_frame_may_stand_for_the_end(self) -> None:
        requests = asked(Grm(GRM, points=2, prompt="own", end="last"), subject(None))
        assert [shown(request)[:2] for request in requests] == [["top 0", "top 4"]] * 2
        with pytest.raises(OptionError, match="compare the last frame with itself"):
            Grm(GRM, prompt="own", end="last", mode="backward")

    def test_more_than_three_cameras_are_named(self, tmp_path: Path, goal: Path) -> None:
        run = run_judge(Grm(GRM, prompt="own"), subject(goal, 4), tmp_path / "run")
        (row,) = run.judgements().to_pylist()
        assert "--views top,left,right" in row["error"]

    def test_an_unknown_model_needs_a_profile(self) -> None:
        with pytest.raises(OptionError, match=r"-J profile=grm"):
            Grm(MockModel("mine"))
        assert Grm(MockModel("mine"), profile="grm").rules.name == "grm"


class TestPrompts:
    def test_the_protocol_says_which_was_asked(self, tmp_path: Path) -> None:
        published_one, own = Grm(GRM).options(), Grm(GRM, prompt="own").options()
        assert published_one["prompt"] == "published"
        assert published_one["prompts"] == {"pair": {"user": "6baabeeecf35c731"}}
        assert own["prompt"] == "own"
        assert own["prompts"] != published_one["prompts"]
        file = tmp_path / "mine.txt"
        file.write_text("{task}" + " <image>" * 8)
        given = Grm(GRM, prompt=str(file)).options()
        assert given["prompt"] == "file"
        assert len({str(x["prompts"]) for x in (published_one, own, given)}) == 3

    def test_a_file_with_other_marks_is_refused(self, tmp_path: Path) -> None:
        file = tmp_path / "mine.txt"
        file.write_text("{task} <image> <image>")
        with pytest.raises(OptionError, match=r"2 marks <image>; the question pair has 8 images"):
            Grm(GRM, prompt=str(file)).options()
        with pytest.raises(OptionError, match="there is none"):
            Grm(GRM, prompt=str(tmp_path / "nothing.txt")).options()

    def test_neither_opening_nor_a_dry_run_fetches(
        self, goal: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        from stepscore.judges.published.profiles import prompt_texts

        monkeypatch.setenv("STEPSCORE_CACHE", str(tmp_path / "cache"))

        def refuse() -> object:
            raise AssertionError("the network was asked")

        monkeypatch.setattr(prompt_texts, "open_client", refuse)
        judge = stepscore.get_judge("grm", model=GRM, points=3)
        judge.options()
        counted = dry_run([subject(goal)], judge, CallOptions(cache=False))
        assert (counted.calls, counted.images, counted.failed) == (3, 24, 0)
        with pytest.raises(OptionError, match="-E offline=true"):
            stepscore.score([subject(goal)], judge, tmp_path / "run", offline=True)
        assert not (tmp_path / "run").exists()

    def test_our_wording_has_the_marks_and_fields_of_the_published_one(self) -> None:
        text = Grm(GRM, prompt="own").texts("pair")["user"]
        assert text.count("<image>") == 8
        assert re.findall(r"\{(\w*)\}", text) == ["task"]


def test_the_licence_is_kept_with_the_run(tmp_path: Path, goal: Path) -> None:
    model = MockModel("Robo-Dopamine-GRM-3B")
    run = run_judge(Grm(model, points=1, prompt="own"), subject(goal), tmp_path / "run")
    assert run.info["licences"] == {
        "mock/Robo-Dopamine-GRM-3B": {"name": "Apache-2.0", "non_commercial": False}
    }
