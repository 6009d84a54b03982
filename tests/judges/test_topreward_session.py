"""A session scores a growing video as the offline judge scores the recorded one."""

from __future__ import annotations

import asyncio
import shutil
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stepscore
from stepscore.episodes import Clip, Episode
from stepscore.errors import BudgetError, CapabilityError, OptionError, UnknownNameError
from stepscore.judges import TopReward, get_judge
from stepscore.judges.common.calibration import FittedMap, write_calibration
from stepscore.judges.common.success_map import FittedSuccess
from stepscore.metrics import MonotoneMap, SuccessMap
from stepscore.models import get_model
from stepscore.models.calls import Attempts, Budget, Call, CallOptions, opened_chain
from stepscore.models.embedded import FOLDER
from tests.paths import ROOT

MODEL = get_model("embedded", gate=False)


@pytest.fixture(scope="module")
def episode() -> Episode:
    return stepscore.open_episodes(ROOT / "src/stepscore/cli/demo_data")[0]


def causal(**options: Any) -> TopReward:
    chosen: dict[str, Any] = {"sampling": "causal", "fps": 5.0, "min_first": 4, "size": 112} | options
    return TopReward(MODEL, **chosen)


def all_frames(episode: Episode, judge: TopReward) -> Clip:
    n = episode.views[episode.main_view].info().n_frames
    return episode.clip(episode.main_view, indices=range(n), size=judge.size)


def offline(judge: TopReward, episode: Episode, folder: Path) -> Any:
    """The curve of the recorded episode, judged without a cache."""
    with opened_chain(folder, CallOptions(cache=False), judge.model) as chain:
        judged = asyncio.run(
            judge.judge(episode.with_views([episode.main_view]), chain.ask_about(episode, []))
        )
    assert judged.curve is not None
    return judged.curve


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_a_session_equals_the_offline_judge(episode: Episode, tmp_path: Path, chunk: int) -> None:
    judge = causal(prefixes=64)
    clip, whole = all_frames(episode, judge), offline(judge, episode, tmp_path)
    with judge.open(episode.instruction) as session:
        points = 0
        for start in range(0, len(clip), chunk):
            part = slice(start, start + chunk)
            added = session.add(Clip(clip.frames[part], clip.timestamps[part], clip.indices[part]))
            points += len(added)
        last = session.finish()
        curve = session.curve
    assert points + len(last) == len(curve) == len(whole) > 5
    np.testing.assert_allclose(curve.times, whole.times, atol=1e-9)
    for name in ("logp_true", "logp_false"):
        np.testing.assert_allclose(curve.channels[name], whole.channels[name], atol=1e-4)
    np.testing.assert_allclose(curve.progress, whole.progress, atol=1e-4)
    np.testing.assert_allclose(curve.channels["success"], whole.channels["success"], atol=1e-4)
    assert "minmax" not in curve.channels


def test_every_frame_is_encoded_once(episode: Episode, monkeypatch: pytest.MonkeyPatch) -> None:
    judge, encoded = causal(), list[int]()
    network = MODEL._engine.network  # type: ignore[attr-defined]
    encode = network.vision.encode
    monkeypatch.setattr(
        network.vision,
        "encode",
        lambda frames, blocks: encoded.extend(map(len, blocks)) or encode(frames, blocks),
    )
    clip = all_frames(episode, judge)
    with judge.open(episode.instruction) as session:
        session.add(clip)
    assert sum(encoded) == session.shown > 8
    assert session.shown % 2 == 0


def test_an_odd_frame_waits_or_is_scored_as_shown_twice(episode: Episode) -> None:
    judge = causal(min_first=2)
    frames = all_frames(episode, judge).frames[:5]
    with judge.open(episode.instruction) as pairs, judge.open(episode.instruction, odd="repeat") as each:
        assert [len(pairs.add(frame)) for frame in frames] == [0, 1, 0, 1, 0]
        assert [len(each.add(frame)) for frame in frames] == [0, 1, 1, 1, 1]
        last = pairs.finish()
        np.testing.assert_allclose(pairs.curve.times, [0.2, 0.6, 0.8])
        np.testing.assert_allclose(last.progress, each.curve.progress[-1:], atol=1e-5)
        np.testing.assert_allclose(pairs.curve.progress, each.curve.progress[[0, 2, 3]], atol=1e-5)


