from __future__ import annotations

import asyncio
import json
import math
import pickle
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stepscore
from stepscore.episodes import Episode
from stepscore.errors import CapabilityError, EpisodeError, OptionError
from stepscore.judges.common.calibration import FittedMap, write_calibration
from stepscore.judges.common.prefixes import causal_prefixes, spread_prefixes
from stepscore.judges.topreward import TopReward
from stepscore.metrics.calibration import MonotoneMap
from stepscore.metrics.order import voc
from stepscore.models import PrefixScores, Request, ScorePrefixes
from stepscore.models.chatml import split_at_video
from stepscore.models.mock import MockModel
from stepscore.runs import CallOptions
from stepscore.types import Curve, Judgement
from tests.fakes import FakeView, episode
from tests.metrics.test_token_rewards import CACHED, UNCACHED

FRESH = CallOptions(cache=False)


def scripted(script: Callable[[ScorePrefixes], object]) -> MockModel:
    return MockModel(script=script)  # type: ignore[arg-type]


def judged(judge: TopReward, which: Episode) -> Judgement:
    async def ask(request: Request, model: object = None) -> Any:
        return await judge.model.answer(request)

    return asyncio.run(judge.judge(which, ask))


def curve_of(judge: TopReward, which: Episode | None = None) -> Curve:
    curve = judged(judge, which or episode()).curve
    assert curve is not None
    return curve


def rewards(values: Sequence[float], no: float = -1.0) -> MockModel:
    """A model that gives these log-probabilities to the target, prefix by prefix."""

    def script(request: ScorePrefixes) -> PrefixScores:
        assert len(request.lengths) == len(values)
        return PrefixScores(np.array([[[value, no] for value in values]]))

    return scripted(script)


def requests(model: MockModel) -> list[ScorePrefixes]:
    assert all(isinstance(request, ScorePrefixes) for request in model.requests)
    return model.requests


# What comes out


@pytest.mark.parametrize(("published", "expected"), [(UNCACHED, 0.942857), (CACHED, 0.930234)])
def test_the_published_rewards_keep_their_published_order(published: list[float], expected: float) -> None:
    curve = curve_of(TopReward(rewards(published), prefixes=15))
    for channel in ("logp_true", "margin", "minmax"):
        assert voc(curve.channels[channel]) == pytest.approx(expected, abs=5e-7)
    assert voc(curve.progress) == pytest.approx(expected, abs=5e-7)


@given(st.lists(st.tuples(st.floats(-30, -0.01), st.floats(-30, -0.01)), min_size=16, max_size=16))
def test_progress_is_the_probability_of_the_one_word_against_the_other(
    pairs: list[tuple[float, float]],
) -> None:
    model = scripted(lambda request: PrefixScores(np.array([pairs])))
    result = judged(TopReward(model), episode())
    assert result.curve is not None
    by_hand = [1 / (1 + math.exp(no - yes)) for yes, no in pairs]
    np.testing.assert_allclose(result.curve.progress, by_hand, atol=1e-12)
    np.testing.assert_allclose(result.curve.channels["margin"], [yes - no for yes, no in pairs])
    assert result.success_score == pytest.approx(np.mean(by_hand[-3:]))
    assert result.curve.channels["success"][-1] == result.success_score
    assert result.facts["logp_success"] == pytest.approx(np.mean([yes for yes, _ in pairs[-3:]]))
    assert not result.curve.calibrated


def test_a_failure_reaches_1_on_the_papers_scale_and_not_in_progress() -> None:
    for plateau in (0.8, 0.5, 0.3):
        level = plateau * np.minimum(1.0, np.linspace(0.1, 1.4, 16))
        curve = curve_of(TopReward(rewards(np.log(level / (1 - level)).tolist(), no=0.0)))
        assert curve.progress[-1] == pytest.approx(plateau)
        assert curve.channels["minmax"][-1] == pytest.approx(1.0)
        assert voc(curve.progress) > 0.9


def test_a_word_that_the_server_did_not_tell_leaves_its_prefix_and_the_success_unknown() -> None:
    values = [-3.0] * 16
    values[4] = values[14] = math.nan
    result = judged(TopReward(rewards(values)), episode())
    assert result.curve is not None
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(result.curve.progress)), [4, 14])
    assert np.isnan(result.curve.channels["minmax"][4])
    assert math.isnan(result.success_score)
    assert result.curve.coverage == 14 / 16


# What is shown


