"""TOPReward on a real checkpoint, run in this process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stepscore
from stepscore.episodes import Episode
from stepscore.judges import get_judge
from stepscore.judges.topreward import TopReward
from stepscore.models import Model, get_model
from stepscore.runs import CallOptions, Run

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytestmark = pytest.mark.slow

SMALL: dict[str, Any] = {"prefixes": 5, "min_first": 4, "max_frames": 12, "size": 96}


@pytest.fixture(scope="module")
def model(shared_data: Path) -> Model:
    return get_model(f"hf/{shared_data / 'prototype_judge'}")


@pytest.fixture
def drawer(shared_data: Path) -> list[Episode]:
    found = [e for e in stepscore.open_episodes(shared_data / "rollouts") if "right drawer" in e.instruction]
    assert len(found) == 1
    return found


def scored(judge: TopReward, episodes: list[Episode], folder: Path) -> Run:
    run = stepscore.score(episodes, judge, out=folder, call_options=CallOptions(cache=False))
    assert run.judgements().column("error").to_pylist() == [None]
    return run


@pytest.mark.parametrize("form", ["paper", "upstream", "chat"])
def test_shared_scoring_gives_what_a_full_pass_per_prefix_gives(
    form: str, model: Model, drawer: list[Episode], shared_data: Path, tmp_path: Path
) -> None:
    # This small tokenizer has " True" and no "True", so that the chat form is given the space with the word.
    words = {"target": " True", "other": " False"} if form == "chat" else {}
    naive = get_model(f"hf/{shared_data / 'prototype_judge'}", scoring="naive")
    curves = [
        scored(TopReward(each, form=form, **words, **SMALL), drawer, tmp_path / str(i)).curves()  # type: ignore[arg-type]
        for i, each in enumerate((model, naive))
    ]
    assert curves[0].num_rows == 5
    for channel in ("logp_true", "logp_false"):
        shared, full = (table.column(channel).to_numpy() for table in curves)
        assert np.all(shared < 0)
        np.testing.assert_allclose(shared, full, atol=1e-4)


def test_the_judge_doubts_a_task_that_the_model_was_never_trained_on(
    model: Model, drawer: list[Episode], tmp_path: Path
) -> None:
    run = scored(TopReward(model, form="paper", **SMALL), drawer, tmp_path / "run")
    assert run.judgements().column("success_score").to_pylist()[0] < 0.1
    assert run.usage().column("calls").to_pylist() == [1]
    assert run.calls().column("tokens_in").to_pylist()[0] > 0


def test_the_instructions_tokens_in_one_pass_score_what_each_scores_alone(
    model: Model, drawer: list[Episode], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    episodes = [replace(e, instruction="open the drawer") for e in drawer]
    judge = TopReward(model, form="paper", variant="instruction", **SMALL)
    together = scored(judge, episodes, tmp_path / "together")
    monkeypatch.setattr(TopReward, "_request_groups", lambda self, texts, tokens: [[0], [1], [2]])
    alone = scored(judge, episodes, tmp_path / "alone")
    assert [run.usage().column("calls").to_pylist() for run in (together, alone)] == [[1], [3]]
    raw, expected = (run.curves().column("raw").to_numpy() for run in (together, alone))
    assert np.all(raw < 0)
    np.testing.assert_allclose(raw, expected, atol=1e-4)
    assert together.curves().column("progress").null_count == 5


def test_a_word_that_is_not_one_token_is_refused_and_named(
    model: Model, drawer: list[Episode], tmp_path: Path
) -> None:
    judge = TopReward(model, form="paper", target="absolutely", **SMALL)
    run = stepscore.score(drawer, judge, out=tmp_path / "run", call_options=CallOptions(cache=False))
    (error,) = run.judgements().column("error").to_pylist()
    assert "' absolutely' is not exactly one token" in error


def test_the_judge_is_made_by_name_with_a_model_string(shared_data: Path) -> None:
    judge = get_judge("topreward", model=f"hf/{shared_data / 'prototype_judge'}", prefixes=16)
    assert judge.options()["prefixes"] == 16