def test_a_clip_in_one_pass_has_a_point_for_every_frame(episode: Episode, tmp_path: Path) -> None:
    judge = causal(min_first=2)
    frames = all_frames(episode, judge).frames[:5]
    clip = Clip(frames, np.arange(5) / judge.fps, np.arange(5))
    calls = list[Call]()
    with opened_chain(tmp_path, CallOptions(cache=False), MODEL) as chain:
        ask = chain.ask_about(Episode("clip", episode.instruction), calls)
        judged = asyncio.run(judge.score_clips({"main": clip}, episode.instruction, ask))
    with judge.open(episode.instruction, odd="repeat") as session:
        for frame in frames:
            session.add(frame)
    assert judged.curve is not None
    assert len(calls) == 1
    np.testing.assert_allclose(judged.curve.progress[1:], session.curve.progress, atol=1e-5)


def test_frames_go_through_the_call_chain(episode: Episode, tmp_path: Path) -> None:
    judge, calls = causal(min_first=2), list[Call]()
    frames = all_frames(episode, judge).frames[:8]
    options = CallOptions(Budget(max_calls=3), cache_path=tmp_path / "cache.sqlite")
    with opened_chain(tmp_path, options, MODEL) as chain:
        ask = chain.ask_about(Episode("live", episode.instruction), calls)
        with judge.open(episode.instruction, ask=ask, calls=calls) as session:
            for frame in frames[:6]:
                session.add(frame)
            session.add(frames[6])
            with pytest.raises(BudgetError, match="3 calls is spent"):
                session.add(frames[7])
    assert [call.cached for call in calls] == [False] * 4
    assert all(call.response is not None for call in calls[:3])
    assert calls[0].row()["prompt"].startswith("user: [live video]")
    assert not len(calls[0].request.video.clip)  # type: ignore[attr-defined]
    assert Attempts(tmp_path / "attempts.sqlite").total().answered == 3


def test_a_warm_up_changes_no_number(episode: Episode) -> None:
    judge = causal(min_first=2)
    frames = all_frames(episode, judge).frames[:2]
    curves = []
    for _ in range(2):
        with judge.open(episode.instruction) as session:
            session.add(frames[0])
            curves.append(session.add(frames[1]))
        judge.warm_up(episode.instruction)
    np.testing.assert_array_equal(curves[0].progress, curves[1].progress)


def test_two_views_are_averaged(episode: Episode) -> None:
    judge = causal(min_first=2)
    frames = all_frames(episode, judge).frames[:4]
    with judge.open(episode.instruction, ["a", "b"]) as session:
        for frame in frames:
            session.add({"a": frame, "b": frame[::-1].copy()})
        margins = [
            session.curve.channels[f"logp_true:{view}"] - session.curve.channels[f"logp_false:{view}"]
            for view in ("a", "b")
        ]
        np.testing.assert_allclose(session.curve.channels["margin"], np.mean(margins, axis=0))
        with pytest.raises(UnknownNameError, match="Unknown view"):
            session.add({"c": frames[0]})
        with pytest.raises(OptionError, match="no frame of b"):
            session.add({"a": frames[0]})


def test_a_full_session_is_unknown_and_says_so(episode: Episode) -> None:
    judge = causal(min_first=2, max_frames=4)
    frame = all_frames(episode, judge).frames[0]
    with judge.open(episode.instruction) as session:
        for _ in range(4):
            session.add(frame)
        with pytest.warns(UserWarning, match="has shown 4 frames"):
            later = session.add(frame)
        assert np.isnan(later.progress).all()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert np.isnan(session.add(frame).progress).all()
    assert session.shown == 4


