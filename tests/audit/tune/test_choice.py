"""What nothing beats, what is cheapest among equals, and how scenes are split."""

from __future__ import annotations

import math

import numpy as np
import pytest

from stepscore.audit.pareto import pareto_front
from stepscore.audit.tune import TrialCost, make_grid
from stepscore.audit.tune.choice import cheapest_by, decided
from stepscore.audit.tune.grid import trial_name
from stepscore.audit.tune.scene_split import scene_of, split_scenes, task_of
from stepscore.errors import OptionError, UnknownNameError
from stepscore.judges import get_judge
from stepscore.types import Estimate
from tests.audit.tune.planted import EPISODES, PlantedModel, maker

MAKE = maker(PlantedModel())


@pytest.mark.parametrize("seed", range(20))
def test_the_front_is_what_nothing_beats(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 5, 12).tolist()
    costs = rng.integers(0, 4, (12, 3)).tolist()
    expected = [
        i
        for i in range(12)
        if not any(
            values[j] >= values[i]
            and all(costs[j][k] <= costs[i][k] for k in range(3))
            and (values[j] > values[i] or any(costs[j][k] < costs[i][k] for k in range(3)) or j < i)
            for j in range(12)
        )
    ]
    assert pareto_front(values, costs, distinct=True) == expected


def test_a_cost_that_is_not_known_of_all_is_not_compared() -> None:
    assert pareto_front([1, 2], [(1, math.nan), (1, 5)]) == [1]
    assert pareto_front([1, 2], [(1, 4), (2, 5)]) == [0, 1]
    assert pareto_front([], []) == []


def test_cheapest_is_by_money_then_tokens_then_calls() -> None:
    def cost(tokens: float, money: float) -> TrialCost:
        return TrialCost(1.0, 1.0, tokens, money, 1.0)

    assert cheapest_by([cost(10, 0.1), cost(20, 0.0)]) == "cost"
    assert cheapest_by([cost(10, 0.0), cost(20, 0.0)]) == "tokens"
    assert cheapest_by([cost(10, math.nan), cost(20, 0.1)]) == "tokens"
    assert cheapest_by([cost(0, 0.0), cost(0, 0.0)]) == "calls"


def test_a_difference_is_decided_beyond_its_interval() -> None:
    def gap(value: float, lo: float, hi: float) -> Estimate:
        return Estimate(value, lo, hi, 20, 20, 1.0, "")

    assert decided(gap(-0.2, -0.3, -0.1))
    assert not decided(gap(-0.2, -0.5, 0.1))
    assert not decided(gap(0.0, math.nan, math.nan))
    assert decided(gap(-0.2, math.nan, math.nan))  # too few scenes: the better value is the better guess


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_scenes_stay_together_and_tasks_in_proportion(share: float) -> None:
    split = split_scenes(EPISODES, share, 3)
    sides = [{scene_of(e) for e in side} for side in (split.choose, split.test)]
    assert not sides[0] & sides[1]
    assert len(split.choose) + len(split.test) == len(EPISODES)
    for task in ("open", "close"):
        chosen = {scene_of(e) for e in split.choose if task_of(e) == task}
        assert abs(len(chosen) - share * 12) <= 1
    assert abs(len(sides[0]) - share * 24) <= 0.5
    assert split_scenes(EPISODES[::-1], share, 3).scenes == split.scenes
    assert {e.id for e in split_scenes(EPISODES[::-1], share, 3).choose} == {e.id for e in split.choose}
    assert {e.id for e in split_scenes(EPISODES, share, 4).choose} != {e.id for e in split.choose}


def test_either_side_has_a_scene() -> None:
    for share in (0.01, 0.99):
        split = split_scenes(EPISODES[:4], share, 0)  # one scene of each task
        assert split.scenes == (1, 1)
    with pytest.raises(OptionError, match="at least 2"):
        split_scenes(EPISODES[:2], 0.5, 0)


def test_a_grid_is_the_default_and_every_other_combination() -> None:
    grid = make_grid(MAKE, {"frames": [8, 16], "size": [128, 512]})
    assert [trial.name for trial in grid.trials] == [
        "default",  # as frames=16,size=512
        "frames=8,size=128",
        "frames=8,size=512",
        "frames=16,size=128",
    ]
    assert grid.combinations == 4


def test_a_limited_grid_is_a_seeded_draw_with_the_default() -> None:
    over = {"frames": list(range(1, 40)), "size": list(range(32, 72))}

    def names(seed: int) -> list[str]:
        return [trial.name for trial in make_grid(MAKE, over, max_trials=6, seed=seed).trials]

    assert names(1) == names(1) != names(2)
    assert names(1)[0] == "default"
    assert len(set(names(1))) == 6
    with pytest.raises(OptionError, match="1560 combinations"):
        make_grid(MAKE, over)
    with pytest.raises(OptionError, match="combinations"):
        make_grid(MAKE, {f"o{i}": list(range(99)) for i in range(9)})


def test_wrong_options_and_values_say_what_is_allowed() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'frames'"):
        make_grid(lambda options: get_judge("stepeval", model="mock/x", **options), {"frame": [8]})
    with pytest.raises(UnknownNameError, match="Did you mean 'strict'"):
        make_grid(MAKE, {"template": ["strikt"]})
    with pytest.raises(OptionError, match="frames=0"):
        make_grid(MAKE, {"frames": [8, 0]})


def test_names_are_folders_and_differ() -> None:
    assert trial_name({"frames": 8, "views": ["top", "wrist"]}) == "frames=8,views=top+wrist"
    a, b = trial_name({"template": "a/x.txt"}), trial_name({"template": "b/x.txt"})
    assert a.startswith("template=x-")
    assert a != b
    odd = trial_name({"template": '../..//\n:*?"<>|\x00' + "y" * 500})
    assert len(odd) <= 60
    assert not set(odd) & set('/\\:*?"<>|\n\x00')
    assert trial_name({"words": ("Yes", "No")}) == "words=Yes+No"
