"""Questions: exact answers from labels, and answers read off what a judge said."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from stepscore.audit.board import Points
from stepscore.audit.board.question_scores import question_videos, score_questions
from stepscore.audit.board.questions import (
    KINDS,
    Question,
    StageSpan,
    make_questions,
    read_questions,
    write_questions,
)
from stepscore.episodes import Episode, open_episodes
from stepscore.errors import ManifestError, OptionError
from tests.audit.board.scripted import LABELS, SUBGOALS
from tests.fakes import episode
from tests.paths import TINY_SIM


@pytest.fixture(scope="module")
def episodes() -> list[Episode]:
    return list(open_episodes(TINY_SIM, labels=LABELS, subgoals=SUBGOALS))


def test_the_answers_are_those_of_the_labels_at_the_last_frame_shown(episodes: list[Episode]) -> None:
    by_id = {one.id: one for one in episodes}
    questions = make_questions(episodes, most=24, seed=3)
    assert {question.kind for question in questions} == set(KINDS)
    for question in questions:
        shown = by_id[question.episode]
        if question.kind == "segmentation":
            assert question.answer == tuple(StageSpan(*stage) for stage in shown.labels.stages)
            continue
        assert question.to_s is not None
        times = shown.view(shown.main_view).timestamps()
        last = times[times < question.to_s][-1]
        if question.kind == "progress":
            truth = [
                v
                for r in shown.labels.rows
                if r.kind == "progress" and abs(r.start_s - last) < 1e-6
                for v in [r.value]
            ]
            assert question.answer == pytest.approx(truth[-1], abs=1e-5)
            continue
        left = []
        for goal in shown.subgoals:
            begun = [
                r
                for r in shown.labels.rows
                if r.kind == "subgoal" and r.name == goal.name and r.start_s <= last + 1e-6
            ]
            done = any(r.value for r in begun) if goal.mode == "ever" else bool(begun and begun[-1].value)
            left += [] if done else [goal.name]
        assert question.answer == (tuple(left) if question.kind == "remaining" else (left or [""])[0])


def test_what_is_asked_depends_on_seed_and_id_alone(episodes: list[Episode], tmp_path: Path) -> None:
    questions = make_questions(episodes, most=6, seed=1)
    assert questions == make_questions(episodes[::-1], most=6, seed=1)
    assert questions != make_questions(episodes, most=6, seed=2)
    assert len({q.task for q in questions}) == 3
    assert len({q.episode for q in questions if q.kind == "progress"}) == 6
    write_questions(tmp_path / "q.jsonl", questions)
    assert read_questions(tmp_path / "q.jsonl") == questions


def test_episodes_without_labels_give_no_question() -> None:
    with pytest.raises(OptionError, match="--labels"):
        make_questions([episode()])


STEPS = ("reach", "grasp", "lift")


def asked(kind: str, answer: Any) -> Question:
    return Question("q", kind, "e", None if kind == "segmentation" else 1.0, "", STEPS, answer, "t")  # type: ignore[arg-type]


def scored(question: Question, said: Points, stages: list[float] | None = None) -> float:
    found = score_questions([question], {"q": episode("e")}, {"e": said}, {"e": stages} if stages else None)
    return found[question.kind].value


@pytest.mark.parametrize(
    ("verdicts", "remaining", "first"),
    [
        (("yes", "no", "no"), 1.0, 1.0),
        (("yes", "no", "yes"), 0.0, 1.0),
        (("no", "no", "no"), 0.0, 0.0),
        (("yes", "yes", "yes"), 0.0, 0.0),
        (("yes", "no", "unknown"), math.nan, 1.0),
        (("unknown", "no", "no"), math.nan, math.nan),
    ],
)
def test_verdicts_answer_what_remains_and_what_is_next(
    verdicts: tuple[str, ...], remaining: float, first: float
) -> None:
    said = Points(verdicts=dict(zip(STEPS, verdicts, strict=True)))
    left = ("grasp", "lift")
    assert scored(asked("remaining", left), said) == pytest.approx(remaining, nan_ok=True)
    assert scored(asked("next", "grasp"), said) == pytest.approx(first, nan_ok=True)


def test_the_last_progress_answers_how_far_it_is() -> None:
    assert scored(asked("progress", 0.4), Points((0.0, 0.5), (0.9, 0.25))) == pytest.approx(0.15)
    assert math.isnan(scored(asked("progress", 0.4), Points((0.0, 0.5), (0.9, None))))
    assert math.isnan(scored(asked("progress", 0.4), Points()))


def test_equal_parts_of_progress_or_own_stages_answer_a_segmentation() -> None:
    spans = (StageSpan("reach", 0, 1), StageSpan("grasp", 1, 2), StageSpan("lift", 2, 4))
    said = Points((0.0, 0.9, 1.0, 2.0, 3.0), (0.0, 0.4, 0.5, None, 1.0))
    # 0, 1, 1, unknown, 2 against 0, 0, 1, 2, 2
    assert scored(asked("segmentation", spans), said) == pytest.approx(3 / 4)
    assert scored(asked("segmentation", spans), said, [0.0, 0.0, 1.0, 2.0, 2.0]) == 1.0


GOOD = {"id": "q", "kind": "remaining", "episode": "e", "to_s": 1.0, "steps": ["a", "b"], "answer": ["b"]}


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "riddle"},
        {"to_s": None},
        {"to_s": -1},
        {"answer": "b"},
        {"answer": ["c"]},
        {"kind": "next", "answer": "c"},
        {"kind": "progress", "answer": 2},
        {"kind": "progress", "answer": True},
        {"kind": "segmentation", "to_s": None, "answer": []},
        {"kind": "segmentation", "to_s": None, "answer": [{"stage": "a", "start_s": 2, "end_s": 1}]},
        {"episode": ""},
        {"steps": "ab"},
    ],
)
def test_a_file_of_questions_that_is_wrong_is_refused_with_its_line(
    tmp_path: Path, change: dict[str, object]
) -> None:
    file = tmp_path / "q.jsonl"
    file.write_text(json.dumps(GOOD) + "\n" + json.dumps({**GOOD, "id": "r", **change}) + "\n")
    with pytest.raises(ManifestError, match=r"q\.jsonl:2"):
        read_questions(file)


def test_two_questions_of_one_id_and_no_questions_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "q.jsonl"
    file.write_text(f"{json.dumps(GOOD)}\n{json.dumps(GOOD)}\n")
    with pytest.raises(ManifestError, match="two questions"):
        read_questions(file)
    file.write_text("\n")
    with pytest.raises(ManifestError, match="no questions"):
        read_questions(file)


def test_a_question_about_an_episode_that_is_not_there_is_refused(episodes: list[Episode]) -> None:
    questions = make_questions(episodes, most=2)
    with pytest.raises(ManifestError, match="is not in the source"):
        question_videos(questions, {})