def test_the_map_of_causal_sampling_is_applied(episode: Episode, tmp_path: Path) -> None:
    plain = causal(min_first=2)
    options = {name: value for name, value in plain.options().items() if name != "calibration"}
    success = FittedSuccess(SuccessMap(0.5, 1.0, {}), "margin", "holds")
    fitted = FittedMap(
        MonotoneMap((-5.0, 5.0), (0.0, 1.0)),
        "margin",
        "topreward",
        1,
        options,
        "embedded",
        "0",
        success=success,
    )
    write_calibration(fitted, tmp_path / "map.json")
    judge = causal(min_first=2, calibration=tmp_path / "map.json")
    frames = all_frames(episode, judge).frames[:6]
    with judge.open(episode.instruction) as session, plain.open(episode.instruction) as uncalibrated:
        for frame in frames:
            session.add(frame)
            uncalibrated.add(frame)
        assert session.curve.calibrated
        assert not uncalibrated.curve.calibrated
        assert set(session.curve.channels) > {"raw", "success_probability"}
        np.testing.assert_allclose(session.curve.channels["raw"], uncalibrated.curve.progress, atol=1e-5)


def test_the_embedded_judge_has_a_map_for_causal_sampling() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        judge = get_judge("topreward", model="embedded", sampling="causal")
    assert isinstance(judge, TopReward)
    assert judge.fitted is not None
    assert judge.fitted.options["sampling"] == "causal"
    with pytest.warns(UserWarning, match="uncalibrated"):
        other = get_judge("topreward", model="embedded", sampling="causal", fps=3)
    assert isinstance(other, TopReward)
    assert other.fitted is None


def test_a_checkpoint_may_have_a_map_for_causal_sampling(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    shutil.copytree(FOLDER, folder)
    (folder / "causal-calibration.json").unlink()
    model = get_model("embedded", checkpoint=str(folder))
    with pytest.warns(UserWarning, match="uncalibrated"):
        plain = get_judge("topreward", model=model, sampling="causal")
    options = {name: value for name, value in plain.options().items() if name != "calibration"}
    fitted = FittedMap(
        MonotoneMap((0.0, 1.0), (0.0, 1.0)), "progress", "topreward", 1, options, "embedded", "0"
    )
    write_calibration(fitted, folder / "causal-calibration.json")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        live, recorded = (get_judge("topreward", model=model, sampling=name) for name in ("causal", "spread"))
    assert isinstance(live, TopReward)
    assert isinstance(recorded, TopReward)
    assert str(live.calibration).endswith("causal-calibration.json")
    assert str(recorded.calibration).endswith("calibration.json")


def test_what_cannot_be_scored_live_says_so() -> None:
    with pytest.raises(OptionError, match="sampling='causal'"):
        TopReward(MODEL).open("open it")
    with pytest.raises(OptionError, match="variant=token"):
        causal(variant="instruction").open("open it")
    with pytest.raises(OptionError, match="'wait' or 'repeat'"):
        causal().open("open it", odd="skip")  # type: ignore[arg-type]
    with pytest.raises(CapabilityError, match="scores no growing video"):
        TopReward(_NoStreams(), sampling="causal").open("open it")  # type: ignore[arg-type]
    with causal().open("open it") as session:
        with pytest.raises(OptionError, match=r"\(height, width, 3\) of uint8"):
            session.add(np.zeros((4, 4), np.uint8))
        session.add(np.zeros((8, 8, 3), np.uint8))
        clip = Clip(np.zeros((1, 8, 8, 3), np.uint8), np.zeros(1), np.zeros(1, np.int64))
        with pytest.raises(OptionError, match="must increase"):
            session.add(clip)


class _NoStreams:
    name = "served"
    capabilities = MODEL.capabilities


@pytest.mark.slow
def test_a_session_on_an_hf_model_equals_the_offline_judge(episode: Episode, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from tests.models import tiny

    made = tiny.tokenizer()
    tiny.save(tmp_path / "model", tiny.qwen3vl(made), made)
    judge = causal(prefixes=64, size=64)
    judge = replace(judge, model=get_model(f"hf/{tmp_path / 'model'}", dtype="float32"))
    clip, whole = all_frames(episode, judge), offline(judge, episode, tmp_path)
    with judge.open(episode.instruction) as session:
        session.add(clip)
        session.finish()
        curve = session.curve
    assert len(curve) == len(whole) > 5
    for name in ("logp_true", "logp_false"):
        np.testing.assert_allclose(curve.channels[name], whole.channels[name], atol=1e-4)
