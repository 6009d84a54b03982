"""Annotate's own questions with right answers, from which annotate finds the labelled stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stepscore.episodes import Episode, Stage, open_episodes
from stepscore.episodes.labels.labels import Label, Labels
from stepscore.episodes.labels.subgoals import Subgoal, TaskSubgoals
from stepscore.errors import EpisodeError
from stepscore.models import Generate, Prompt, Request
from stepscore.models.mock import MockModel
from stepscore.models.schemas.patterns import Automaton
from stepscore.procedures import AnnotateOptions, annotate_episodes
from stepscore.procedures.model_answers import STEPS, stages_schema
from stepscore.runs import CallOptions
from stepscore.training.vlm import setup as vlm_setup
from stepscore.training.vlm.data.dataset import LabelledVideo, read_videos
from stepscore.training.vlm.data.image_batches import _at_other_times, to_question
from stepscore.training.vlm.data.judge_questions import TrainingExample
from stepscore.training.vlm.data.stage_questions import StageQuestions, at_shown_times, recorded_plans
from stepscore.training.vlm.data.variants import shown_as
from tests.fakes import FakeView, episode
from tests.paths import TINY_SIM

OFF, EVERY_FRAME = CallOptions(cache=False), AnnotateOptions(fps=10.0)


@pytest.fixture(scope="module")
def episodes() -> Sequence[Episode]:
    found = open_episodes(TINY_SIM, labels=TINY_SIM / "labels.parquet", subgoals=TINY_SIM / "subgoals.yaml")
    return [one.with_views([one.main_view]) for one in found]


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> list[LabelledVideo]:
    return read_videos(TINY_SIM, 32, tmp_path_factory.mktemp("frames"))


def labelled(*spans: tuple[str, float, float], success: bool = True, **fields: object) -> Episode:
    """Five seconds at 10 Hz with these stages."""
    rows = (*(Label("stage", *span) for span in spans), Label("success", "holds", value=float(success)))
    given = {"views": {"top": FakeView(50, fps=10.0)}, "labels": Labels(rows), **fields}
    return episode(**given)  # type: ignore[arg-type]


def written(prompt: Prompt) -> list[str]:
    return [part for turn in prompt.turns for part in turn.parts if isinstance(part, str)]


def answering(example: TrainingExample) -> MockModel:
    """A model that knows the answer to one question, by its words."""

    def answer(request: Request) -> str:
        assert isinstance(request, Generate)
        return example.answer if written(request.prompt) == written(example.prompt) else "{}"

    return MockModel(script=answer)


def test_annotate_with_the_right_answers_finds_the_labelled_stages(
    episodes: Sequence[Episode], tmp_path: Path
) -> None:
    plans = recorded_plans(episodes)
    known = [e for e in episodes if {s.name for s in e.labels.stages} <= {*plans[str(e.task)]}]
    assert len(known) > len(episodes) / 2
    vocabulary = {task: TaskSubgoals(tuple(map(Subgoal, plan))) for task, plan in plans.items()}
    for one in known:
        (example,) = StageQuestions("stages-segment", plans, EVERY_FRAME).examples(one)
        assert Automaton(stages_schema(plans[str(one.task)]).written()).accepts(example.answer)
        (made,) = annotate_episodes(
            [one],
            answering(example),
            tmp_path,
            vocabulary=vocabulary,
            options=EVERY_FRAME,
            call_options=OFF,
        )
        assert made.error is None
        assert [s.name for s in made.stages] == [s.name for s in one.labels.stages]
        edges = [[s.start_s, s.end_s] for s in made.stages], [[s.start_s, s.end_s] for s in one.labels.stages]
        assert edges[0] == pytest.approx(np.array(edges[1]), abs=0.006)


def test_annotate_with_the_right_answer_plans_the_steps_of_the_task(
    episodes: Sequence[Episode], tmp_path: Path
) -> None:
    plans = recorded_plans(episodes)
    (example,) = StageQuestions("stages-plan", plans, EVERY_FRAME).examples(episodes[0])
    assert example.answer == (
        '{"steps": ["reach the drawer handle", "pull the drawer ajar", "pull the drawer open"]}'
    )
    assert Automaton(STEPS.written()).accepts(example.answer)
    (made,) = annotate_episodes(
        episodes[:1], answering(example), tmp_path, options=EVERY_FRAME, call_options=OFF
    )
    assert made.plan == plans["open the drawer"]


def test_a_plan_is_that_of_the_fullest_success_without_a_step_done_again() -> None:
    recorded = [
        labelled(("a", 0, 1), ("c", 1, 5)),
        labelled(("a", 0, 1), ("b", 1, 2), ("c", 2, 5)),
        labelled(("a", 0, 1), ("c", 1, 2), ("b", 2, 3), ("d", 3, 4), ("c", 4, 5)),
        labelled(("d", 0, 1), ("c", 1, 2), ("b", 2, 3), ("a", 3, 5), success=False),
        labelled(("only", 0, 5), task="other"),
    ]
    assert recorded_plans(recorded) == {"open the drawer": ("a", "b", "c")}


def test_times_are_those_of_the_nearest_frames_shown() -> None:
    stages = [Stage("a", 0, 0.6), Stage("b", 0.6, 0.9), Stage("c", 0.9, 1.1), Stage("b", 1.1, 2.4)]
    assert at_shown_times(stages, [0.0, 0.5, 1.0, 2.0, 2.5]) == [Stage("a", 0, 0.5), Stage("b", 0.5, 2.5)]
    plans = {"open the drawer": ("a", "b")}
    subject = labelled(("a", 0, 1.7), ("b", 1.7, 5.0))
    for options, times in ((AnnotateOptions(), "1.50"), (EVERY_FRAME, "1.70")):
        (example,) = StageQuestions("stages-segment", plans, options).examples(subject)
        assert example.answer == (
            f'{{"stages": [{{"name": "a", "start": 0.00, "end": {times}}}, '
            f'{{"name": "b", "start": {times}, "end": 5.00}}]}}'
        )
        assert any(f", {times} s: " in str(part) for part in example.prompt.turns[0].parts)
        question = to_question(example)
        assert all(_at_other_times([question], np.random.default_rng(n)) == [question] for n in range(20))


def test_what_the_labels_do_not_say_is_not_asked() -> None:
    plans = {"open the drawer": ("a", "b")}
    wrong = {
        "no stage labels": labelled(),
        "overlap": labelled(("a", 0, 3), ("b", 2, 5)),
        "unknown name": labelled(("a", 0, 3), ("c", 3, 5)),
        "no success of its task": labelled(("a", 0, 5), task="other"),
    }
    for message, subject in wrong.items():
        with pytest.raises(EpisodeError, match=message):
            StageQuestions("stages-segment", plans, EVERY_FRAME).examples(subject)


def test_a_variant_is_asked_for_the_recorded_steps_but_not_for_stages(videos: list[LabelledVideo]) -> None:
    video, plans = videos[0], recorded_plans(video.episode for video in videos)
    backwards = np.arange(len(video))[::-1].copy()
    shown = shown_as(video, backwards, video.times).episode
    (example,) = StageQuestions("stages-plan", plans, EVERY_FRAME).examples(shown)
    assert "pull the drawer ajar" in example.answer
    with pytest.raises(EpisodeError, match="no stage labels"):
        StageQuestions("stages-segment", plans, EVERY_FRAME).examples(shown)


def test_annotate_is_trained_only_where_enough_stages_are_labelled(videos: list[LabelledVideo]) -> None:
    sources = vlm_setup.image_questions(videos)
    assert [s.name for s in sources if isinstance(s, StageQuestions)] == [
        "stages-plan",
        "stages-segment",
        "stages-segment",
    ]
    without = [
        replace(
            video,
            episode=replace(
                video.episode,
                labels=Labels(tuple(r for r in video.episode.labels.rows if r.kind != "stage")),
            ),
        )
        for video in videos
    ]
    judges = len(vlm_setup.image_judges())
    assert len(vlm_setup.image_questions(without)) == judges
    assert len(vlm_setup.image_questions([videos[0], *without])) == judges
