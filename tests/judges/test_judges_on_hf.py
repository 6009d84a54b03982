"""The judges that see, on a real vision-language model: three cameras, words and token scores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import stepscore
from stepscore.episodes import Episode
from stepscore.episodes.labels.subgoals import Subgoal
from stepscore.judges import Judge
from stepscore.judges.hop import Hop
from stepscore.judges.published.procvlm import ProcVlm
from stepscore.judges.stepeval import StepEval
from stepscore.models import Model, get_model
from tests.judges.asked import one_row, run_judge

pytest.importorskip("torch")
pytest.importorskip("transformers")

GOALS = (Subgoal("grasp the cup"), Subgoal("place it", mode="holds"))


@pytest.fixture(scope="module")
def model(shared_data: Path) -> Model:
    """A Qwen3-VL of 3.8 M parameters, trained to say True or False and nothing else."""
    return get_model(f"hf/{shared_data / 'prototype_judge'}")


@pytest.fixture(scope="module")
def subject(shared_data: Path) -> Episode:
    (real,) = stepscore.open_episodes(shared_data / "multiview")
    return Episode(**{**vars(real), "subgoals": GOALS})


def wordy(model: Model) -> list[tuple[Judge, int, int]]:
    """Judges that read words, with the calls they make and the images each shows for one view."""
    return [
        (StepEval(model, frames=2, size=64, max_tokens=8, structured=False), 1, 2),
        (ProcVlm(model, points=2, window=2, size=64, max_tokens=8, structured=False), 2, 4),
    ]


@pytest.mark.parametrize("views", [1, 2, 3])
def test_an_answer_in_other_words_is_unknown_and_the_images_arrive(
    model: Model, subject: Episode, tmp_path: Path, views: int
) -> None:
    names = list(subject.views)[:views]
    for judge, calls, images in wordy(model):
        run = run_judge(judge, subject, tmp_path / judge.name, views=names)
        assert one_row(run)["success_score"] is None
        assert run.verdicts().column("answer").to_pylist() == ["unknown", "unknown"]
        usage = run.usage().to_pylist()[0]
        assert (usage["calls"], usage["images"]) == (calls, images * views)
        assert usage["tokens_out"] > 0
        assert "False" in run.calls().column("answer").to_pylist()[0]
    run = run_judge(
        Hop(model, points=2, size=64, max_tokens=8, structured=False), subject, tmp_path / "hop", views=names
    )
    assert run.curves().column("progress").to_pylist() == [None, None]
    assert run.usage().column("images").to_pylist() == [2 * (1 + 2 * views)]


def test_an_answer_that_is_held_to_its_schema_is_read(model: Model, subject: Episode, tmp_path: Path) -> None:
    judges: list[tuple[Judge, int]] = [
        (Hop(model, points=2, size=64), 0),
        (ProcVlm(model, points=2, window=2, size=64), 2),
        (StepEval(model, frames=2, size=64, max_tokens=160), 2),
        (StepEval(model, frames=2, size=64, max_tokens=160, strategy="per-subgoal"), 2),
    ]
    for number, (judge, verdicts) in enumerate(judges):
        run = run_judge(judge, subject, tmp_path / str(number), views=list(subject.views)[:1])
        row = one_row(run)
        answers = run.calls().column("answer").to_pylist()
        assert 0 < json.loads(str(row["facts"]))["schema_mass"] < 1
        assert len(run.verdicts()) == verdicts
        for answer in answers:
            assert answer.startswith("<score>") or "<progress>" in answer or '"answer": "' in answer


@pytest.mark.parametrize("layout", ["separate", "interleaved", "tiled"])
def test_token_scores_are_probabilities_of_the_two_words(
    model: Model, subject: Episode, tmp_path: Path, layout: str
) -> None:
    judge = StepEval(
        model,
        strategy="sequential",
        answer="tokens",
        frames=2,
        size=64,
        layout=layout,  # type: ignore[arg-type]
        words=(" True", " False"),
    )
    run = run_judge(judge, subject, tmp_path)
    scores = run.verdicts().column("score").to_pylist()
    assert len(scores) == 2
    assert all(0 < score < 1 for score in scores)
    assert one_row(run)["success_score"] == min(scores)
