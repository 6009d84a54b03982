from __future__ import annotations

import pytest

from stepscore.episodes import Stage
from stepscore.errors import EpisodeError, UnknownNameError
from stepscore.procedures import procedure_order
from stepscore.procedures.stage_progress import temporal_proportions

TWO = [[Stage("a", 0, 5), Stage("b", 5, 10)], [Stage("a", 0, 10)]]


def test_the_two_published_priors_differ_where_an_episode_lacks_a_stage() -> None:
    assert temporal_proportions(TWO, prior="paper") == pytest.approx({"a": 0.75, "b": 0.25})
    assert temporal_proportions(TWO, prior="lerobot") == pytest.approx({"a": 0.6, "b": 0.4})


def test_a_repeated_stage_adds_up_in_the_paper_and_counts_last_in_lerobot() -> None:
    again = [[Stage("a", 0, 4), Stage("b", 4, 8), Stage("a", 8, 10)]]
    assert temporal_proportions(again, prior="paper") == pytest.approx({"a": 0.6, "b": 0.4})
    assert temporal_proportions(again, prior="lerobot") == pytest.approx({"a": 0.2 / 0.6, "b": 0.4 / 0.6})


def test_shares_come_in_the_order_of_the_procedure_and_sum_to_one() -> None:
    found = temporal_proportions(TWO, ["b", "a", "c"])
    assert list(found) == ["b", "a", "c"]
    assert found["c"] == 0
    assert sum(found.values()) == pytest.approx(1)


def test_gaps_belong_to_no_stage() -> None:
    assert temporal_proportions([[Stage("a", 0, 1), Stage("b", 8, 9)]]) == pytest.approx({"a": 0.5, "b": 0.5})


def test_the_order_is_that_in_which_stages_are_first_done_whatever_failed_early() -> None:
    whole = [Stage(name, i, i + 1) for i, name in enumerate(["reach", "grasp", "lift", "grasp", "lift"])]
    assert procedure_order([[Stage("reach", 0, 1)]] * 9 + [whole[:2]] * 9 + [whole]) == [
        "reach",
        "grasp",
        "lift",
    ]


def test_wrong_names_and_nothing_at_all_are_errors() -> None:
    with pytest.raises(UnknownNameError, match="stage 'a'"):
        temporal_proportions(TWO, ["b"])
    with pytest.raises(UnknownNameError, match="prior 'equal'"):
        temporal_proportions(TWO, prior="equal")  # type: ignore[arg-type]
    with pytest.raises(EpisodeError, match="No episode has stages"):
        temporal_proportions([[], []])