def test_frames_are_sampled_once_and_prefixes_end_at_their_last_shown_frame() -> None:
    model = scripted(lambda request: -1.0)
    curve = curve_of(TopReward(model, fps=2.0, prefixes=4), episode(views={"top": FakeView(601, 20.0)}))
    (request,) = requests(model)
    video, lengths = request.video, request.lengths
    assert video.indices[0] == 0  # type: ignore[union-attr]
    assert video.indices[-1] == 600  # type: ignore[union-attr]
    assert len(video.indices) == 62  # type: ignore[union-attr]
    assert lengths == (8, 26, 44, 62)
    np.testing.assert_allclose(curve.times, [video.indices[n - 1] / 20 for n in lengths])  # type: ignore[arg-type,union-attr]


@given(
    frames=st.integers(1, 400),
    fps=st.sampled_from([5.0, 10.0, 29.97]),
    rate=st.sampled_from([0.5, 2.0, 8.0]),
    prefixes=st.integers(1, 40),
    min_first=st.integers(1, 12),
    max_frames=st.integers(2, 160),
    jitter=st.booleans(),
)
def test_every_plan_shows_the_first_and_last_frame_in_even_growing_prefixes(
    frames: int, fps: float, rate: float, prefixes: int, min_first: int, max_frames: int, jitter: bool
) -> None:
    steps = np.random.default_rng(frames).uniform(0.2, 1.8, frames) if jitter else np.ones(frames)
    timestamps = (np.cumsum(steps) - steps[0]) / fps
    shown, lengths = spread_prefixes(
        timestamps, prefixes=prefixes, fps=rate, min_first=min_first, max_frames=max_frames
    )
    assert shown[0] == 0
    assert frames == 1 or shown[-1] == frames - 1
    assert np.all(np.diff(shown) > 0)
    assert len(shown) <= max_frames
    assert lengths[-1] == len(shown)
    assert 1 <= len(lengths) <= prefixes
    assert list(lengths) == sorted(set(lengths))
    assert frames == 1 or all(length % 2 == 0 for length in lengths)
    first = min_first + min_first % 2
    if len(shown) >= 2 * first and len(lengths) > 1:
        assert lengths[0] == first


def test_a_short_episode_is_shown_more_often_per_second_so_that_its_prefixes_can_grow() -> None:
    timestamps = np.arange(60) / 20.0
    shown, lengths = spread_prefixes(timestamps, prefixes=16, fps=2.0, min_first=8, max_frames=128)
    assert len(shown) == 8 + 2 * 15
    assert lengths == tuple(range(8, 39, 2))


def test_a_long_episode_is_shown_less_often_per_second() -> None:
    shown, lengths = spread_prefixes(
        np.arange(24 * 240) / 24, prefixes=16, fps=2.0, min_first=8, max_frames=128
    )
    assert len(shown) == 128
    assert len(lengths) == 16


@given(
    frames=st.integers(1, 300),
    cut=st.floats(0.05, 1.0),
    fps=st.sampled_from([5.0, 10.0, 29.97]),
    rate=st.sampled_from([0.5, 2.0, 5.0, 40.0]),
    prefixes=st.integers(1, 40),
    max_frames=st.integers(2, 160),
    jitter=st.booleans(),
)
def test_causal_frames_of_a_cut_video_are_those_of_the_whole_one(
    frames: int, cut: float, fps: float, rate: float, prefixes: int, max_frames: int, jitter: bool
) -> None:
    steps = np.random.default_rng(frames).uniform(0.2, 1.8, frames) if jitter else np.ones(frames)
    whole = (np.cumsum(steps) - steps[0]) / fps
    part = whole[: max(1, int(cut * frames))]
    shown, lengths = causal_prefixes(whole, prefixes=prefixes, fps=rate, min_first=2, max_frames=max_frames)
    sooner, counts = causal_prefixes(part, prefixes=prefixes, fps=rate, min_first=2, max_frames=max_frames)
    for seen, ends, n in ((shown, lengths, frames), (sooner, counts, len(part))):
        assert seen[0] == 0
        assert seen[-1] == n - 1
        assert (np.diff(seen) > 0).all()
        assert len(seen) <= max_frames
        assert ends[-1] == len(seen)
        assert len(ends) <= prefixes
        assert all(count % 2 == 0 for count in ends[:-1])
    if whole[-1] * rate + 2 < max_frames:  # else the longer one is shown at a lower rate
        assert sooner[:-1].tolist() == shown[: len(sooner) - 1].tolist()


def test_a_causal_curve_begins_as_that_of_the_cut_video() -> None:
    """Frame for frame the same questions, so that the verdict on a video so far is that of a live session."""
    judge = TopReward(scripted(lambda r: -1.0), sampling="causal", fps=5.0, prefixes=64, min_first=2)
    whole, cut = (curve_of(judge, episode(views={"top": FakeView(n)})) for n in (40, 21))
    assert whole.times[: len(cut) - 1].tolist() == cut.times[:-1].tolist()
    assert len(cut) > 2


