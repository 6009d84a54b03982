"""A tuning finds what was planted, looks at the test split only afterwards, and pays for nothing twice."""

from __future__ import annotations

import math
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from stepscore.audit.tune import Tuned, tune, tune_tables
from stepscore.audit.tune.scene_split import scene_of, split_scenes
from stepscore.errors import BudgetError, OptionError
from stepscore.models.calls import Budget
from stepscore.runs import open_run
from tests.audit.tune.planted import EPISODES, GOALS, STRICT, PlantedModel, accuracy, maker, options, truth

OVER: dict[str, list[object]] = {
    "frames": [2, 8],
    "views": [["top"], ["top", "wrist"]],
    "template": ["default", "strict"],
}
RIGHT = "frames=8,views=top,template=strict"
"""As good as any other, at the least cost."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tuned, PlantedModel, Path]:
    folder, model = tmp_path_factory.mktemp("tuned"), PlantedModel()
    return tune(EPISODES, maker(model), OVER, folder / "out", options(folder)), model, folder


def share_right(run: Path, of: set[str]) -> float:
    """The oracle of balanced accuracy: by hand, from the run's verdicts."""
    right: dict[bool, list[bool]] = {True: [], False: []}
    for row in open_run(run).verdicts().to_pylist():
        if row["episode_id"] in of:
            label = truth(int(row["episode_id"][1:]), row["subgoal"])
            right[label].append(row["answer"] == ("yes" if label else "no"))
    return sum(sum(given) / len(given) for given in right.values()) / 2


def test_the_planted_configuration_is_chosen(made: tuple[Tuned, PlantedModel, Path]) -> None:
    tuned, _, _ = made
    assert tuned.metric == "subgoal-balanced-accuracy"
    assert tuned.chosen == RIGHT
    # The second camera is as good, and costs twice as much.
    assert set(tuned.tied) == {RIGHT, "frames=8,views=top+wrist,template=strict"}
    assert len(tuned.results) == 9
    assert tuned.results[0].name == "default"
    assert tuned.cheapest_by == "cost"


def test_its_numbers_are_those_of_the_runs(made: tuple[Tuned, PlantedModel, Path]) -> None:
    tuned, _, folder = made
    split = split_scenes(EPISODES, 0.5, 0)
    choose, test = ({episode.id for episode in side} for side in (split.choose, split.test))
    assert tuned.episodes == (len(choose), len(test)) == (24, 24)
    for each in tuned.results:
        assert each.choose is not None
        assert each.choose.value == pytest.approx(share_right(folder / "out/trials" / each.name, choose))
        assert each.choose.n == len(GOALS) * len(choose)
        assert each.choose.clusters == tuned.scenes[0] == 12
        if each.test is not None:
            assert each.test.value == pytest.approx(share_right(folder / "out/test" / each.name, test))
    winner, default = tuned.winner, tuned.results[0]
    assert winner.test is not None
    assert default.test is not None
    assert winner.from_default is not None
    gain = winner.test.value - default.test.value
    assert winner.from_default.value == pytest.approx(gain)
    assert winner.from_default.lo < gain < winner.from_default.hi
    assert "better than the default" in tuned.verdict()
    for table in tune_tables(tuned):
        assert any(cell.bounds for row in table.rows for cell in row.cells)


def test_the_front_is_what_nothing_beats(made: tuple[Tuned, PlantedModel, Path]) -> None:
    tuned, _, folder = made
    points = {
        each.name: (each.choose.value, -each.cost.tokens, -each.cost.calls, -each.cost.cost)
        for each in tuned.results
        if each.choose is not None and each.cost is not None
    }
    for each in tuned.results:
        own = points[each.name]
        beaten = any(all(a >= b for a, b in zip(o, own, strict=True)) and o != own for o in points.values())
        assert each.front == (not beaten)
    assert tuned.winner.front
    shown = {each.name for each in tuned.results if each.test is not None}
    assert shown == {"default", tuned.chosen, *(each.name for each in tuned.results if each.front)}
    assert {path.name for path in (folder / "out" / "test").iterdir()} == shown


