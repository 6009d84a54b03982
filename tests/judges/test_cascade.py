from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import stepscore
from stepscore.analysis.agreement import judge_agreement
from stepscore.episodes import Episode
from stepscore.errors import OptionError
from stepscore.judges import Ask, SingleModelJudge
from stepscore.judges.cascade import Cascade
from stepscore.models import Answer, Generate, Prompt, Turn
from stepscore.models.mock import MockModel
from stepscore.runs import CallOptions
from stepscore.types import Judgement
from tests.fakes import episode

OFF = CallOptions(cache=False)


@dataclass(frozen=True)
class Fixed(SingleModelJudge):
    """A judge that asks its model once and then returns a fixed score for each episode."""

    model: MockModel
    scores: Mapping[str, float]
    name = "fixed"
    version = 1

    def options(self) -> Mapping[str, object]:
        return {"scores": {k: None if np.isnan(v) else v for k, v in self.scores.items()}}

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        answer = await ask(Generate(Prompt((Turn("user", (episode.id,)),))))
        assert isinstance(answer, Answer)
        return Judgement(success_score=self.scores[episode.id])


@dataclass(frozen=True)
class Calibrated(Fixed):
    """The same, with a probability of success far from its score."""

    probability: float = 0.99

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        judged = await super().judge(episode, ask)
        return replace(judged, success_probability=self.probability, success_calibrated=True)


@dataclass(frozen=True)
class Ranking(Fixed):
    """A judge whose score is no verdict."""

    score_is_verdict = False


def cascade(
    cheap: Mapping[str, float], expensive: float = 0.9, **options: object
) -> tuple[Cascade, MockModel, MockModel]:
    small, big = MockModel("small"), MockModel("big")
    judge = Cascade(Fixed(small, cheap), Fixed(big, dict.fromkeys(cheap, expensive)), **options)  # type: ignore[arg-type]
    return judge, small, big


def test_only_the_unsure_are_passed_on(tmp_path: Path) -> None:
    judge, small, big = cascade({"sure": 0.95, "no": 0.05, "unsure": 0.5, "silent": np.nan})
    run = stepscore.score(
        [episode(n) for n in ("sure", "no", "unsure", "silent")], judge, out=tmp_path / "r", call_options=OFF
    )
    assert (len(small.requests), len(big.requests)) == (4, 2)
    rows = {r["episode_id"]: r for r in run.judgements().to_pylist()}
    assert rows["sure"]["success_score"] == 0.95
    assert rows["unsure"]["success_score"] == 0.9
    assert json.loads(rows["silent"]["facts"]) == {"escalated": 1.0, "first_score": None}


def test_two_cheap_judges_that_disagree_pass_it_on(tmp_path: Path) -> None:
    judge, _, big = cascade({"a": 0.9, "b": 0.9}, also=Fixed(MockModel("third"), {"a": 0.85, "b": 0.2}))
    stepscore.score([episode("a"), episode("b")], judge, out=tmp_path / "r", call_options=OFF)
    assert [part for r in big.requests for part in r.prompt.turns[0].parts] == ["b"]


def test_the_share_passed_on_and_what_was_saved_are_reported(tmp_path: Path) -> None:
    names = {f"e{i}": 0.5 if i < 3 else 0.99 for i in range(12)}
    judge, _, _ = cascade(names)
    run = stepscore.score([episode(n) for n in names], judge, out=tmp_path / "r", call_options=OFF)
    cost = judge_agreement(run).costs[0]
    assert (cost.escalated.value, cost.escalated.n) == (0.25, 12)
    # Each call reads and writes the same: 3 episodes with two calls, 9 with one, against 12 with two.
    assert cost.saved == pytest.approx(1 - 15 / 24)


def test_both_judges_and_their_models_are_in_the_protocol() -> None:
    judge, _, _ = cascade({"a": 0.5})
    said = json.dumps(judge.options())
    assert "mock/small" in said
    assert "mock/big" in said


def test_the_models_of_all_its_judges_are_its_own() -> None:
    judge, small, big = cascade({"a": 0.5}, also=Fixed(third := MockModel("third"), {"a": 0.5}))
    assert judge.models == (small, third, big)
    assert Cascade(judge, "constant").models == judge.models
    assert Cascade("constant", "constant").models == ()


def test_one_served_model_is_enough_to_judge_many_episodes_at_a_time(tmp_path: Path) -> None:
    for served, workers in ((False, 2), (True, 5)):
        judge = Cascade("constant", Fixed(MockModel("big", served=served), {"a": 0.9}))
        out = tmp_path / f"{served}"
        run = stepscore.score(
            [episode("a")], judge, out, call_options=CallOptions(cache=False, connections=5)
        )
        assert run.info["workers"] == workers


def test_judges_may_be_named_with_their_model() -> None:
    judge = Cascade("constant", "random-monotone")
    assert judge.options()["first"]["name"] == "constant"  # type: ignore[index]
    with pytest.raises(OptionError, match="unsure_from"):
        Cascade("constant", "constant", unsure_from=0.9, unsure_to=0.1)


def test_the_band_is_of_the_probability_where_the_first_judge_has_one(tmp_path: Path) -> None:
    small, big = MockModel("small"), MockModel("big")
    unsure_by_score = {"a": 0.5}
    judge = Cascade(Calibrated(small, unsure_by_score), Fixed(big, {"a": 0.1}))
    (row,) = (
        stepscore.score([episode("a")], judge, out=tmp_path / "sure", call_options=OFF)
        .judgements()
        .to_pylist()
    )
    assert not big.requests
    assert (row["success_probability"], row["success_calibrated"]) == (0.99, True)
    assert json.loads(row["facts"]) == {"escalated": 0.0, "first_probability": 0.99, "first_score": 0.5}

    judge = Cascade(Calibrated(small, {"a": 0.99}, probability=0.5), Fixed(big, {"a": 0.1}))
    (row,) = (
        stepscore.score([episode("a")], judge, out=tmp_path / "unsure", call_options=OFF)
        .judgements()
        .to_pylist()
    )
    assert len(big.requests) == 1
    assert (row["success_score"], row["success_calibrated"]) == (0.1, False)
    assert json.loads(row["facts"])["escalated"] == 1.0


def test_probabilities_disagree_with_probabilities_and_scores_with_scores(tmp_path: Path) -> None:
    small, big = MockModel("small"), MockModel("big")
    second, scores = Fixed(big, {"a": 0.1}), {"a": 0.9}
    apart = Cascade(
        Calibrated(small, scores, probability=0.95), second, also=Calibrated(small, scores, probability=0.2)
    )
    stepscore.score([episode("a")], apart, out=tmp_path / "apart", call_options=OFF)
    assert len(big.requests) == 1
    alike = Cascade(Calibrated(small, scores, probability=0.99), second, also=Fixed(small, {"a": 0.8}))
    stepscore.score([episode("a")], alike, out=tmp_path / "alike", call_options=OFF)
    assert len(big.requests) == 1


def test_a_score_that_is_no_verdict_is_none_here_either(tmp_path: Path) -> None:
    judge = Cascade(Ranking(MockModel("small"), {"a": 0.95}), Fixed(MockModel("big"), {"a": 0.1}))
    (row,) = (
        stepscore.score([episode("a")], judge, out=tmp_path / "r", call_options=OFF).judgements().to_pylist()
    )
    assert row["success_score"] is None
    assert json.loads(row["facts"])["first_score"] == 0.95
