from __future__ import annotations

import asyncio
import json
import math
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stepscore
from stepscore.episodes import Episode
from stepscore.errors import CapabilityError, EpisodeError, OptionError
from stepscore.judges.common.calibration import FittedMap, write_calibration
from stepscore.judges.gvl import Gvl
from stepscore.metrics.calibration import MonotoneMap
from stepscore.models import Answer, DecodedMedia, FrameRef, Generate, Request
from stepscore.models.base import Capabilities
from stepscore.models.mock import MockModel
from stepscore.runs import CallOptions
from stepscore.testing import write_toy_rollouts
from stepscore.types import Curve, Judgement
from tests.fakes import FakeView, episode

Percent = Callable[[int], object]


def judged(judge: Gvl, which: Episode | None = None) -> Judgement:
    async def ask(request: Request, model: object = None) -> Any:
        return await judge.model.answer(request)

    return asyncio.run(judge.judge(which or episode(), ask))


def curve_of(judge: Gvl, which: Episode | None = None) -> Curve:
    curve = judged(judge, which).curve
    assert curve is not None
    return curve


def numbered(request: Request) -> list[tuple[int, FrameRef | DecodedMedia]]:
    """The images that carry a number, with it."""
    assert isinstance(request, Generate)
    (turn,) = request.prompt.turns
    found = []
    for text, image in zip(turn.parts, turn.parts[1:], strict=False):
        if isinstance(text, str) and text.startswith("Frame ") and isinstance(image, FrameRef | DecodedMedia):
            found.append((int(text.split()[1].strip(":\n")), image))
    return found


def answering(percent: Percent, *, as_json: bool = False) -> MockModel:
    """A model that looks at the frame's own number in the episode and states a percentage for it."""

    def script(request: Request) -> str:
        said = [(number, percent(p.index)) for number, p in numbered(request) if isinstance(p, FrameRef)]
        if as_json:
            return json.dumps({"frames": [{"frame": n, "percent": p} for n, p in said]})
        return "\n".join(
            f"Frame {n}: Frame Description: x, Task Completion Percentages:{p}%" for n, p in said
        )

    return MockModel("m", script=script)


def by_time(index: int) -> int:
    return round(100 * index / 49)


# What comes out


@pytest.mark.parametrize("form", ["published", "json"])
def test_percentages_come_back_in_order_of_time(form: str) -> None:
    judge = Gvl(answering(by_time, as_json=form == "json"), form=form)  # type: ignore[arg-type]
    result = judged(judge)
    assert result.curve is not None
    shown = np.round(result.curve.times * 10).astype(int)
    np.testing.assert_allclose(result.curve.progress, [by_time(i) / 100 for i in shown])
    np.testing.assert_array_equal(result.curve.channels["raw"], result.curve.progress)
    assert len(result.curve) == 15
    assert result.success_score == pytest.approx(1.0)
    (request,) = judge.model.requests  # type: ignore[attr-defined]
    assert request.json == (form == "json")


def test_the_success_score_is_the_order_of_the_answers_and_never_below_0() -> None:
    backwards = judged(Gvl(answering(lambda i: 100 - by_time(i))))
    assert backwards.success_score == 0.0
    assert backwards.facts == {"voc": pytest.approx(-1.0), "unread": 0.0}
    assert math.isnan(judged(Gvl(answering(lambda i: 40))).success_score)
    swapped = judged(Gvl(answering(lambda i: by_time(i) if i < 45 else 0)))
    assert 0 < swapped.success_score < 1


def test_what_the_answer_leaves_out_or_contradicts_is_unknown_and_not_its_neighbour() -> None:
    twice: list[int] = []

    def script(request: Request) -> str:
        shown = {number: p.index for number, p in numbered(request) if isinstance(p, FrameRef)}
        lines = [f"Frame {n}: {by_time(index)}%" for n, index in shown.items() if index < 40]
        number = next(n for n, index in shown.items() if index < 40)
        twice.append(shown[number])
        return "\n".join([*lines, f"Frame {number}: 99%", "Frame 77: 50%"])

    curve = curve_of(Gvl(MockModel(script=script)))
    index = np.round(curve.times * 10).astype(int)
    np.testing.assert_array_equal(np.isnan(curve.progress), (index >= 40) | (index == twice[0]))


def test_with_fewer_than_half_of_the_frames_answered_success_is_unknown() -> None:
    model = MockModel("Frame 1: 10%\nFrame 2: 20%\nFrame 3: 30%")
    assert math.isnan(judged(Gvl(model)).success_score)


def test_a_percentage_outside_0_to_100_stays_in_raw_alone() -> None:
    curve = curve_of(Gvl(answering(lambda i: 130 if i > 40 else -5 if i < 10 else 50)))
    outside = (curve.times > 4.0) | (curve.times < 1.0)
    np.testing.assert_array_equal(np.isnan(curve.progress), outside)
    assert set(curve.channels["raw"].round(2)) == {-0.05, 0.5, 1.3}