def test_no_scene_is_in_both_runs(made: tuple[Tuned, PlantedModel, Path]) -> None:
    _, _, folder = made
    scenes = {episode.id: scene_of(episode) for episode in EPISODES}
    sides = [
        {
            scenes[row["episode_id"]]
            for run in (folder / "out" / part).iterdir()
            for row in open_run(run).judgements().to_pylist()
        }
        for part in ("trials", "test")
    ]
    assert not sides[0] & sides[1]
    assert sides[0] | sides[1] == set(scenes.values())


def spent_by_hand(folder: Path) -> tuple[int, float]:
    """The attempts of all ledgers below a folder, and what they cost."""
    total, cost = 0, 0.0
    for file in folder.rglob("attempts.sqlite"):
        with sqlite3.connect(file) as db:
            found = db.execute("SELECT COUNT(*), TOTAL(cost) FROM attempts").fetchone()
        total, cost = total + found[0], cost + found[1]
    return total, cost


def test_costs_are_the_ledgers(made: tuple[Tuned, PlantedModel, Path]) -> None:
    tuned, model, folder = made
    attempts, cost = spent_by_hand(folder / "out")
    assert tuned.spent.attempts == attempts == len(model.requests)
    assert tuned.spent.cost == pytest.approx(cost)
    # Every trial asks other questions here, so that their costs add up to what was paid.
    paid = 0.0
    for each in tuned.results:
        assert each.cost is not None
        paid += each.cost.cost * tuned.episodes[0] + (each.cost.cost * tuned.episodes[1] if each.test else 0)
    assert paid == pytest.approx(cost, rel=1e-3)  # episodes of the test split have other instructions
    assert tuned.winner.cost is not None
    assert tuned.winner.cost.calls == 1


def test_the_same_command_asks_nothing_again(made: tuple[Tuned, PlantedModel, Path]) -> None:
    tuned, model, folder = made
    asked = len(model.requests)
    again = tune(EPISODES, maker(model), OVER, folder / "out", options(folder, calls={"cache": False}))
    assert len(model.requests) == asked
    assert again.to_dict() | {"created": ""} == tuned.to_dict() | {"created": ""}


def test_a_call_of_two_trials_is_made_once(tmp_path: Path) -> None:
    model = PlantedModel()
    tuned = tune(EPISODES, maker(model), {"max_frames": [32, 64]}, tmp_path / "out", options(tmp_path))
    assert [each.name for each in tuned.results] == ["default", "max_frames=32"]
    assert len(model.requests) == len(EPISODES)  # either split once, though two trials were judged on both
    costs = [each.cost for each in tuned.results]
    assert costs[0] is not None
    assert costs[1] is not None
    assert costs[0].cost == pytest.approx(costs[1].cost)
    assert costs[0].axes == costs[1].axes


@pytest.mark.parametrize("good_on", ["choose", "test"])
def test_the_test_split_is_not_looked_at(good_on: str, tmp_path: Path) -> None:
    """A template that is right on every episode of one split, and wrong on the other."""
    split = split_scenes(EPISODES, 0.5, 0)
    good = {int(episode.id[1:]) for episode in getattr(split, good_on)}

    def right(number: int, images: int, prompt: str) -> float:
        return float(number in good) if STRICT in prompt else 0.75

    tuned = tune(
        EPISODES, maker(PlantedModel(right)), {"template": ["strict"]}, tmp_path / "out", options(tmp_path)
    )
    if good_on == "test":
        assert tuned.chosen == "default"
        assert tuned.result("template=strict").choose.value == 0  # type: ignore[union-attr]
        assert "The default is chosen" in tuned.verdict()
    else:
        assert tuned.chosen == "template=strict"
        assert "is worse than the default" in tuned.verdict()


def test_within_noise_is_said(tmp_path: Path) -> None:
    def right(number: int, images: int, prompt: str) -> float:
        return 0.7 if STRICT in prompt else 0.68

    tuned = tune(
        EPISODES,
        maker(PlantedModel(right), frames=4),
        {"frames": [2], "template": ["strict"]},
        tmp_path / "out",
        options(tmp_path),
    )
    assert tuned.chosen == "frames=2,template=strict"  # cheaper, and as good as far as is known
    assert "within noise" in tuned.verdict() or "do not differ" in tuned.verdict()