def test_only_causal_sampling_is_named_among_the_options() -> None:
    """A map that was fitted before there was a choice belongs to frames spread over the episode."""
    model = scripted(lambda r: -1.0)
    assert "sampling" not in TopReward(model).options()
    assert TopReward(model, sampling="causal").options()["sampling"] == "causal"


def test_an_episode_of_a_single_frame_has_a_single_point() -> None:
    curve = curve_of(TopReward(scripted(lambda r: -1.0)), episode(views={"top": FakeView(1)}))
    assert curve.times.tolist() == [0.0]


# What is asked


def asked(instruction: str, **options: object) -> ScorePrefixes:
    model = scripted(lambda request: -1.0)
    judged(TopReward(model, **options), episode(instruction=instruction))  # type: ignore[arg-type]
    return requests(model)[0]


def rendered(request: ScorePrefixes) -> tuple[str, str]:
    (prompt,) = request.prompts
    return split_at_video(prompt)


def test_the_upstream_form_is_the_published_text_in_a_turn_that_is_never_closed() -> None:
    request = asked("open the drawer")
    assert rendered(request) == (
        "<|im_start|>user\n",
        "The above video shows a robot manipulation trajectory that completes the following task: open the "
        "drawer Decide whether the above statement is True or not. The answer is:",
    )
    assert request.prompts[0].prefill == " The answer is:"
    assert request.candidates == (" True", " False")


def test_the_paper_form_has_no_markup_and_one_period_after_the_instruction() -> None:
    for instruction in ("open the drawer", "open the drawer. "):
        request = asked(instruction, form="paper")
        head, tail = rendered(request)
        assert head == ""
        assert "following task: open the drawer. Decide whether" in tail
        assert tail.endswith("The answer is:")


def test_the_chat_form_scores_the_first_word_of_the_answer() -> None:
    request = asked("open the drawer", form="chat", target="Yes", other="No")
    assert rendered(request)[1].endswith("The answer is:<|im_end|>\n<|im_start|>assistant\n")
    assert request.candidates == ("Yes", "No")


def test_braces_in_an_instruction_are_left_alone() -> None:
    assert "task: put {video} on {instruction} Decide" in rendered(asked("put {video} on {instruction}"))[1]


# The instruction's own likelihood


@dataclass
class WithTokens(MockModel):
    """A model that returns its tokens: up to four letters each, with the space before a word."""

    def token_texts(self, text: str) -> list[str]:
        return re.findall(r" ?\S{1,4}", text)


def likelihood(request: ScorePrefixes) -> PrefixScores:
    """Log-probability of a token: its length, below a prefix's; deeper the more text stands before it."""
    shape = (len(request.prompts), len(request.lengths), len(request.candidates))
    values = np.zeros(shape)
    for s, (_, tail) in enumerate(map(split_at_video, request.prompts)):
        for c, word in enumerate(request.candidates):
            values[s, :, c] = -len(tail) / 100 - len(word) + np.array(request.lengths) / 10
    return PrefixScores(values)


@pytest.mark.parametrize(
    ("kind", "tokens", "calls"),
    [
        (MockModel, [" open", " the", " open", " drawer"], 4),
        # "er" is a token after " draw" and not after " the" (" thee", "r"), so it is asked alone.
        (WithTokens, [" open", " the", " open", " draw", "er"], 2),
    ],
)
def test_the_instruction_variant_is_the_mean_over_its_tokens_each_after_those_before_it(
    kind: type[MockModel], tokens: list[str], calls: int
) -> None:
    model = kind(script=likelihood)  # type: ignore[arg-type]
    result = judged(
        TopReward(model, variant="instruction", form="paper"), episode(instruction="open the open drawer.")
    )
    curve = result.curve
    assert curve is not None
    text = " open the open drawer"
    before = "The above video shows a robot manipulation trajectory that completes the following task:"
    by_hand = []
    for length in requests(model)[0].lengths:
        scored, total = before, 0.0
        for token in tokens:
            total += -len(scored) / 100 - len(token) + length / 10
            scored += token
        assert scored == before + text
        by_hand.append(total / len(tokens))
    assert len(model.requests) == calls
    np.testing.assert_allclose(curve.channels["raw"], by_hand)
    assert np.all(np.isnan(curve.progress))
    assert math.isnan(result.success_score)
    assert curve.channels["minmax"][-1] == pytest.approx(1.0)