def test_an_answer_that_cannot_be_read_leaves_every_point_unknown() -> None:
    result = judged(Gvl(MockModel("I am sorry, I cannot see any frames.")))
    assert result.curve is not None
    assert result.curve.coverage == 0.0
    assert math.isnan(result.success_score)


def test_a_number_cut_through_by_the_length_limit_is_not_read() -> None:
    cut = MockModel(script=lambda r: Answer("Frame 1: 50%\nFrame 2: 4", finish="length"))
    whole = MockModel(script=lambda r: Answer("Frame 1: 50%\nFrame 2: 4"))
    assert np.sum(~np.isnan(curve_of(Gvl(cut)).progress)) == 1
    assert np.sum(~np.isnan(curve_of(Gvl(whole)).progress)) == 2


# What is asked


def test_frames_are_shuffled_by_the_episode_and_the_seed_alone() -> None:
    def order(which: Episode, seed: int = 0) -> list[int]:
        model = answering(by_time)
        judged(Gvl(model, seed=seed), which)
        return [p.index for _, p in numbered(model.requests[0]) if isinstance(p, FrameRef)]

    first = order(episode("a"))
    assert first == order(episode("a"))
    assert first != order(episode("b"))
    assert first != order(episode("a"), seed=1)
    assert sorted(first) == sorted(order(episode("b")))
    assert first != sorted(first)


def test_the_published_prompt_is_one_turn_with_the_scene_at_0_first() -> None:
    model = answering(by_time)
    judged(Gvl(model, frames=3))
    (request,) = model.requests
    assert isinstance(request, Generate)
    text = "".join(p if isinstance(p, str) else f"[{p.index}]" for p in request.prompt.turns[0].parts)  # type: ignore[union-attr]
    order = [p.index for _, p in numbered(request) if isinstance(p, FrameRef)]
    assert text.splitlines() == [
        "You are an expert roboticist tasked to predict task completion percentages for frames of a robot "
        "for the task of open the drawer. The task completion percentages are between 0 and 100, where 100 "
        "corresponds to full task completion.",
        "Note that these frames are in random order, so please pay attention to the individual frames when "
        "reasoning about task completion percentage.",
        "Initial robot scene:",
        "[0]In the initial robot scene, the task completion percentage is 0.",
        "Now, for the task of open the drawer, output the task completion percentage for the following "
        "frames that are presented in random order. For each frame, format your response as follow: "
        "Frame {i}: Frame Description: {}, Task Completion Percentages:{}%",
        "Frame 1:",
        f"[{order[0]}]Frame 2:",
        f"[{order[1]}]Frame 3:",
        f"[{order[2]}]",
    ]
    assert sorted(order) == [16, 33, 49]


def test_without_the_anchor_the_first_frame_is_asked_about_too() -> None:
    model = answering(by_time)
    curve = curve_of(Gvl(model, frames=3, anchor=False))
    assert curve.times.tolist() == [0.0, 2.4, 4.9]
    assert "initial" not in str(model.requests[0]).lower()


def test_an_episode_of_a_single_frame_is_asked_about_it() -> None:
    assert curve_of(Gvl(answering(lambda i: 7)), episode(views={"top": FakeView(1)})).progress.tolist() == [
        0.07
    ]


# Several views


def test_views_are_asked_one_by_one_and_progress_is_the_mean_of_those_that_answered() -> None:
    def script(request: Request) -> str:
        said = []
        for number, image in numbered(request):
            assert isinstance(image, FrameRef)
            if image.view == "top" or image.index >= 25:
                said.append(f"Frame {number}: {20 if image.view == 'top' else 60}%")
        return "\n".join(said)

    model = MockModel(script=script)
    curve = curve_of(Gvl(model), episode(views={"top": FakeView(), "wrist": FakeView()}))
    assert len(model.requests) == 2
    np.testing.assert_allclose(curve.progress, np.where(curve.times >= 2.5, 0.4, 0.2))
    np.testing.assert_array_equal(np.isnan(curve.channels["raw:wrist"]), curve.times < 2.5)


@pytest.mark.parametrize("views", [1, 2, 3])
def test_the_real_three_camera_episode_is_judged_with_one_two_and_three_views(
    views: int, shared_data: Path, tmp_path: Path
) -> None:
    episodes = stepscore.open_episodes(shared_data / "multiview")
    names = list(next(iter(episodes)).views)[:views]

    def script(request: Request) -> str:
        shown = [(n, p) for n, p in numbered(request) if isinstance(p, DecodedMedia)]
        return "\n".join(f"Frame {n}: {round(100 * float(p.clip.timestamps[0]) / 43)}%" for n, p in shown)

    model = MockModel("clock", script=script)
    judge = Gvl(model, frames=6, size=64)
    run = stepscore.score(
        episodes,
        judge,
        out=tmp_path / "run",
        views=names,
        call_options=CallOptions(cache_path=tmp_path / "c.sqlite"),
    )
    assert run.judgements().column("error").to_pylist() == [None]
    assert run.judgements().column("success_score").to_pylist() == [1.0]
    assert run.usage().column("calls").to_pylist() == [views]
    assert run.usage().column("images").to_pylist() == [7 * views]
    assert run.curves().num_rows == 6


