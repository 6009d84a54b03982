from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from stepscore.cli.app import app as whole_app
from stepscore.cli.data.annotate import annotate
from stepscore.episodes import Stage, open_episodes
from stepscore.episodes.labels.labels import read_labels
from stepscore.episodes.labels.subgoals import Subgoal, TaskSubgoals
from stepscore.errors import CapabilityError, ModelError, OptionError, StepScoreError
from stepscore.models import Answer, Capabilities, Generate, Request
from stepscore.models.calls import Budget
from stepscore.models.mock import MockModel
from stepscore.models.schemas.patterns import Automaton
from stepscore.models.tagged import plain
from stepscore.procedures.annotate import AnnotateOptions, Annotation, annotate_episodes
from stepscore.procedures.model_answers import STEPS, parse_stages, parse_steps, stages_schema
from stepscore.runs import CallOptions
from tests.fakes import FakeView, episode
from tests.media import write_video
from tests.models.schemas.test_schema import accepted

OFF = CallOptions(cache=False)
WORDS = {"*": TaskSubgoals((Subgoal("reach"), Subgoal("pull")))}
PLAN = json.dumps({"steps": ["reach", "pull"]})

app = typer.Typer(pretty_exceptions_enable=False)
app.command()(annotate)


def stages(*spans: tuple[str, float, float]) -> str:
    return json.dumps({"stages": [{"name": n, "start": s, "end": e} for n, s, e in spans]})


GOOD = stages(("reach", 0, 2), ("pull", 2, 5))


def asked(request: Request) -> str:
    assert isinstance(request, Generate)
    return "".join(part for turn in request.prompt.turns for part in turn.parts if isinstance(part, str))


def answering(*answers: str) -> MockModel:
    """A model that gives these answers in turn, and the last one from then on."""
    left = list(answers)
    return MockModel(script=lambda _: left.pop(0) if len(left) > 1 else left[0])


def run(model: MockModel, folder: Path, **options: object) -> Annotation:
    given = {"vocabulary": WORDS, "call_options": OFF, **options}
    (made,) = annotate_episodes([episode()], model, folder, **given)  # type: ignore[arg-type]
    return made


def test_with_a_vocabulary_the_model_is_asked_once_and_taken_at_its_word(tmp_path: Path) -> None:
    model = answering(GOOD)
    made = run(model, tmp_path)
    assert made.stages == (Stage("reach", 0, 2), Stage("pull", 2, 5))
    assert (made.problems, made.error, made.usage.calls) == ((), None, 1)
    text = asked(model.requests[0])
    assert "1. reach\n2. pull" in text
    assert "no others" in text
    assert "open the drawer" in text
    assert "0.50 s" in text  # the frames carry their times
    assert [row.author for row in made.rows("m", "now")] == ["m", "m"]


def test_without_one_it_plans_first_once_a_task_and_may_add_names(tmp_path: Path) -> None:
    def script(request: Request) -> str:
        return PLAN if "List the steps it goes" in asked(request) else stages(("reach", 0, 2), ("wave", 2, 5))

    model = MockModel(script=script)
    made = annotate_episodes([episode("a"), episode("b")], model, tmp_path, call_options=OFF)
    assert [one.plan for one in made] == [("reach", "pull")] * 2
    assert [one.stages[1].name for one in made] == ["wave"] * 2
    assert [one.usage.calls for one in made] == [2, 1]
    assert len(model.requests) == 3


def test_the_end_of_the_video_is_where_the_question_says(tmp_path: Path) -> None:
    for frames, stated in ((5, "1.67"), (4, "1.33")):
        subject = episode(views={"top": FakeView(frames, fps=3.0)})
        model = answering(stages(("reach", 0, 1), ("pull", 1, float(stated))))
        (made,) = annotate_episodes([subject], model, tmp_path, vocabulary=WORDS, call_options=OFF)
        assert f"between 0 and {stated}." in asked(model.requests[0])
        assert made.error is None
        assert made.stages[-1].end_s == pytest.approx(frames / 3, abs=0.004)
        assert made.stages[-1].end_s <= frames / 3