# Several views


def test_views_are_fused_by_their_mean_log_odds_and_kept_beside_it() -> None:
    by_view = {"top": (-1.0, -2.0), "wrist": (-5.0, -1.0)}

    def script(request: ScorePrefixes) -> PrefixScores:
        times = request.video.clip.timestamps if hasattr(request.video, "clip") else None
        assert times is None
        yes, no = by_view[request.video.view]  # type: ignore[union-attr]
        return PrefixScores(np.tile([yes, no], (1, len(request.lengths), 1)))

    both = episode(views={"top": FakeView(), "wrist": FakeView(100, 20.0, "w")})
    model = scripted(script)
    curve = curve_of(TopReward(model), both)
    np.testing.assert_allclose(curve.progress, 1 / (1 + math.exp(1.5)))
    np.testing.assert_allclose(curve.channels["logp_true:wrist"], -5.0)
    top, wrist = (request.video for request in requests(model))
    np.testing.assert_allclose(np.array(wrist.indices) / 20, np.array(top.indices) / 10, atol=0.05)  # type: ignore[arg-type,union-attr]


def test_a_view_that_is_unknown_at_a_prefix_leaves_the_fused_point_unknown() -> None:
    def script(request: ScorePrefixes) -> PrefixScores:
        values = np.full((1, len(request.lengths), 2), -1.0)
        if request.video.view == "wrist":  # type: ignore[union-attr]
            values[0, 0, 0] = np.nan
        return PrefixScores(values)

    curve = curve_of(TopReward(scripted(script)), episode(views={"top": FakeView(), "wrist": FakeView()}))
    assert np.isnan(curve.progress[0])
    assert not np.isnan(curve.progress[1:]).any()
    assert curve.channels["logp_true:top"][0] == -1.0


@pytest.mark.parametrize("views", [1, 2, 3])
def test_the_real_three_camera_episode_is_judged_with_one_two_and_three_views(
    views: int, shared_data: Path, tmp_path: Path
) -> None:
    episodes = stepscore.open_episodes(shared_data / "multiview")
    names = list(next(iter(episodes)).views)[:views]

    def brighter_is_truer(request: Request) -> object:
        assert isinstance(request, ScorePrefixes)
        clip = request.video.clip  # type: ignore[union-attr]
        assert clip.frames.shape[1:] == (168, 224, 3)
        means = clip.frames.mean(axis=(1, 2, 3)) / 255
        yes = [np.log(means[:length].mean()) for length in request.lengths]
        return PrefixScores(np.array([[[value, np.log1p(-np.exp(value))] for value in yes]]))

    model = MockModel("bright", script=brighter_is_truer)
    judge = TopReward(model, prefixes=8, max_frames=24)
    run = stepscore.score(episodes, judge, out=tmp_path / "run", views=names, call_options=FRESH)
    assert run.judgements().column("error").to_pylist() == [None]
    curves = run.curves()
    assert curves.num_rows == 8
    assert len(model.requests) == views
    own = [name for name in curves.column_names if name.startswith("logp_true:")]
    assert own == ([] if views == 1 else [f"logp_true:{name}" for name in sorted(names)])
    if views > 1:
        mean = np.mean([curves.column(name).to_numpy() for name in own], axis=0)
        np.testing.assert_allclose(curves.column("logp_true").to_numpy(), mean)
    assert run.usage().column("images").to_pylist() == [24 * views]


def test_real_rollouts_are_judged_through_the_engine_and_the_cache(shared_data: Path, tmp_path: Path) -> None:
    episodes = stepscore.open_episodes(shared_data / "rollouts", limit=5)
    call_options = CallOptions(cache_path=tmp_path / "c.sqlite")
    model = MockModel("x", script=lambda request: -1.0)
    for name in ("one", "two"):
        run = stepscore.score(episodes, TopReward(model), out=tmp_path / name, call_options=call_options)
        assert run.judgements().column("success_score").to_pylist() == [0.5] * 5
    assert len(model.requests) == 5


# Calibration


def map_for(topreward: TopReward, path: Path, channel: str = "progress", **changes: object) -> Path:
    fitted = FittedMap(
        MonotoneMap((0.0, 1.0), (0.1, 0.7)),
        channel,
        topreward.name,
        topreward.version,
        json.loads(json.dumps({k: v for k, v in topreward.options().items() if k != "calibration"})),
        topreward.model.name,
        "0" * 16,
    )
    write_calibration(replace(fitted, **changes), path)  # type: ignore[arg-type]
    return path


