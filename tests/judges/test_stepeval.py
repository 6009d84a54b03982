"""StepEval: a verdict per subgoal, and unknown where the model does not say."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stepscore
from stepscore.episodes import Episode
from stepscore.episodes.labels.subgoals import Subgoal
from stepscore.errors import CapabilityError, EpisodeError, OptionError, UnknownNameError
from stepscore.judges.common.parsing import SubgoalAnswer
from stepscore.judges.common.verdicts import verdict_from_scores, verdict_from_text
from stepscore.judges.stepeval import StepEval, subgoal_prompt_text
from stepscore.models import PrefixScores, Request, ScorePrefixes, Scores
from stepscore.models.blocking import run_blocking
from stepscore.models.mock import MockModel
from stepscore.runs.protocol import protocol_of
from stepscore.runs.run import Run
from stepscore.types import Verdict
from tests.fakes import FakeView, episode
from tests.judges.asked import images_of, run_judge, text_of
from tests.judges.common.malformed import malformed

GOALS = (
    Subgoal("grasp the handle", "fingers around it", "ever", view="wrist"),
    Subgoal("the drawer is open", mode="holds"),
)
BOTH = json.dumps(
    {
        "subgoals": [
            {"number": 1, "why": "closed in frame 2", "answer": "yes", "when": 1.2},
            {"number": 2, "why": "still shut", "answer": "no", "when": None},
        ]
    }
)


def judged(
    tmp_path: Path,
    script: Callable[[Request], object] | str,
    subject: Episode | None = None,
    **options: object,
) -> tuple[Run, MockModel]:
    model = MockModel(script) if isinstance(script, str) else MockModel("m", script=script)
    judge = StepEval(model, **options)  # type: ignore[arg-type]
    subject = subject or episode(subgoals=GOALS)
    run = run_judge(judge, subject, tmp_path / "run")
    return run, model


def answers(run: Run) -> list[str]:
    assert run.judgements().column("error").to_pylist() == [None]
    return run.verdicts().column("answer").to_pylist()


class TestStatements:
    def test_all_subgoals_are_weighed_in_one_request_a_view(self, tmp_path: Path) -> None:
        top, wrist = [[-1.0, -3.0], [-2.0, -0.5], [-9.0, -9.0]], [[-4.0, -1.0], [-1.0, -0.5], [0.0, 0.0]]
        responses = iter((top, wrist))

        def script(request: Request) -> object:
            assert isinstance(request, ScorePrefixes)
            assert request.candidates == (" True", " False")
            said = [str(prompt.turns[0].parts[1]) for prompt in request.prompts]
            assert ["grasp the handle" in said[0], "the drawer is open" in said[1]] == [True, True]
            assert len(request.prompts) == 3, "the instruction goes along"
            return PrefixScores(np.array(next(responses))[:, None, :])

        subject = episode(subgoals=GOALS, views={"top": FakeView(20), "wrist": FakeView(20)})
        run, model = judged(tmp_path, script, subject, strategy="per-subgoal", answer="statement")
        assert answers(run) == ["no", "no"], "the first goes by the wrist's camera alone"
        scores = run.verdicts().column("score").to_pylist()
        assert scores == pytest.approx([1 / (1 + math.exp(3)), 1 / (1 + math.exp(1.0))])
        assert len(model.requests) == 2

    def test_what_the_model_does_not_tell_is_unknown(self, tmp_path: Path) -> None:
        def script(request: Request) -> object:
            assert isinstance(request, ScorePrefixes)
            return PrefixScores(np.full((3, 1, 2), np.nan))

        run, _ = judged(tmp_path, script, strategy="per-subgoal", answer="statement")
        assert answers(run) == ["unknown", "unknown"]


class TestAllAtOnce:
    def test_one_question_gives_every_verdict_with_time_and_reason(self, tmp_path: Path) -> None:
        run, model = judged(tmp_path, BOTH)
        rows = run.verdicts().to_pylist()
        assert [(r["answer"], r["score"], r["when_s"], r["why"]) for r in rows] == [
            ("yes", 1.0, 1.2, "closed in frame 2"),
            ("no", 0.0, None, "still shut"),
        ]
        assert len(model.requests) == 1
        assert run.judgements().column("success_score").to_pylist() == [0.0]

    def test_the_model_reads_instruction_subgoals_and_when_they_count(self, tmp_path: Path) -> None:
        _, model = judged(tmp_path, BOTH)
        text = text_of(model.requests[0])
        assert '"open the drawer"' in text
        assert "1. grasp the handle (fingers around it) [counts if true at some time]" in text
        assert "2. the drawer is open [counts if still true in the last frame]" in text
        assert "Frame 16, 4.90 s" in text
        assert len(images_of(model.requests[0])) == 16

    def test_reason_and_time_are_asked_for_only_if_wanted(self, tmp_path: Path) -> None:
        _, model = judged(tmp_path, BOTH, reason=False, when=False)
        assert '"why"' not in text_of(model.requests[0])
        assert '"when"' not in text_of(model.requests[0])

    def test_all_reached_is_success_and_anything_unknown_is_not_known(self, tmp_path: Path) -> None:
        yes = json.dumps([{"number": n, "answer": "yes"} for n in (1, 2)])
        run, _ = judged(tmp_path / "a", yes)
        assert run.judgements().column("success_score").to_pylist() == [1.0]
        run, _ = judged(tmp_path / "b", json.dumps([{"number": 1, "answer": "no"}]))
        assert answers(run) == ["no", "unknown"]
        assert run.judgements().column("success_score").to_pylist() == [None]

    def test_a_time_outside_the_episode_is_unknown(self, tmp_path: Path) -> None:
        run, _ = judged(tmp_path, json.dumps([{"number": 1, "answer": "yes", "when": 77}]))
        assert run.verdicts().column("when_s").to_pylist() == [None, None]


class TestOneByOne:
    def test_per_subgoal_asks_of_each_on_its_own(self, tmp_path: Path) -> None:
        def script(request: Request) -> str:
            return '{"answer": "yes"}' if "Subgoal 1 of 2: grasp" in text_of(request) else '{"answer": "no"}'

        run, model = judged(tmp_path, script, strategy="per-subgoal")
        assert answers(run) == ["yes", "no"]
        assert len(model.requests) == 2
        assert not any("Judged before" in text_of(request) for request in model.requests)

    def test_sequential_tells_what_was_judged_before(self, tmp_path: Path) -> None:
        run, model = judged(tmp_path, '{"answer": "no"}', strategy="sequential")
        assert answers(run) == ["no", "no"]
        assert "Judged before" not in text_of(model.requests[0])
        assert "Judged before:\n1. grasp the handle: no\n" in text_of(model.requests[1])

    def test_token_probabilities_give_a_score(self, tmp_path: Path) -> None:
        run, model = judged(
            tmp_path, lambda _: [math.log(0.6), math.log(0.2)], strategy="per-subgoal", answer="tokens"
        )
        assert answers(run) == ["yes", "yes"]
        assert run.verdicts().column("score").to_pylist() == pytest.approx([0.75, 0.75])
        assert run.judgements().column("success_score").to_pylist() == pytest.approx([0.75])
        assert model.requests[0].candidates == ("Yes", "No")
        assert "one word, Yes or No." in text_of(model.requests[0])

    def test_the_success_score_is_the_weakest_subgoals(self, tmp_path: Path) -> None:
        def script(request: Request) -> list[float]:
            p = 0.9 if "Subgoal 1" in text_of(request) else 0.6
            return [math.log(p), math.log(1 - p)]

        run, _ = judged(tmp_path, script, strategy="sequential", answer="tokens")
        assert run.judgements().column("success_score").to_pylist() == pytest.approx([0.6])


class TestTokens:
    @pytest.mark.parametrize(
        ("yes", "no", "hidden", "answer", "score"),
        [
            (-0.1, -3.0, (False, False), "yes", 1 / (1 + math.exp(-2.9))),
            (-3.0, -0.1, (False, False), "no", 1 / (1 + math.exp(2.9))),
            (-1.0, -1.0, (False, False), "unknown", 0.5),
            (-0.1, -5.0, (False, True), "yes", math.nan),
            (-5.0, -0.1, (True, False), "no", math.nan),
            (-5.0, -5.0, (True, True), "unknown", math.nan),
            (-4.0, -5.0, (True, True), "unknown", math.nan),
            (-4.0, -5.0, (True, False), "unknown", math.nan),
            (math.nan, -1.0, (False, False), "unknown", math.nan),
            (-math.inf, -1.0, (False, False), "no", 0.0),
            (-math.inf, -math.inf, (False, False), "unknown", math.nan),
        ],
    )
    def test_a_hidden_word_can_only_lose(
        self, yes: float, no: float, hidden: tuple[bool, bool], answer: str, score: float
    ) -> None:
        verdict = verdict_from_scores("s", Scores((yes, no), hidden), ("Yes", "No"))
        assert verdict.answer == answer
        assert verdict.score == pytest.approx(score, nan_ok=True)


class TestRepeats:
    def votes(self, *words: str) -> Verdict:
        answers = [SubgoalAnswer(word, 1.0 + k, word) for k, word in enumerate(words)]  # type: ignore[arg-type]
        return verdict_from_text("s", answers, 9.0)

    def test_the_majority_decides_and_the_score_is_the_share_of_yes(self) -> None:
        verdict = self.votes("yes", "no", "yes")
        assert (verdict.answer, verdict.score) == ("yes", pytest.approx(2 / 3))
        assert verdict.why.startswith("2 yes, 1 no of 3.")
        assert verdict.when_s == 2.0

    def test_a_tie_is_unknown(self) -> None:
        assert self.votes("yes", "no").answer == "unknown"
        assert self.votes("yes", "unknown").answer == "unknown"

    def test_unknown_answers_enter_no_score(self) -> None:
        assert self.votes("yes", "unknown", "yes").score == 1.0
        assert math.isnan(self.votes("unknown", "unknown").score)

    def test_each_repeat_is_a_question_of_its_own_with_its_own_seed(self, tmp_path: Path) -> None:
        run, model = judged(tmp_path, _first_is_garbage, repeats=3)
        assert answers(run) == ["yes", "no"]
        assert sorted((r.repeat, r.seed, r.temperature) for r in model.requests) == [
            (0, 0, 0.7),
            (1, 1, 0.7),
            (2, 2, 0.7),
        ]


def _first_is_garbage(request: Any) -> str:
    return BOTH if request.repeat else "garbage"


class TestOptions:
    def test_an_episode_without_subgoals_names_the_repair(self, tmp_path: Path) -> None:
        judge = StepEval(MockModel("x"))

        async def ask(request: Request, model: object = None) -> Any:
            raise AssertionError("nothing may be asked")

        with pytest.raises(EpisodeError, match="--subgoals"):
            run_blocking(judge.judge(episode(), ask))

    def test_a_model_without_token_scores_is_refused_by_name(self, tmp_path: Path) -> None:
        judge = StepEval(MockModel("x", scores="none"), strategy="per-subgoal", answer="tokens")
        with pytest.raises(
            CapabilityError, match=r"needs token scores; mock/x gives none\. hf/.*openai-api/"
        ):
            run_judge(judge, episode(subgoals=GOALS), tmp_path)

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"strategy": "both"}, "all-at-once, per-subgoal, sequential"),
            ({"answer": "tokens"}, "strategy=per-subgoal"),
            ({"answer": "statement"}, "strategy=per-subgoal"),
            ({"answer": "statement", "strategy": "per-subgoal", "template": "strict"}, "no rules"),
            ({"answer": "tokens", "strategy": "sequential", "repeats": 2}, "repeats"),
            ({"layout": "grid"}, "tiled"),
            ({"frames": 0}, "frames must be .*, got 0"),
            ({"fps": -1.0}, "fps must be .*, got -1.0"),
            ({"template": "bold"}, "default, evidence, strict"),
        ],
    )
    def test_a_wrong_option_says_what_is_allowed(self, wrong: dict[str, object], message: str) -> None:
        with pytest.raises((OptionError, UnknownNameError), match=message):
            StepEval(MockModel("x"), **wrong)  # type: ignore[arg-type]

    def test_every_template_and_strategy_is_another_protocol(self) -> None:
        judges = [
            StepEval(MockModel("x"), template=template, strategy=strategy)
            for template in ("default", "strict", "evidence")
            for strategy in ("all-at-once", "per-subgoal", "sequential")
        ]
        assert len({protocol_of(judge).hash for judge in judges}) == 9

    def test_rules_of_your_own_are_read_and_their_text_is_in_the_protocol(self, tmp_path: Path) -> None:
        rules = tmp_path / "mine.txt"
        rules.write_text("Only trust the last frame.\n")
        judge = StepEval(MockModel("x"), template=str(rules))
        before = protocol_of(judge)
        assert before.content["judge"]["options"]["template"] == "mine"  # type: ignore[index]
        _, model = judged(tmp_path, BOTH, template=str(rules))
        assert "Only trust the last frame.\n" in text_of(model.requests[0])
        rules.write_text("Trust nothing.\n")
        assert protocol_of(judge).hash != before.hash

    def test_a_subgoals_own_camera_is_pointed_out_among_several(self) -> None:
        assert subgoal_prompt_text(GOALS[0], ["top", "wrist"]).endswith("best seen by the camera wrist]")
        assert "camera" not in subgoal_prompt_text(GOALS[0], ["wrist"])
        assert "camera" not in subgoal_prompt_text(GOALS[0], ["top", "side"])


@pytest.mark.parametrize(
    ("layout", "images"), [("separate", 12), ("interleaved", 12), ("tiled", 4)], ids=lambda v: str(v)
)
def test_layouts_differ_in_images_not_in_frames(tmp_path: Path, layout: str, images: int) -> None:
    views = {name: FakeView(mark=name) for name in ("top", "left", "right")}
    run, model = judged(tmp_path, BOTH, episode(views=views, subgoals=GOALS), frames=4, layout=layout)
    assert len(images_of(model.requests[0])) == images
    assert run.usage().column("images").to_pylist() == [images]


def test_malformed_answers_never_end_a_run(tmp_path: Path) -> None:
    broken = malformed([BOTH, "1. yes\n2. no", '{"answer": "yes"}'], 10**6, seed=3)
    subjects = [episode(f"e{n:03d}", subgoals=GOALS) for n in range(200)]
    judge = StepEval(
        MockModel("m", script=lambda _: next(broken).encode("utf-8", "ignore").decode()), frames=2
    )
    run = run_judge(judge, subjects, tmp_path)
    assert run.judgements().column("error").null_count == 200
    assert set(answers_of(run)) == {"yes", "no", "unknown"}


def answers_of(run: Run) -> list[str]:
    return run.verdicts().column("answer").to_pylist()


REAL = tuple(Subgoal(f"subtask{n}", mode="ever") for n in range(1, 4))


@pytest.mark.parametrize("layout", ["separate", "interleaved", "tiled"])
@pytest.mark.parametrize("views", [1, 2, 3])
def test_the_real_three_camera_episode(shared_data: Path, tmp_path: Path, views: int, layout: str) -> None:
    real = stepscore.open_episodes(shared_data / "multiview")
    (subject,) = [Episode(**{**vars(e), "subgoals": REAL}) for e in real]
    names = list(subject.views)[:views]
    said = json.dumps([{"number": n, "answer": "yes", "when": 4.0 * n} for n in (1, 2, 3)])
    model = MockModel(said)
    judge = StepEval(model, frames=4, size=96, layout=layout)  # type: ignore[arg-type]
    run = run_judge(judge, subject, tmp_path, views=names)
    assert answers(run) == ["yes"] * 3
    (request,) = model.requests
    shapes = {p.clip.frames.shape for p in images_of(request)}
    assert shapes == {(1, 72, 96 * views if layout == "tiled" else 96, 3)}
    assert len(images_of(request)) == (4 if layout == "tiled" else 4 * views)