def test_what_is_wrong_is_told_to_the_model_which_may_answer_again(tmp_path: Path) -> None:
    model = answering(stages(("reach", 0, 3), ("pull", 2, 5)), GOOD)
    made = run(model, tmp_path)
    assert made.stages == (Stage("reach", 0, 2), Stage("pull", 2, 5))
    assert "'pull' (2..5 s) overlaps stage 'reach'" in asked(model.requests[1])


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (stages(("reach", 0, 3), ("pull", 2, 5)), "overlap"),
        (stages(("reach", 0, 2), ("pul", 2, 5)), "unknown name"),
        (stages(("reach", 3, 2)), "end before start"),
        (stages(("pull", 2, 5), ("reach", 0, 2)), "wrong time order"),
        (stages(("reach", 0, 60)), "outside"),
    ],
)
def test_what_stays_wrong_is_reported_and_not_patched_over(tmp_path: Path, answer: str, kind: str) -> None:
    made = run(answering(answer), tmp_path)
    assert made.stages == ()
    assert made.rows("m") == ()
    assert kind in [problem.kind for problem in made.problems]
    assert made.error is not None
    assert kind in made.error
    assert made.usage.calls == 2


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (stages(("reach", 0, 1), ("pull", 3, 5)), "gap"),
        (stages(("reach", 0, 3)), "gap"),
        (stages(("pull", 0, 2), ("reach", 2, 5)), "wrong order"),
    ],
)
def test_gaps_and_another_order_are_reported_and_kept(tmp_path: Path, answer: str, kind: str) -> None:
    made = run(answering(answer), tmp_path)
    assert [problem.kind for problem in made.problems] == [kind]
    assert made.error is None
    assert len(made.stages) == answer.count("name")
    assert made.usage.calls == 1


def test_a_gap_between_two_frames_that_were_shown_is_none(tmp_path: Path) -> None:
    assert run(answering(stages(("reach", 0, 2), ("pull", 2.5, 5))), tmp_path).problems == ()


def test_a_schema_is_all_that_structured_adds_to_a_question(tmp_path: Path) -> None:
    def asked_of(*, able: bool, structured: bool | None, vocabulary: object = WORDS) -> list[Request]:
        model = MockModel(structured=able, script=lambda r: PLAN if "steps it goes" in asked(r) else GOOD)
        run(model, tmp_path, vocabulary=vocabulary, options=AnnotateOptions(structured=structured))
        return model.requests

    for vocabulary, schemas in (
        (WORDS, [stages_schema(("reach", "pull"))]),
        (None, [STEPS, stages_schema(None)]),
    ):
        held, off, free = (
            asked_of(able=able, structured=structured, vocabulary=vocabulary)
            for able, structured in ((True, None), (True, False), (False, None))
        )
        assert [r.schema for r in held if isinstance(r, Generate)] == schemas
        assert [plain(r) for r in off] == [plain(r) for r in free]
        assert all("schema" not in plain(r) for r in free)
        without = [replace(r, schema=None) for r in held if isinstance(r, Generate)]
        assert [plain(r) for r in without] == [plain(r) for r in free]
    with pytest.raises(CapabilityError, match="structured=true"):
        asked_of(able=False, structured=True)


def test_a_held_answer_lists_the_given_names_and_is_read_back() -> None:
    closed, free = (Automaton(stages_schema(names).written()) for names in (("reach", "pull"), None))
    assert closed.accepts(GOOD)
    assert closed.accepts(stages(("reach", 0, 2), ("unknown", 2, 3), ("reach", 3, 4.25)))
    assert closed.accepts('{"stages": []}')
    assert not closed.accepts(stages(("wave", 0, 2)))
    assert free.accepts(stages(("wave", 0, 2)))
    draw = random.Random(0)
    answers = [accepted(closed, draw) for _ in range(60)]
    read = [parse_stages(text) for text in answers if "null" not in text and text != '{"stages": []}']
    assert len(read) > 5
    assert {stage.name for found in read for stage in found} == {"reach", "pull", "unknown"}


def test_an_unknown_stage_is_time_that_belongs_to_none(tmp_path: Path) -> None:
    answer = stages(("reach", 0, 2), ("unknown", 2, 3.5), ("pull", 3.5, 5))
    held = run(MockModel(structured=True, script=lambda _: answer), tmp_path)
    assert held.stages == (Stage("reach", 0, 2), Stage("pull", 3.5, 5))
    assert [problem.kind for problem in held.problems] == ["gap"]
    free = run(MockModel(script=lambda _: answer), tmp_path)
    assert [problem.kind for problem in free.problems] == ["unknown name"]
    nothing = run(MockModel(structured=True, script=lambda _: stages(("unknown", 0, 5))), tmp_path)
    assert nothing.error == "The answer states no stage that is known."


