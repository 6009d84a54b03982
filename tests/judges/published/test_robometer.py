"""Robometer is shown what it was trained on, and its heads are read as published; what is unknown stays unknown."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stepscore
from stepscore.episodes import Episode
from stepscore.errors import CapabilityError, EpisodeError, OptionError
from stepscore.judges import PairJudge, PairPreference, prefer
from stepscore.judges.published.robometer import Robometer, spread_indices
from stepscore.models import (
    DecodedMedia,
    PredictProgress,
    Preference,
    PreferVideo,
    ProgressPredictions,
    Request,
    VideoFrames,
)
from stepscore.models.blocking import run_blocking
from stepscore.models.mock import MockModel
from stepscore.runs import CallOptions, dry_run
from tests.fakes import FakeView, episode
from tests.judges.asked import one_row, run_judge

MODEL = MockModel("Robometer-4B", heads=True)
OWN: dict[str, Any] = {"prompt": "own", "pair_prompt": "own"}


def subject(frames: int, name: str = "e", **fields: Any) -> Episode:
    return episode(name, views={"top": FakeView(frames, mark=name)}, **fields)


def asked(judge: Robometer, one: Episode) -> list[PredictProgress]:
    requests: list[PredictProgress] = []

    async def ask(request: Request, model: object = None) -> Any:
        assert isinstance(request, PredictProgress)
        requests.append(request)
        return request.unknown()

    run_blocking(judge.judge(one, ask))
    return requests


def shown(request: Request) -> tuple[int, ...]:
    (video,) = request.refs()
    assert isinstance(video, VideoFrames)
    return video.indices


@pytest.mark.parametrize(
    ("options", "frames", "expected"),
    [
        ({}, 50, [(0, 7, 14, 21, 28, 35, 42, 49)]),
        ({}, 8, [tuple(range(8))]),
        ({}, 3, [(0, 1, 2, 2, 2, 2, 2, 2)]),
        ({"pad": False}, 3, [(0, 1, 2)]),
        ({"frames": 1}, 50, [(49,)]),
        ({"fps": 1}, 25, [(0, 10, 20, 24)]),
        ({"fps": 10, "frames": 4}, 31, [(0, 10, 20, 30)]),
        ({"points": 3, "frames": 4}, 21, [(0, 0, 0, 0), (0, 3, 7, 10), (0, 7, 13, 20)]),
        ({"points": 2, "frames": 4, "pad": False}, 3, [(0,), (0, 1, 2)]),
    ],
)
def test_the_frames_are_the_published_ones(
    options: dict[str, Any], frames: int, expected: list[tuple[int, ...]]
) -> None:
    judge = Robometer(MODEL, prompt="own", **options)
    assert [shown(request) for request in asked(judge, subject(frames))] == expected


@pytest.mark.parametrize("n", [1, 2, 7, 9, 20, 64, 333])
@pytest.mark.parametrize("count", [1, 4, 8])
def test_indices_are_spread_as_in_the_published_code(n: int, count: int) -> None:
    """The published function, restated."""
    if n <= count:
        expected = list(range(n)) if count > 1 else [n - 1]
    elif count == 1:
        expected = [n - 1]
    else:
        expected = np.rint(np.linspace(0, n - 1, count)).astype(int).tolist()
        expected[0], expected[-1] = 0, n - 1
    assert spread_indices(n, count).tolist() == expected


def by_frame(request: Request) -> ProgressPredictions:
    """Predictions that tell which frame they are of, and how often it was shown; those of frame 14 are unknown."""
    assert isinstance(request, PredictProgress)
    video = request.prompt.turns[0].parts[1]
    assert isinstance(video, DecodedMedia)
    at = video.clip.indices / 100 + np.arange(len(video.clip)) / 1e4
    at = np.where(video.clip.indices == 14, math.nan, at)
    return ProgressPredictions(at, at / 2, np.full(len(at), 0.1), 11)


def test_a_curve_has_a_point_for_each_frame_and_unknown_stays_unknown(tmp_path: Path) -> None:
    judge = Robometer(MockModel("Robometer-4B", heads=True, script=by_frame), prompt="own")
    run = run_judge(judge, subject(50), tmp_path / "run")
    row = one_row(run)
    curve = run.curves().to_pylist()
    assert [point["time_s"] for point in curve] == pytest.approx([0, 0.7, 1.4, 2.1, 2.8, 3.5, 4.2, 4.9])
    expected = [0, 0.0701, None, 0.2103, 0.2804, 0.3505, 0.4206, 0.4907]
    assert [point["progress"] for point in curve] == pytest.approx(expected)
    assert row["success_score"] == pytest.approx(0.4907 / 2)


def test_of_a_padded_video_the_last_repetition_counts(tmp_path: Path) -> None:
    model = MockModel("Robometer-4B", heads=True, script=by_frame)
    run = run_judge(Robometer(model, prompt="own"), subject(3), tmp_path / "run")
    assert run.curves().column("progress").to_pylist() == pytest.approx([0, 0.0101, 0.0207])
    prefixes = run_judge(
        Robometer(model, prompt="own", points=2, frames=4), subject(7), tmp_path / "prefixes"
    )
    assert prefixes.curves().column("progress").to_pylist() == pytest.approx([0.0003, 0.0603])


def test_an_answer_without_numbers_is_a_curve_of_nothing_known(tmp_path: Path) -> None:
    run = run_judge(Robometer(MODEL, prompt="own"), subject(20), tmp_path / "run")
    assert one_row(run)["success_score"] is None
    assert run.curves().column("progress").to_pylist() == [None] * 8


def test_only_a_model_with_heads_is_taken_and_one_camera() -> None:
    with pytest.raises(CapabilityError, match=r"mock/x has not: --model hf/robometer/Robometer-4B") as caught:
        Robometer(MockModel("x"))
    assert "\n" not in str(caught.value)
    two = episode(views={"top": FakeView(9), "wrist": FakeView(9)})
    with pytest.raises(EpisodeError, match="--views top"):
        asked(Robometer(MODEL, prompt="own"), two)
    with pytest.raises(OptionError, match="fps or points"):
        Robometer(MODEL, fps=1, points=3)


def test_the_protocol_has_what_changes_a_curve_and_no_more(tmp_path: Path) -> None:
    plain = Robometer(MODEL).options()
    assert plain["prompts"] == {"progress": {"user": "75e534d05ed26b27"}}
    assert Robometer(MODEL, both_orders=True, pair_prompt="own", pair_progress=False).options() == plain
    file = tmp_path / "mine.txt"
    file.write_text("How far is '{task}'?")
    changed = [
        Robometer(MODEL, **options).options()
        for options in (
            {"frames": 4},
            {"points": 5},
            {"pad": False},
            {"prompt": "own"},
            {"prompt": str(file)},
        )
    ]
    assert len({json.dumps(options, sort_keys=True) for options in (plain, *changed)}) == 6


def test_a_dry_run_fetches_nothing_and_counts_the_pass(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from stepscore.judges.published.profiles import prompt_texts

    monkeypatch.setenv("STEPSCORE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(prompt_texts, "open_client", lambda: pytest.fail("the network was asked"))
    counted = dry_run([subject(30), subject(3)], Robometer(MODEL), CallOptions(cache=False))
    assert (counted.calls, counted.images, counted.failed) == (2, 16, 0)
    with pytest.raises(OptionError, match="-E offline=true"):
        stepscore.score([subject(9)], Robometer(MODEL), tmp_path / "run", offline=True)


# Pairs --------------------------------------------------------------------------------------------------------------


def preferring_longer(request: Request) -> Preference:
    """A judge by the video's end, which likes what comes first a little too much."""
    assert isinstance(request, PreferVideo)
    first, second = (part.clip for part in request.prompt.turns[0].parts if isinstance(part, DecodedMedia))
    return Preference(0.6 if first.indices[-1] >= second.indices[-1] else 0.3)


