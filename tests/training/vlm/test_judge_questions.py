"""Training examples: the judges' own questions with right answers, from which a judge finds the labels' truth."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from stepscore.episodes import Episode, open_episodes
from stepscore.episodes.labels.labels import Label, Labels
from stepscore.episodes.labels.subgoals import Subgoal
from stepscore.errors import EpisodeError, OptionError
from stepscore.judges import Judge, get_judge
from stepscore.judges.common.frame_percentages import parse_frame_percentages
from stepscore.models import (
    Answer,
    FrameRef,
    Generate,
    Prompt,
    Request,
    Score,
    Scores,
    TiledFrames,
    VideoFrames,
)
from stepscore.models.mock import MockModel
from stepscore.training.vlm.data.answer_key import DIRECT, hop_between
from stepscore.training.vlm.data.judge_questions import (
    TrainingExample,
    sample_examples,
    training_examples,
)
from stepscore.types import FloatArray, Judgement
from tests import fakes
from tests.paths import TINY_SIM

EPISODES = list(
    open_episodes(TINY_SIM, labels=TINY_SIM / "labels.parquet", subgoals=TINY_SIM / "subgoals.yaml")
)
SOME = [EPISODES[k] for k in (0, 2, 3, 11, 15, 19, 21, 23)]
"""Successes, stalls, and what came undone, of every task."""


def judge(name: str, **options: object) -> Judge:
    return get_judge(name, model=MockModel("x"), **options)


def judged(asked: Judge, subject: Episode) -> Judgement:
    """The judgement of a judge that is given the right answers."""
    right = {example.prompt: example for example in training_examples(asked, subject)}

    async def ask(request: Request, model: object = None) -> Any:
        assert isinstance(request, Generate | Score)
        example = right[request.prompt]
        if isinstance(request, Generate):
            return Answer(example.answer)
        assert example.candidates == request.candidates
        return Scores(tuple(-5.0 * (word != example.answer) for word in request.candidates), (False, False))

    return asyncio.run(asked.judge(subject, ask))


def frame_truth(subject: Episode, name: str) -> list[bool]:
    """Whether a subgoal is true in each frame, by the plainest reading of the rows."""
    times = next(iter(subject.views.values())).timestamps()
    rows = [row for row in subject.labels.rows if row.kind == "subgoal" and row.name == name]
    return [any(r.value == 1 and r.start_s <= t + 1e-4 < r.end_s for r in rows) for t in times]


def reached(subject: Episode, subgoal: Subgoal, last: int) -> bool:
    true = frame_truth(subject, subgoal.name)[: last + 1]
    return any(true) if subgoal.mode == "ever" else true[-1]


def potential(subject: Episode) -> FloatArray:
    """At each frame; the labels have a row for every one."""
    return np.array([row.value for row in subject.labels.rows if row.kind == "progress"])


def frames(subject: Episode, times: FloatArray) -> list[int]:
    return [round(t * 10) for t in times]


class TestAJudgeWithTheRightAnswersFindsTheTruth:
    @pytest.mark.parametrize("views", [["corner"], ["corner", "gripper"]], ids=len)
    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"layout": "tiled", "reason": False},
            {"strategy": "per-subgoal", "when": False, "template": "strict"},
            {"strategy": "sequential", "layout": "interleaved", "repeats": 3},
            {"strategy": "per-subgoal", "answer": "tokens", "frames": 5},
            {"strategy": "sequential", "answer": "tokens", "words": (" True", " False"), "fps": 4.0},
        ],
        ids=str,
    )
    def test_stepeval(self, options: dict[str, object], views: list[str]) -> None:
        for subject in (episode.with_views(views) for episode in SOME):
            found = judged(judge("stepeval", **options), subject)
            last = len(potential(subject)) - 1
            right = [reached(subject, subgoal, last) for subgoal in subject.subgoals]
            assert [v.answer for v in found.verdicts] == ["yes" if yes else "no" for yes in right]
            assert found.success_score == pytest.approx(float(all(right)), abs=0.01)

    def test_stepeval_says_when_by_the_frame_that_first_shows_it(self) -> None:
        for subject in EPISODES:
            found = judged(judge("stepeval", frames=64), subject)
            for verdict in found.verdicts:
                true = frame_truth(subject, verdict.subgoal)
                if verdict.answer == "yes":
                    assert verdict.when_s == pytest.approx(true.index(True) / 10)
                    assert verdict.why == f"frame {true.index(True) + 1} shows it"
                else:
                    assert math.isnan(verdict.when_s)
                    assert ("no frame" in verdict.why) is (True not in true)

    @pytest.mark.parametrize("views", [["corner"], ["corner", "gripper"]], ids=len)
    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"template": "published", "layout": "tiled"},
            {"spacing_s": 0.2, "fps": 5.0},
            {"pad": False, "window": 3, "layout": "separate", "points": 64},
        ],
        ids=str,
    )
    def test_procvlm(self, options: dict[str, object], views: list[str]) -> None:
        for subject in (episode.with_views(views) for episode in SOME):
            found = judged(judge("procvlm", **options), subject)
            assert found.curve is not None
            at = frames(subject, found.curve.times)
            assert found.curve.progress == pytest.approx(potential(subject)[at], abs=5.1e-5)
            done = [[reached(subject, goal, frame) for goal in subject.subgoals] for frame in at]
            assert found.curve.channels["derived"] == pytest.approx(np.mean(done, axis=1))
            assert [v.answer == "yes" for v in found.verdicts] == done[-1]

    @pytest.mark.parametrize("views", [["corner"], ["corner", "gripper"]], ids=len)
    def test_hop_without_a_goal(self, views: list[str]) -> None:
        for subject in (episode.with_views(views) for episode in SOME):
            found = judged(judge("hop"), subject)
            assert found.curve is not None
            true = potential(subject)[frames(subject, found.curve.times)]
            assert np.all(np.abs(found.curve.progress - true) <= 0.005 * np.arange(1, len(true) + 1))

    @pytest.mark.parametrize("views", [["corner"], ["corner", "gripper"]], ids=len)
    def test_hop_with_a_goal(self, tmp_path: Path, views: list[str]) -> None:
        Image.new("RGB", (64, 64), "red").save(tmp_path / "goal.png")
        for recorded in SOME[2:5]:
            goals = dict.fromkeys(views, tmp_path / "goal.png")
            found = judged(judge("hop", mode="fused"), replace(recorded.with_views(views), goals=goals))
            assert found.curve is not None
            true = potential(recorded)[frames(recorded, found.curve.times)]
            assert found.curve.channels["forward"] == pytest.approx(true, abs=0.0051)
            assert found.curve.channels["backward"] == pytest.approx(true, abs=0.0051)

    def test_topreward(self) -> None:
        for subject in SOME:
            for example in training_examples(judge("topreward"), subject):
                video, text = example.prompt.turns[0].parts
                assert isinstance(video, VideoFrames)
                done = potential(subject)[video.indices[-1]] > 1 - 1e-9
                assert (example.answer, example.candidates) == (f" {done}", (" True", " False"))
                assert subject.instruction in str(text)


def labelled(*rows: Label, **fields: object) -> Episode:
    """Ten frames at 10 Hz; the handle is held from 0.2 to 0.4 s, the drawer open from 0.5 s."""
    goals = (Subgoal("the handle is held"), Subgoal("the drawer is open", mode="holds"))
    given = (
        Label("subgoal", "the handle is held", 0.2, 0.4, 1.0),
        Label("subgoal", "the drawer is open", 0.5, 0.8, 1.0),
        Label("success", "ever", value=1.0),
        Label("success", "holds", value=0.0),
        *(Label("progress", "potential", t / 10, value=v) for t, v in enumerate(POTENTIAL)),
    )
    values: dict[str, Any] = {
        "views": {"top": fakes.FakeView(10)},
        "subgoals": goals,
        "labels": Labels(rows or given),
    }
    return fakes.episode(**{**values, **fields})


POTENTIAL = (0.0, 0.1, 0.2, 0.3, 0.4, 1.0, 1.0, 1.0, 0.5, 0.5)


class TestTheAnswerIsInTheFormAskedFor:
    def test_all_subgoals_in_one_object(self) -> None:
        (example,) = training_examples(judge("stepeval"), labelled())
        assert (example.question_type, example.candidates) == ("stepeval-all", ())
        assert example.answer == (
            '{"subgoals": [{"number": 1, "why": "frame 3 shows it", "answer": "yes", "when": 0.20}, '
            '{"number": 2, "why": "frame 6 shows it, the last frame does not", "answer": "no", "when": null}]}'
        )

    def test_one_subgoal_without_what_was_not_asked(self) -> None:
        asked = judge("stepeval", strategy="per-subgoal", reason=False, when=False)
        assert [(x.answer, x.question_type) for x in training_examples(asked, labelled())] == [
            ('{"answer": "yes"}', "stepeval-one"),
            ('{"answer": "no"}', "stepeval-one"),
        ]

    def test_a_truth_between_two_frames_shown_is_dated_by_the_next(self) -> None:
        asked = judge("stepeval", strategy="per-subgoal", frames=2)
        first = training_examples(asked, labelled())[0]
        assert first.answer == '{"why": "it came true before frame 2", "answer": "yes", "when": 0.90}'

    def test_what_was_judged_before_is_stated_rightly(self) -> None:
        asked = judge("stepeval", strategy="sequential", answer="tokens")
        first, second = training_examples(asked, labelled())
        assert (first.answer, second.answer, second.question_type) == ("Yes", "No", "stepeval-tokens")
        assert "Judged before:\n1. the handle is held: yes\n" in str(second.prompt.turns[0].parts[-1])

    def test_remaining_steps_then_the_percentage(self) -> None:
        found = [
            x.answer
            for x in training_examples(judge("procvlm", points=10), labelled())
            if x.question_type == "procvlm"
        ]
        assert found[1] == (
            "The following steps are required:\n1. the handle is held\n2. the drawer is open\n"
            "Therefore, the estimated progress is <progress>10.00%</progress>."
        )
        assert found[6] == (
            "The last step is done (the drawer is open), no further steps required.\n"
            "Therefore, the estimated progress is <progress>100.00%</progress>."
        )
        assert "1. the drawer is open\nTherefore" in found[9]

    def test_the_percentage_alone_where_the_answer_is_begun(self) -> None:
        found = training_examples(judge("procvlm", points=10), labelled())
        for whole, direct in zip(found[::2], found[1::2], strict=True):
            assert (whole.question_type, direct.question_type) == ("procvlm", "procvlm-direct")
            assert direct.prompt == replace(whole.prompt, prefill=DIRECT)
            assert (whole.prompt.prefill, whole.prompt.template) == ("", "chat")
            assert whole.answer.endswith("\n" + DIRECT + direct.answer)

    def test_steps_may_be_the_stages_of_a_success(self) -> None:
        stages = (Label("stage", "reach", 0.0, 0.4), Label("stage", "pull", 0.4, 1.0))
        progress = (Label("progress", "robust", 0.0, value=0.0), Label("progress", "robust", 0.9, value=1.0))
        subject = labelled(*stages, *progress, Label("success", "holds", value=1.0), subgoals=())
        found = [
            x.answer
            for x in training_examples(judge("procvlm", points=10), subject)
            if x.question_type == "procvlm"
        ]
        assert "1. reach\n2. pull\n" in found[3]
        assert found[3].endswith("<progress>33.33%</progress>.")
        assert "1. pull\n" in found[4]
        assert "no further steps required" in found[9]

    def test_hops_are_signed_whole_percents(self) -> None:
        found = [x.answer for x in training_examples(judge("hop", points=9), labelled())]
        assert found[:5] == [f"<score>{hop}%</score>" for hop in ("+10", "+11", "+12", "+14", "+100")]
        assert found[5:] == [f"<score>{hop}%</score>" for hop in ("0", "0", "-50", "0")]

    @pytest.mark.parametrize(
        ("before", "after", "hop"),
        [
            (0, 0, 0),
            (1, 1, 0),
            (0.5, 0.75, 0.5),
            (0.5, 0.25, -0.5),
            (0.3, 1, 1),
            (0.3, 0, -1),
            (1, 0.4, -0.6),
        ],
    )
    def test_the_rule_of_hops(self, before: float, after: float, hop: float) -> None:
        assert hop_between(before, after) == pytest.approx(hop)

    @pytest.mark.parametrize("name", ["stepeval", "procvlm", "hop"])
    def test_the_questions_are_the_judges_own(self, name: str) -> None:
        seen = []

        async def ask(request: Request, model: object = None) -> Any:
            assert isinstance(request, Generate)
            seen.append(request.prompt)
            return Answer("")

        asyncio.run(judge(name).judge(labelled(), ask))
        found = [
            x.prompt
            for x in training_examples(judge(name), labelled())
            if x.question_type != "procvlm-direct"
        ]
        assert found == seen


class TestWhatIsNotLabelled:
    def unlabelled(self, *kinds: str) -> Episode:
        subject = labelled()
        return replace(subject, labels=Labels(tuple(r for r in subject.labels.rows if r.kind not in kinds)))

    @pytest.mark.parametrize(
        ("name", "absent", "message"),
        [
            ("stepeval", "subgoal", "no label of the subgoal.*'the handle is held', 'the drawer is open'"),
            ("procvlm", "subgoal", "no label of the subgoal"),
            ("procvlm", "progress", "no progress labels"),
            ("hop", "progress", "no progress labels"),
            ("topreward", "success", "no success label"),
        ],
    )
    def test_is_named(self, name: str, absent: str, message: str) -> None:
        subject = self.unlabelled(absent)
        with pytest.raises(EpisodeError, match=f"Episode e has {message}"):
            training_examples(judge(name), subject)
        with pytest.raises(EpisodeError, match=message):
            sample_examples(judge(name), subject, np.random.default_rng(0))

    def test_a_verdict_without_times_answers_for_the_last_frame_alone(self) -> None:
        rows = [Label("subgoal", name, value=1.0) for name in ("the handle is held", "the drawer is open")]
        subject = labelled(*rows)
        asked = judge("stepeval", strategy="per-subgoal", answer="tokens")
        assert [x.answer for x in training_examples(asked, subject)] == ["Yes", "Yes"]
        with pytest.raises(EpisodeError, match=r"when the subgoal 'the handle is held' came true.*start_s"):
            training_examples(judge("stepeval"), subject)
        rng = np.random.default_rng(0)
        drawn = [sample_examples(asked, subject, rng) for _ in range(60)]
        assert 0 < sum(bool(examples) for examples in drawn) < 30

    def test_a_span_in_which_it_was_false_is_known(self) -> None:
        rows = [Label("subgoal", "the drawer is open", 0.0, 1.0, 0.0)]
        subject = labelled(*rows, subgoals=(Subgoal("the drawer is open", mode="holds"),))
        rng = np.random.default_rng(0)
        asked = judge("stepeval", reason=False, when=False)
        answers = {x.answer for _ in range(40) for x in sample_examples(asked, subject, rng)}
        assert answers == {'{"subgoals": [{"number": 1, "answer": "no"}]}'}

    def test_progress_under_several_names_is_not_mixed(self) -> None:
        rows = [Label("progress", name, 0.0, value=0.0) for name in ("sarm", "robust")]
        with pytest.raises(EpisodeError, match=r"'sarm', 'robust'"):
            training_examples(judge("hop"), labelled(*rows))

    def test_other_judges_have_no_examples(self) -> None:
        with pytest.raises(OptionError, match="stepeval, procvlm, hop, gvl or topreward"):
            training_examples(get_judge("linear-time"), labelled())
        with pytest.raises(OptionError, match="form=published"):
            training_examples(judge("gvl", form="json"), labelled())
        with pytest.raises(OptionError, match="answer=tokens"):
            training_examples(judge("stepeval", strategy="per-subgoal", answer="statement"), labelled())
        with pytest.raises(OptionError, match="variant=token"):
            training_examples(judge("topreward", variant="instruction"), labelled())


def frame_refs(prompt: Prompt) -> list[FrameRef]:
    tiles = [p.frames if isinstance(p, TiledFrames) else (p,) for turn in prompt.turns for p in turn.parts]
    return [part for parts in tiles for part in parts if isinstance(part, FrameRef)]


class Undecodable(fakes.FakeView):
    def read(self, indices: Sequence[int], size: int | None = None) -> object:  # type: ignore[override]
        raise AssertionError("a training example decodes nothing")


def drawn(asked: Judge, subject: Episode, count: int, seed: int = 0) -> list[TrainingExample]:
    rng = np.random.default_rng(seed)
    return [example for _ in range(count) for example in sample_examples(asked, subject, rng)]


class TestExamplesOfARandomFrame:
    @pytest.mark.parametrize(
        ("name", "options"),
        [
            ("stepeval", {}),
            ("stepeval", {"strategy": "sequential", "repeats": 3}),
            ("stepeval", {"strategy": "per-subgoal", "answer": "tokens", "layout": "tiled"}),
            ("procvlm", {}),
            ("procvlm", {"spacing_s": 0.2, "fps": 5.0}),
            ("hop", {"mode": "fused"}),
            ("topreward", {}),
        ],
        ids=str,
    )
    def test_is_right_where_it_stands_and_decodes_nothing(
        self, name: str, options: dict[str, object]
    ) -> None:
        views = {"top": Undecodable(10), "wrist": Undecodable(20, fps=20.0)}
        examples = drawn(judge(name, **options), labelled(views=views), 40)
        assert len(examples) >= 20
        for example in examples:
            shown = [frame.index for frame in frame_refs(example.prompt) if frame.view == "top"]
            self.check(example, shown)

    def check(self, example: TrainingExample, shown: list[int]) -> None:
        held, done = bool(shown) and shown[-1] >= 2, bool(shown) and 5 <= shown[-1] < 8
        if example.question_type == "stepeval-all":
            assert example.answer.count('"yes"') == held + done
        elif example.question_type in ("stepeval-one", "stepeval-tokens"):
            asked_held = "Subgoal 1 of 2" in str(example.prompt.turns[0].parts[-1])
            assert ("yes" in example.answer.lower()) is (held if asked_held else done)
        elif example.question_type.startswith("procvlm"):
            assert f"{100 * POTENTIAL[shown[-1]]:.2f}%" in example.answer
        elif example.question_type == "hop":
            hop = hop_between(POTENTIAL[shown[1]], POTENTIAL[shown[2]])
            assert f"{round(100 * hop):d}" in example.answer
        else:
            video = example.prompt.turns[0].parts[0]
            assert isinstance(video, VideoFrames)
            at = video.indices[-1] // (2 if video.view == "wrist" else 1)
            assert example.answer == f" {POTENTIAL[at] == 1}"

    def test_may_be_of_any_frame_each_as_likely(self) -> None:
        for name in ("stepeval", "procvlm", "hop"):
            last = Counter(frame_refs(x.prompt)[-1].index for x in drawn(judge(name), labelled(), 400))
            assert set(last) == set(range(10))
            assert min(last.values()) > 15

    def test_hop_is_mostly_asked_about_any_two_frames_in_both_orders(self) -> None:
        shown = [frame_refs(example.prompt) for example in drawn(judge("hop"), labelled(), 300)]
        assert all(start.index == 0 for start, _, _ in shown)
        spans = Counter(after.index - before.index for _, before, after in shown)
        assert min(spans) < -7
        assert max(spans) > 7
        assert abs(sum(n for span, n in spans.items() if span < 0) / len(shown) - 0.35) < 0.1

    def test_gvl_shows_every_sampled_frame_once_in_an_order_of_its_own(self) -> None:
        examples = drawn(judge("gvl", frames=6), labelled(), 40)
        orders = [tuple(frame.index for frame in frame_refs(x.prompt)[1:]) for x in examples]
        assert {tuple(sorted(order)) for order in orders} == {tuple(sorted(orders[0]))}
        assert len(set(orders)) > 20
        for example, order in zip(examples, orders, strict=True):
            assert parse_frame_percentages(example.answer, range(1, 7)) == pytest.approx(
                {number: round(100 * value) for number, value in enumerate(example.values, start=1)}
            )
            assert len(order) == 6

    def test_shows_frames_as_far_apart_as_the_judge_does(self) -> None:
        rows = (
            Label("progress", "potential", 0.0, value=0.0),
            Label("progress", "potential", 15.0, value=1.0),
        )
        stages = (Label("stage", "pull", 0.0, 15.1), Label("success", "holds", value=1.0))
        subject = labelled(*rows, *stages, views={"top": fakes.FakeView(151)}, subgoals=())
        for example in drawn(judge("procvlm"), subject, 40):
            shown = [frame.index for frame in frame_refs(example.prompt)]
            assert len(shown) == 8
            assert shown == [max(0, shown[-1] - 10 * back) for back in range(7, -1, -1)]
        gaps = [
            np.diff([s.index for s in frame_refs(x.prompt)[1:]])[0] for x in drawn(judge("hop"), subject, 60)
        ]
        assert 8 <= np.median(gaps) <= 12

    def test_draws_subgoals_and_ways_of_answering(self) -> None:
        types = Counter(x.question_type for x in drawn(judge("procvlm"), labelled(), 60))
        assert min(types["procvlm"], types["procvlm-direct"]) > 15
        asked = judge("stepeval", strategy="sequential")
        numbers = Counter(
            "Subgoal 1 of 2" in str(x.prompt.turns[0].parts) for x in drawn(asked, labelled(), 60)
        )
        assert min(numbers[True], numbers[False]) > 15

    def test_is_the_same_for_the_same_seed(self) -> None:
        for name in ("stepeval", "procvlm", "hop"):
            assert drawn(judge(name), labelled(), 5, seed=3) == drawn(judge(name), labelled(), 5, seed=3)

    def test_works_inside_a_running_loop(self) -> None:
        async def notebook() -> list[TrainingExample]:
            return drawn(judge("hop"), labelled(), 3)

        assert asyncio.run(notebook()) == drawn(judge("hop"), labelled(), 3)

    def test_knows_every_mode_of_hop_where_there_is_a_goal(self, tmp_path: Path) -> None:
        Image.new("RGB", (64, 64), "red").save(tmp_path / "goal.png")
        subject = labelled(goals={"top": tmp_path / "goal.png"})
        found = drawn(judge("hop", mode="fused"), subject, 60)
        assert {len(frame_refs(example.prompt)) for example in found} == {2, 3}
        for example in found:
            shown = [frame.index for frame in frame_refs(example.prompt)]
            if len(shown) == 2:
                assert (
                    example.answer
                    == f"<score>{round(100 * POTENTIAL[shown[1]] - 100):+d}%</score>".replace("+0", "0")
                )