WRONG = [
    "",
    "I cannot see the video.",
    "{}",
    '{"stages": []}',
    '{"stages": "reach"}',
    '{"stages": [{"name": "reach", "start": "00:01", "end": "00:05"}]}',
    '{"stages": [{"name": "reach", "start": true, "end": 2}]}',
    '{"stages": [{"name": " ", "start": 0, "end": 2}]}',
    '{"stages": [{"name": "reach", "start": 0}]}',
    '{"stages": [{"name": "reach", "start": NaN, "end": 2}]}',
    '{"stages": [{"name": "reach", "start": 0, "end": 2}',
    '{"stages": [{"name": "a", "start": 0, "end": 2}]} or {"stages": [{"name": "b", "start": 0, "end": 2}]}',
    "<think>" + GOOD + "</think>",
    "{" * 3000,
]


@pytest.mark.parametrize("text", WRONG)
def test_an_answer_that_states_no_stages_is_an_error_not_a_guess(tmp_path: Path, text: str) -> None:
    with pytest.raises(ModelError, match="The answer"):
        parse_stages(text)


def test_an_unreadable_answer_is_asked_again_and_then_reported(tmp_path: Path) -> None:
    assert run(answering("hm", GOOD), tmp_path).error is None
    made = run(answering("hm"), tmp_path)
    assert made.error is not None
    assert "no JSON object with 'stages'" in made.error


def test_an_answer_that_was_cut_off_is_not_read(tmp_path: Path) -> None:
    made = run(MockModel(script=lambda _: Answer(GOOD, finish="length")), tmp_path)
    assert made.error == "The answer was cut off after 1024 tokens."


def test_answers_in_fences_and_after_thinking_are_read() -> None:
    expected = (Stage("reach", 0, 2), Stage("pull", 2, 5))
    assert parse_stages(f"```json\n{GOOD}\n```") == expected
    assert parse_stages(f"<think>{{}}</think> Here it is: {GOOD} {GOOD}") == expected


def test_a_plan_names_every_step_once() -> None:
    assert parse_steps('{"steps": ["reach", " pull "]}') == ("reach", "pull")
    with pytest.raises(ModelError, match="'reach' twice"):
        parse_steps('{"steps": ["reach", "reach"]}')
    with pytest.raises(ModelError, match="steps"):
        parse_steps('{"steps": []}')


def test_braces_in_an_instruction_stay_as_they_are(tmp_path: Path) -> None:
    model = answering(GOOD)
    annotate_episodes(
        [episode(instruction="put {steps} away")], model, tmp_path, vocabulary=WORDS, call_options=OFF
    )
    assert 'told: "put {steps} away"' in asked(model.requests[0])


def test_long_videos_are_shown_at_a_lower_rate(tmp_path: Path) -> None:
    model = answering(GOOD)
    run(model, tmp_path, options=AnnotateOptions(fps=10, max_frames=6))
    parts = model.requests[0].prompt.turns[0].parts
    assert sum(not isinstance(part, str) for part in parts) == 6
    with pytest.raises(OptionError, match=r"tries, max_frames and fps must be .*got 0"):
        AnnotateOptions(tries=0)


def test_a_model_without_image_input_is_refused_and_a_spent_budget_is_said(tmp_path: Path) -> None:
    class Blind(MockModel):
        @property
        def capabilities(self) -> Capabilities:
            return Capabilities(images=False)

    with pytest.raises(CapabilityError, match="does not accept images"):
        run(Blind(), tmp_path)
    spent = CallOptions(Budget(max_calls=1), cache=False)
    made = annotate_episodes(
        [episode("a"), episode("b")], answering(GOOD), tmp_path, vocabulary=WORDS, call_options=spent
    )
    assert made[0].error is None
    assert made[1].error is not None


@pytest.fixture
def source(tmp_path: Path) -> Path:
    write_video(tmp_path / "videos" / "pull the drawer.mp4", 30)
    return tmp_path / "videos"


def invoke(answer: str, source: Path, *more: str) -> tuple[int, str, BaseException | None]:
    arguments = [str(source), "--model", f"mock/{answer}", "-E", "cache=false", *more]
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, result.output, result.exception


