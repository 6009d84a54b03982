"""A thousand answers of each kind, good, malformed and missing: what is read is what was stated, and nothing else."""

from __future__ import annotations

import math

import numpy as np
import pytest

from stepscore.errors import EpisodeError
from stepscore.judges import get_judge
from stepscore.judges.common.parsing import parse_stated_number, parse_tagged_percent
from stepscore.judges.published.profiles import load_profile, profile_names
from stepscore.judges.published.published_judge import PublishedJudge
from stepscore.models.mock import MockModel
from tests.judges.published.answers import FORMS, answers
from tests.judges.published.asking import subject

QUESTIONS = [
    (name, question)
    for name in profile_names()
    for question, asked in load_profile(name).questions.items()
    if asked.answer is not None
]


def test_every_question_with_a_form_of_answer_is_here() -> None:
    assert {f"{name}/{question}" for name, question in QUESTIONS} == set(FORMS)


@pytest.mark.parametrize(("name", "question"), QUESTIONS)
def test_a_thousand_answers_and_nothing_invented(name: str, question: str) -> None:
    profile = load_profile(name)
    rule = profile.questions[question].answer
    assert rule is not None
    made = list(answers(f"{name}/{question}", 1000, seed=1))
    stated = np.array([value for _, value in made])
    assert 350 < np.isnan(stated).sum() < 650
    if name == "procvlm":
        read = np.array([100 * parse_tagged_percent(text, "progress") for text, _ in made])
        read = np.where((read >= 0) & (read <= 100), read, math.nan)
    else:
        judge = get_judge(profile.judge, model=MockModel(profile.checkpoints[0].short_name), prompt="own")
        assert isinstance(judge, PublishedJudge)
        read = np.array([rule.per * judge.read_number(question, text) for text, _ in made])
    wrong = [
        (text, value, got) for (text, value), got in zip(made, read, strict=True) if not _same(value, got)
    ]
    assert not wrong, wrong[:5]


def _same(stated: float, read: float) -> bool:
    return (math.isnan(stated) and math.isnan(read)) or abs(stated - read) < 1e-9


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("<a>5</a>", 5.0),
        ("<a>5</a> and again <a>5</a>", 5.0),
        ("<a>5</a> <a>6</a>", math.nan),
        ("<a>5</a> <a>", math.nan),
        ("<A>5</A>", math.nan),
        ("5", math.nan),
    ],
)
def test_statements_that_differ_or_are_cut_off_are_unknown(text: str, value: float) -> None:
    assert parse_stated_number(text, r"<a>([0-9])</a>", "<a>") == pytest.approx(value, nan_ok=True)


def test_a_statement_may_be_the_whole_answer() -> None:
    assert parse_stated_number(" +5\n", r"([+-]?[0-9])") == 5
    assert math.isnan(parse_stated_number("+5 or so", r"([+-]?[0-9])"))


@pytest.mark.parametrize("name", ["roboreward", "vlac", "progresslm", "sole-r1", "grm"])
def test_more_cameras_than_a_model_was_trained_with_must_be_chosen(name: str) -> None:
    profile = load_profile(name)
    judge = get_judge(profile.judge, model=MockModel(profile.checkpoints[0].short_name), prompt="own")
    assert isinstance(judge, PublishedJudge)
    with pytest.raises(EpisodeError, match=f"shows at most {profile.views}. Choose: --views top"):
        judge.view_names(subject(views=profile.views + 1))