def test_with_too_few_scenes_the_best_value_is_chosen(tmp_path: Path) -> None:
    few = maker(PlantedModel(lambda number, images, prompt: 0.9 if images > 8 else 0.2))
    tuned = tune(EPISODES[:12], few, {"frames": [2]}, tmp_path / "out", options(tmp_path))
    worse = tuned.result("frames=2")
    assert worse.from_best is not None
    assert worse.from_best.value < 0
    assert math.isnan(worse.from_best.lo)
    assert tuned.chosen == "default"


def test_a_budget_ends_it_with_what_it_has(tmp_path: Path) -> None:
    model = PlantedModel()
    over: dict[str, list[object]] = {"frames": [2, 8], "template": ["default", "strict"]}
    budget = Budget(max_calls=130)  # 24 calls a trial; 48 are kept for the test split of two
    tuned = tune(EPISODES, maker(model), over, tmp_path / "out", options(tmp_path, calls={"budget": budget}))
    assert tuned.spent.attempts == len(model.requests) <= 130
    assert "--max-calls" in tuned.stopped
    assert [each.status for each in tuned.results] == ["judged"] * 3 + ["stopped"] * 2
    assert tuned.winner.test is not None
    assert tuned.results[0].test is not None
    more = tune(EPISODES, maker(model), over, tmp_path / "out", options(tmp_path))  # a larger one goes on
    assert more.chosen == "frames=8,template=strict"
    assert more.stopped == ""


def test_a_budget_in_money_holds_over_all_trials(tmp_path: Path) -> None:
    # A call counts with the most it may cost, here about 0.07, until its real cost of 0.0005 is known.
    over: dict[str, list[object]] = {"template": ["strict"], "size": [64, 96, 128, 160, 192]}
    limited = options(tmp_path, calls={"budget": Budget(max_cost=0.15)})
    tuned = tune(EPISODES, maker(PlantedModel(), frames=2, max_tokens=30), over, tmp_path / "out", limited)
    assert tuned.spent.cost is not None
    assert 0.03 < tuned.spent.cost <= 0.15
    assert "--max-cost" in tuned.stopped
    assert {"judged", "stopped"} == {each.status for each in tuned.results}


def test_a_budget_for_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BudgetError, match="No trial could be judged"):
        tune(
            EPISODES,
            maker(PlantedModel()),
            OVER,
            tmp_path / "out",
            options(tmp_path, calls={"budget": Budget(max_calls=3)}),
        )


def test_a_trial_that_cannot_be_judged_is_left_out(tmp_path: Path) -> None:
    model = PlantedModel()
    object.__setattr__(model, "scores", "none")
    over: dict[str, list[object]] = {"answer": ["text", "tokens"], "strategy": ["all-at-once", "per-subgoal"]}
    tuned = tune(EPISODES, maker(model), {**over, "frames": [2]}, tmp_path / "o", options(tmp_path))
    assert list(tuned.dropped) == ["answer=tokens,strategy=all-at-once,frames=2"]
    failed = tuned.result("answer=tokens,strategy=per-subgoal,frames=2")
    assert failed.status == "failed"
    assert "needs token scores" in failed.reason


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    with pytest.raises(OptionError, match="is not a tuning folder"):
        tune(EPISODES, maker(PlantedModel()), OVER, tmp_path, options(tmp_path))


def test_what_cannot_be_tuned_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    model = PlantedModel()

    def refused(match: str, episodes: object = EPISODES, over: object = OVER, **given: object) -> None:
        with pytest.raises(OptionError, match=match):
            tune(episodes, maker(model), over, tmp_path / "o", options(tmp_path, **given))  # type: ignore[arg-type]

    bare = [replace(each, labels=type(each.labels)()) for each in EPISODES]
    refused("nothing to tune", over={})
    refused("has a label of subgoal or success or progress", episodes=bare)
    refused("has a label of progress", metric="progress-mae")
    refused("needs at least 2", episodes=EPISODES[:2])
    refused("share", share=1.0)
    refused("All success labels", episodes=[EPISODES[0], EPISODES[3], EPISODES[6]], metric="success-auc")
    refused("frames", over={"frames": [8, -1]})

    assert not model.requests


def test_planted_accuracies_are_as_described() -> None:
    assert accuracy(8, "") == pytest.approx(0.75)
    assert accuracy(2, STRICT) == pytest.approx(0.7)