def test_the_command_writes_labels_that_join(source: Path, tmp_path: Path) -> None:
    vocabulary, file = tmp_path / "words.yaml", tmp_path / "labels.parquet"
    vocabulary.write_text("tasks: {'*': {subgoals: [reach, pull]}}\n")
    good = stages(("reach", 0, 0.5), ("pull", 0.5, 1))
    code, text, _ = invoke(good, source, "--vocabulary", str(vocabulary), "-o", str(file))
    assert code == 0, text
    (joined,) = open_episodes(source, labels=file)
    assert joined.labels.stages == (Stage("reach", 0, 0.5), Stage("pull", 0.5, 1))
    (row, _) = read_labels(file)[joined.id]
    assert row.author.startswith("mock/")
    assert row.created
    code, _, error = invoke(good, source, "--vocabulary", str(vocabulary), "-o", str(file))
    assert isinstance(error, StepScoreError)
    assert "--force" in str(error)


def test_the_command_reports_what_is_wrong_and_fails(source: Path, tmp_path: Path) -> None:
    vocabulary, file = tmp_path / "words.yaml", tmp_path / "labels.parquet"
    vocabulary.write_text("tasks: {'*': {subgoals: [reach, pull]}}\n")
    bad = stages(("reach", 0, 0.7), ("pull", 0.5, 1))
    code, text, _ = invoke(bad, source, "--vocabulary", str(vocabulary), "-o", str(file), "--json")
    assert code == 1
    assert '"kind": "overlap"' in text
    assert read_labels(file) == {}


def test_a_limit_in_money_takes_the_users_price(source: Path, tmp_path: Path) -> None:
    vocabulary, file = tmp_path / "words.yaml", tmp_path / "labels.parquet"
    vocabulary.write_text("tasks: {'*': {subgoals: [reach, pull]}}\n")
    good = stages(("reach", 0, 0.5), ("pull", 0.5, 1))
    limited = ["--vocabulary", str(vocabulary), "-o", str(file), "--max-cost", "5"]
    _, _, error = invoke(good, source, *limited)
    assert isinstance(error, StepScoreError)
    assert "-E price-in and -E price-out" in str(error)
    assert not file.exists()
    code, text, _ = invoke(good, source, *limited, "-E", "price-in=1", "-E", "price-out=2")
    assert code == 0, text
    assert file.exists()


def test_the_command_refuses_a_schema_that_the_model_does_not_support(source: Path, tmp_path: Path) -> None:
    file = tmp_path / "labels.parquet"
    _, _, error = invoke(GOOD, source, "-o", str(file), "--structured")
    assert isinstance(error, CapabilityError)
    assert "structured=true" in str(error)


def test_shards_annotate_their_part_with_their_share_and_merge_to_the_whole(tmp_path: Path) -> None:
    names = [f"e{number}" for number in range(5)]
    for name in names:
        write_video(tmp_path / "videos" / f"{name}.mp4", 30)
    vocabulary, merged = tmp_path / "words.yaml", tmp_path / "labels.parquet"
    vocabulary.write_text("tasks: {'*': {subgoals: [reach, pull]}}\n")
    given = (
        stages(("reach", 0, 0.5), ("pull", 0.5, 1)),
        tmp_path / "videos",
        "--vocabulary",
        str(vocabulary),
    )
    files = [tmp_path / f"{index}.parquet" for index in (1, 2)]
    for index, file in enumerate(files, 1):
        code, text, _ = invoke(*given, "-o", str(file), "--shard", f"{index}/2", "--max-calls", "5")
        assert code == 0, text
    assert "Shard 2/2: 3 of 5 episodes; its share of the budget: 3 of 5 calls" in text
    assert [sorted(read_labels(file)) for file in files] == [names[:2], names[2:]]
    result = CliRunner().invoke(whole_app, ["merge", *map(str, files), "-o", str(merged)])
    assert "2 files, 5 episodes; wrote 10 labels" in result.stderr
    assert [len(one.labels.stages) for one in open_episodes(tmp_path / "videos", labels=merged)] == [2] * 5


def test_a_shard_needs_the_stages_that_all_shards_have(source: Path, tmp_path: Path) -> None:
    _, _, error = invoke(GOOD, source, "-o", str(tmp_path / "l.parquet"), "--shard", "1/2")
    assert isinstance(error, OptionError)
    assert "--vocabulary" in str(error)
    assert "stepscore plan" in str(error)