# Context


@pytest.fixture(scope="module")
def toys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_rollouts(tmp_path_factory.mktemp("toys") / "toys", scenes=3)


def test_examples_come_from_other_successes_of_the_task_with_their_share_of_the_time(toys: Path) -> None:
    episodes = list(stepscore.open_episodes(toys))
    known = [e for e in episodes if e.labels.success is not False]
    which = known[0]
    same = [e for e in known if e.instruction == which.instruction and e.fingerprint != which.fingerprint]
    assert same
    model = answering(lambda i: 50)
    judge = Gvl(model, frames=4, context=1, context_source=toys, size=32)
    curve = curve_of(judge, which)
    assert curve.coverage == 1.0
    (request,) = model.requests
    assert isinstance(request, Generate)
    parts = request.prompt.turns[0].parts
    shown = [(n, p) for n, p in numbered(request) if isinstance(p, DecodedMedia)]
    asked = [n for n, p in numbered(request) if isinstance(p, FrameRef)]
    assert [n for n, _ in shown] == [1, 2, 3, 4]
    assert asked == [5, 6, 7, 8]
    assert any(isinstance(p, str) and p.startswith("We provide several examples") for p in parts)
    said = [p for p in parts if isinstance(p, str) and p.startswith("Task Completion Percentages: ")]
    ends = [e.info.duration_s for e in same if e.info]
    for (_, image), text in zip(shown, said, strict=True):
        percent = int(text.split()[3].rstrip("%"))
        at = float(image.clip.timestamps[0])
        assert any(abs(percent - 100 * at / end) < 12 for end in ends)


def test_too_few_examples_are_an_error_that_says_how_many_there_are(toys: Path) -> None:
    which = next(iter(stepscore.open_episodes(toys)))
    with pytest.raises(EpisodeError, match="needs 99 examples of its task"):
        judged(Gvl(answering(by_time), context=99, context_source=toys), which)


def test_what_the_examples_are_taken_from_enters_the_protocol(toys: Path) -> None:
    model = MockModel()
    one = Gvl(model, context=1, context_source=toys).options()
    assert one["context_digest"]
    assert one != Gvl(model).options()


# The contract


def test_a_model_that_writes_nothing_is_refused() -> None:
    class Silent(MockModel):
        @property
        def capabilities(self) -> Capabilities:
            return Capabilities(generate=False, scores="exact")

    with pytest.raises(CapabilityError, match="gvl needs generated text"):
        judged(Gvl(Silent("x")))


def test_an_episode_without_video_is_an_error_that_names_it() -> None:
    with pytest.raises(EpisodeError, match="Episode e has no video"):
        judged(Gvl(MockModel()), episode(views={}))


def test_calibration_maps_the_stated_percentages(tmp_path: Path) -> None:
    plain = Gvl(answering(by_time))
    options = json.loads(json.dumps({k: v for k, v in plain.options().items() if k != "calibration"}))
    fitted = FittedMap(MonotoneMap((0.0, 1.0), (0.0, 0.5)), "raw", "gvl", 1, options, "mock/m", "0")
    write_calibration(fitted, tmp_path / "map.json")
    judge = replace(plain, calibration=tmp_path / "map.json")
    before, after = curve_of(plain), curve_of(judge)
    np.testing.assert_allclose(after.progress, before.progress / 2)
    np.testing.assert_array_equal(after.channels["raw"], before.progress)
    assert after.calibrated


@pytest.mark.parametrize(
    "wrong",
    [
        {"frames": 1},
        {"form": "poem"},
        {"context": 1},
        {"context_source": "x"},
        {"context": -1},
        {"max_tokens": 0},
    ],
)
def test_wrong_options_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(OptionError):
        Gvl(MockModel(), **wrong)  # type: ignore[arg-type]


def test_the_judge_is_picklable_and_its_options_tell_its_settings_apart() -> None:
    judge = Gvl(MockModel("x"))
    assert pickle.loads(pickle.dumps(judge)).options() == judge.options()
    changes: list[dict[str, object]] = [
        {},
        {"frames": 8},
        {"form": "json"},
        {"anchor": False},
        {"size": None},
        {"seed": 1},
        {"temperature": 0.5},
        {"max_tokens": 99},
    ]
    seen = {json.dumps(replace(judge, **c).options(), sort_keys=True) for c in changes}  # type: ignore[arg-type]
    assert len(seen) == len(changes)