@pytest.mark.parametrize("channel", ["progress", "margin", "logp_true"])
def test_a_calibration_map_replaces_progress_and_enters_the_protocol(channel: str, tmp_path: Path) -> None:
    plain = TopReward(rewards([-2.0] * 16))
    judge = replace(plain, calibration=map_for(plain, tmp_path / "map.json", channel))
    before, after = curve_of(plain), curve_of(judge)
    source = before.progress if channel == "progress" else before.channels[channel]
    np.testing.assert_allclose(after.progress, np.interp(source, [0, 1], [0.1, 0.7]))
    np.testing.assert_array_equal(after.channels["raw"], before.progress)
    assert after.calibrated
    assert judge.options()["calibration"] == {"channel": channel, "x": [0.0, 1.0], "y": [0.1, 0.7]}
    assert judge.options() != plain.options()


def test_the_instruction_variant_has_progress_once_it_is_calibrated(tmp_path: Path) -> None:
    plain = TopReward(scripted(likelihood), variant="instruction")
    judge = replace(plain, calibration=map_for(plain, tmp_path / "map.json", "raw"))
    curve = curve_of(judge)
    np.testing.assert_allclose(curve.progress, np.interp(curve.channels["raw"], [0, 1], [0.1, 0.7]))


def test_a_map_of_another_judge_model_or_option_is_refused(tmp_path: Path) -> None:
    plain = TopReward(MockModel("a"))
    for changes, message in (
        ({"judge": "gvl"}, "fitted for the judge 'gvl'"),
        ({"model": "hf/other"}, "fitted with hf/other, not mock/a"),
        ({"options": {**plain.options(), "form": "paper"}}, "fitted with form='paper', not 'upstream'"),
    ):
        path = map_for(plain, tmp_path / "map.json", **changes)
        with pytest.raises(OptionError, match=message):
            replace(plain, calibration=path)
    with pytest.raises(OptionError, match="No calibration map"):
        replace(plain, calibration=tmp_path / "none.json")


@pytest.mark.parametrize("text", ["", "[]", '{"format": 1}', '{"format": 2}'])
def test_a_file_that_is_no_map_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "map.json").write_text(text)
    with pytest.raises(OptionError, match="is not a calibration map"):
        TopReward(MockModel(), calibration=tmp_path / "map.json")


def test_a_map_for_a_channel_that_the_judge_does_not_give_is_refused(tmp_path: Path) -> None:
    plain = TopReward(scripted(lambda r: -1.0))
    judge = replace(plain, calibration=map_for(plain, tmp_path / "map.json", "stage"))
    with pytest.raises(OptionError, match="takes the channel 'stage'"):
        judged(judge, episode())


# The contract


def test_a_model_without_token_scores_is_refused_with_those_that_have_them() -> None:
    with pytest.raises(
        CapabilityError, match=r"topreward needs token scores; mock/x .*hf/, vllm/ and sglang/"
    ):
        judged(TopReward(MockModel("x", scores="none")), episode())


def test_an_episode_without_video_is_an_error_that_names_it() -> None:
    with pytest.raises(EpisodeError, match="Episode e has no video"):
        judged(TopReward(MockModel("0")), episode(views={}))


def test_the_judge_is_picklable_with_its_map(tmp_path: Path) -> None:
    plain = TopReward(MockModel("x"))
    judge = replace(plain, calibration=map_for(plain, tmp_path / "map.json"))
    assert pickle.loads(pickle.dumps(judge)).options() == judge.options()


@pytest.mark.parametrize(
    "wrong",
    [
        {"prefixes": 0},
        {"prefixes": 2.5},
        {"fps": 0},
        {"fps": math.inf},
        {"max_frames": 1},
        {"min_first": 0},
        {"form": "poem"},
        {"variant": "x"},
        {"target": ""},
        {"target": "False"},
        {"variant": "instruction", "form": "chat"},
    ],
)
def test_wrong_options_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(OptionError):
        TopReward(MockModel(), **wrong)  # type: ignore[arg-type]


def test_whatever_can_change_a_number_is_in_the_options() -> None:
    model = MockModel()
    changes: list[dict[str, object]] = [
        {},
        {"prefixes": 8},
        {"fps": 1.0},
        {"min_first": 4},
        {"max_frames": 64},
        {"size": None},
        {"form": "paper"},
        {"variant": "instruction"},
        {"target": "Yes"},
        {"other": "No"},
    ]
    seen = [json.dumps(TopReward(model, **c).options(), sort_keys=True) for c in changes]  # type: ignore[arg-type]
    assert len(set(seen)) == len(seen)
    assert TopReward(model, fps=2).options() == TopReward(model, fps=2.0).options()