def test_a_preference_is_asked_in_one_order_or_in_both() -> None:
    model = MockModel("Robometer-4B", heads=True, script=preferring_longer)
    long, short = subject(40, "long"), subject(10, "short")
    judge = Robometer(model, **OWN)
    assert isinstance(judge, PairJudge)
    assert prefer(judge, long, short) == PairPreference(0.6)
    assert math.isnan(prefer(judge, long, short).order_effect)
    both = prefer(Robometer(model, both_orders=True, **OWN), long, short)
    assert (both.forward, both.swapped) == (0.6, 0.7)
    assert both.probability == pytest.approx(0.65)
    assert both.order_effect == pytest.approx(-0.1)
    assert [len(part.clip) for part in _videos(model.requests[-1])] == [8, 8]


def _videos(request: Request) -> list[DecodedMedia]:
    assert isinstance(request, PreferVideo)
    return [part for part in request.prompt.turns[0].parts if isinstance(part, DecodedMedia)]


def test_an_unknown_preference_stays_unknown() -> None:
    known = iter([0.8, math.nan])
    model = MockModel("Robometer-4B", heads=True, script=lambda request: Preference(next(known)))
    found = prefer(Robometer(model, both_orders=True, **OWN), subject(9, "a"), subject(9, "b"))
    assert found.forward == 0.8
    assert math.isnan(found.probability)


def test_frames_of_the_first_episode_are_named_and_not_decoded() -> None:
    """So that a preference that was asked before is found in the cache by the names of its frames."""
    requests: list[Request] = []

    async def ask(request: Request, model: object = None) -> Any:
        requests.append(request)
        return request.unknown()

    judge = Robometer(MODEL, both_orders=True, **OWN)
    found = run_blocking(judge.prefer(subject(9, "a"), subject(9, "b"), ask))
    assert math.isnan(found.probability)
    kinds = [[type(part) for part in r.prompt.turns[0].parts] for r in requests if isinstance(r, PreferVideo)]
    assert kinds == [[str, VideoFrames, str, DecodedMedia, str], [str, DecodedMedia, str, VideoFrames, str]]


def test_a_preference_is_about_one_task() -> None:
    with pytest.raises(EpisodeError, match="different instructions"):
        prefer(Robometer(MODEL, **OWN), subject(9, "a"), subject(9, "b", instruction="close it"))


def test_the_words_of_a_pair_are_in_its_own_protocol() -> None:
    judge = Robometer(MODEL)
    assert judge.pair_options()["prompts"] == {
        "user": "40d02d1a8f02890d",
        "progress": "661937463e84a0bc",
        "first": "f7974b094e23993d",
        "second": "c4d6e1cb72641c09",
        "last": "13d6ccd0f9f3a162",
    }
    assert Robometer(MODEL, both_orders=True).pair_options() != judge.pair_options()
    assert Robometer(MODEL, pair_progress=False).pair_options() != judge.pair_options()
