from __future__ import annotations

import pickle

import numpy as np
import pytest

from stepscore.errors import EpisodeError, OptionError, UnknownNameError
from stepscore.judges import get_judge, judge_registry
from tests.judges.fake_view import judged, rollout

BASELINES = ("linear-time", "constant", "random-monotone")


@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_gives_one_point_per_chosen_frame_from_the_first_to_the_last(name: str) -> None:
    curve = judged(get_judge(name, points=5), rollout(101, fps=20)).curve
    assert curve is not None
    np.testing.assert_allclose(curve.times, [0, 1.25, 2.5, 3.75, 5.0])
    assert curve.coverage == 1.0
    assert curve.time_source == "frames"


@pytest.mark.parametrize("name", BASELINES)
def test_a_short_episode_has_a_point_per_frame(name: str) -> None:
    curve = judged(get_judge(name, points=32), rollout(3)).curve
    assert curve is not None
    np.testing.assert_allclose(curve.times, [0, 0.1, 0.2])


@pytest.mark.parametrize("name", BASELINES)
def test_an_episode_of_a_single_frame_has_a_single_point(name: str) -> None:
    curve = judged(get_judge(name), rollout(1)).curve
    assert curve is not None
    assert len(curve) == 1


@pytest.mark.parametrize("name", BASELINES)
def test_an_episode_without_video_is_an_error_that_names_it(name: str) -> None:
    with pytest.raises(EpisodeError, match="a/b has no video"):
        judged(get_judge(name), rollout(0))


@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_is_picklable_and_registered_under_its_own_name(name: str) -> None:
    judge = get_judge(name)
    assert judge.name == name
    assert pickle.loads(pickle.dumps(judge)) == judge
    assert name in judge_registry.names()


@pytest.mark.parametrize("name", BASELINES)
def test_all_options_enter_the_protocol(name: str) -> None:
    assert get_judge(name, points=7).options()["points"] == 7
    assert get_judge(name, points=7).options() != get_judge(name).options()


@pytest.mark.parametrize("name", BASELINES)
def test_fewer_than_two_points_are_refused(name: str) -> None:
    with pytest.raises(OptionError, match="an integer from 2"):
        get_judge(name, points=1)


def test_linear_time_is_time_over_the_last_frames_time() -> None:
    curve = judged(get_judge("linear-time", points=11), rollout(31)).curve
    assert curve is not None
    np.testing.assert_allclose(curve.progress, curve.times / curve.times[-1])
    assert curve.progress[0] == 0.0
    assert curve.progress[-1] == 1.0


def test_constant_is_its_value_everywhere_and_as_success_score() -> None:
    judgement = judged(get_judge("constant", value=0.25), rollout(40))
    assert judgement.curve is not None
    assert set(judgement.curve.progress) == {0.25}
    assert judgement.success_score == 0.25


@pytest.mark.parametrize("value", [-0.1, 1.5, float("nan")])
def test_constant_refuses_a_value_outside_0_to_1(value: float) -> None:
    with pytest.raises(OptionError, match=r"0\.\.1"):
        get_judge("constant", value=value)


def test_random_monotone_never_falls_and_stays_in_range() -> None:
    for number in range(20):
        curve = judged(get_judge("random-monotone"), rollout(90, id=f"ep{number}")).curve
        assert curve is not None
        assert np.all(np.diff(curve.progress) >= 0)
        assert 0.0 <= curve.progress[0] <= curve.progress[-1] <= 1.0


def test_random_monotone_depends_on_the_episode_and_the_seed_alone() -> None:
    def ends(seed: int, ids: list[str]) -> dict[str, float]:
        judge = get_judge("random-monotone", seed=seed)
        return {name: judged(judge, rollout(50, id=name)).success_score for name in ids}

    forward, backward = ends(0, ["a", "b", "c"]), ends(0, ["c", "b", "a"])
    assert forward == backward
    assert len(set(forward.values())) == 3
    assert ends(1, ["a", "b", "c"]) != forward


def test_a_wrong_option_lists_the_valid_ones() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'points'"):
        get_judge("linear-time", point=3)
