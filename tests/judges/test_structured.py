"""Judges in words hold answers to a schema where the model supports it, and ask as ever where it does not."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stepscore.errors import CapabilityError, OptionError, UnknownNameError
from stepscore.judges import Judge, get_judge
from stepscore.judges.common.digits import expected_numbers, logprobs_to_request
from stepscore.models import Answer, Capabilities, Generate, Request, TokenChoice
from stepscore.models.embedded.model import EmbeddedModel
from stepscore.models.mock import MockModel
from stepscore.models.schemas import Number, Written
from stepscore.models.schemas.automaton import Automaton
from stepscore.models.tagged import plain
from tests.fakes import episode
from tests.judges.asked import judge_once, one_row, run_judge
from tests.judges.published.test_procvlm import GOALS, NAMES
from tests.models.schemas.test_schema import accepted

JUDGES: dict[str, tuple[str, dict[str, Any]]] = {
    "stepeval": ("stepeval", {}),
    "stepeval alone": ("stepeval", {"strategy": "per-subgoal"}),
    "stepeval sequential": ("stepeval", {"strategy": "sequential", "reason": False}),
    "procvlm": ("procvlm", {"points": 3}),
    "procvlm published": ("procvlm", {"points": 3, "template": "published"}),
    "hop": ("hop", {"points": 3}),
    "gvl": ("gvl", {"frames": 4}),
    "gvl json": ("gvl", {"frames": 4, "form": "json"}),
}


class Logging(MockModel):
    """A mock model that returns log-probabilities of its answers."""

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, answer_logprobs=20)


def judge_of(case: str, model: MockModel, **options: Any) -> Judge:
    name, own = JUDGES[case]
    return get_judge(name, model=model, **own, **options)


def questions(judge: Judge) -> list[Generate]:
    found = judge_once(judge, episode(subgoals=GOALS))
    assert found
    assert all(isinstance(request, Generate) for request in found)
    return found  # type: ignore[return-value]


@pytest.mark.parametrize("case", JUDGES)
def test_a_schema_is_all_that_structured_adds_to_a_question(case: str) -> None:
    held, free = (questions(judge_of(case, MockModel("m", structured=on))) for on in (True, False))
    off = questions(judge_of(case, MockModel("m", structured=True), structured=False))
    assert all(request.schema is None for request in free)
    assert [plain(request) for request in free] == [plain(request) for request in off]
    assert all(request.schema is not None for request in held)
    assert [plain(replace(request, schema=None)) for request in held] == [plain(request) for request in free]
    assert [plain(request) for request in held] != [plain(request) for request in free], "another key"


@pytest.mark.parametrize("case", JUDGES)
def test_the_protocol_says_it_only_where_it_changes_an_answer(case: str) -> None:
    free, off = (
        judge_of(case, MockModel("m")),
        judge_of(case, MockModel("m", structured=True), structured=False),
    )
    held = judge_of(case, MockModel("m", structured=True))
    assert (free.version, off.version, held.version) == (1, 1, 2)
    assert free.options() == off.options()
    assert "structured" not in free.options()
    assert held.options() == {**free.options(), "structured": True}


@pytest.mark.parametrize("case", JUDGES)
def test_whatever_the_schema_accepts_is_read(case: str, tmp_path: Path) -> None:
    """No accepted answer is an error; and one that says a word or number is read."""
    draw = random.Random(case)

    def script(request: Request) -> str:
        assert isinstance(request, Generate)
        assert request.schema is not None
        automaton = Automaton(request.schema.written())
        while "unknown" in (text := accepted(automaton, draw)) or "null" in text or "%" in text[:-30]:
            if case.startswith(("gvl", "stepeval")) and "unknown" not in text:
                break
        return text

    run = run_judge(
        judge_of(case, MockModel("m", script=script, structured=True)), episode(subgoals=GOALS), tmp_path
    )
    one_row(run)
    if case.startswith("stepeval"):
        assert {verdict["answer"] for verdict in run.verdicts().to_pylist()} <= {"yes", "no"}
    else:
        known = [value is not None for value in run.curves().column("progress").to_pylist()]
        # "percent": 1 without a percent sign could be a fraction, and is not read.
        assert sum(known) >= len(known) - (case == "gvl json")


UNKNOWN: dict[str, Callable[[Generate], str]] = {
    "stepeval alone": lambda request: '{"why": "", "answer": "unknown", "when": null}',
    "procvlm": lambda request: (
        "The following steps are required:\n1. unknown\nTherefore, the estimated progress is "
        "<progress>unknown</progress>."
    ),
    "hop": lambda request: "<score>unknown</score>",
    "gvl": lambda request: "\n".join(
        f"Frame {n}: Frame Description: , Task Completion Percentages:unknown" for n in (1, 2, 3, 4)
    ),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_unknown_is_an_answer_of_every_schema_and_stays_unknown(case: str, tmp_path: Path) -> None:
    def script(request: Request) -> str:
        assert isinstance(request, Generate)
        assert request.schema is not None
        text = UNKNOWN[case](request)
        assert Automaton(request.schema.written()).accepts(text)
        return text

    run = run_judge(
        judge_of(case, MockModel("m", script=script, structured=True)), episode(subgoals=GOALS), tmp_path
    )
    row = one_row(run)
    assert row["success_score"] is None
    assert set(run.curves().column("progress").to_pylist()) <= {None}
    assert {verdict["answer"] for verdict in run.verdicts().to_pylist()} <= {"unknown"}


def test_an_answer_by_tokens_or_statement_has_no_schema() -> None:
    for answer in ("tokens", "statement"):
        options = {"strategy": "per-subgoal", "answer": answer}
        judge = get_judge("stepeval", model=MockModel("m", structured=True), **options)
        assert (judge.version, "structured" in judge.options()) == (1, False)
        with pytest.raises(OptionError, match="answer=text"):
            get_judge("stepeval", model=MockModel("m"), structured=True, **options)


def test_a_model_that_cannot_be_held_is_refused_where_it_is_asked_for() -> None:
    with pytest.raises(CapabilityError, match="structured=true"):
        judge_once(judge_of("hop", MockModel("m"), structured=True), episode())


def test_published_judges_keep_their_own_form() -> None:
    model = MockModel("m", structured=True)
    assert "structured" not in get_judge("grm", model=model, profile="grm", prompt="own").options()
    with pytest.raises(UnknownNameError, match="structured"):
        get_judge("grm", model=model, profile="grm", structured=True)
    published = get_judge("procvlm", model=MockModel("ce-amtic/ProcVLM-2B", structured=True))
    assert published.version == 1


def tokens(*pieces: str, **tops: dict[str, float]) -> tuple[TokenChoice, ...]:
    """The tokens of an answer; ``_N`` names the likely ones at place N by their probability."""
    return tuple(
        TokenChoice(piece, tuple((word, math.log(p)) for word, p in tops.get(f"_{n}", {piece: 1.0}).items()))
        for n, piece in enumerate(pieces)
    )


PERCENT = Written(("<", Number(0, 100, unit="%"), ">"))


@pytest.mark.parametrize("form", ["published", "json"])
def test_gvl_reads_a_held_answer_by_its_schema(form: str, tmp_path: Path) -> None:
    def script(request: Request) -> str:
        entries = [{"frame": n, "description": "Progress: 30%", "percent": 1} for n in (1, 2, 3, 4)]
        lines = [
            f"Frame {n}: Frame Description: Progress: 30%, Task Completion Percentages:1%"
            for n in (1, 2, 3, 4)
        ]
        return json.dumps({"frames": entries}) if form == "json" else "\n".join(lines)

    progress = {}
    for held in (True, False):
        judge = get_judge("gvl", model=MockModel("m", script=script, structured=held), frames=4, form=form)
        run = run_judge(judge, episode(), tmp_path / str(held))
        progress[held] = run.curves().column("progress").to_pylist()
    assert progress == {True: [0.01] * 4, False: [None] * 4}


def test_a_number_is_the_expected_value_of_its_tokens() -> None:
    whole = tokens("<", "40", "%", ">", _1={"40": 0.5, "60": 0.3, "unk": 0.2})
    assert expected_numbers(Answer("<40%>", choices=whole), PERCENT) == pytest.approx([47.5])
    signed = tokens("<", "-", "40", "%>", _2={"40": 0.5, "60": 0.5})
    hop = Written(("<", Number(-100, 100, plus=True, unit="%"), ">"))
    assert expected_numbers(Answer("<-40%>", choices=signed), hop) == pytest.approx([-50])
    joint = tokens("<", "-40", "%>", _1={"-40": 0.5, "+60": 0.5})
    assert expected_numbers(Answer("<-40%>", choices=joint), hop) == pytest.approx([10])
    (unknown,) = expected_numbers(Answer("<unknown>", choices=tokens("<unknown>")), PERCENT)
    assert math.isnan(unknown)


def test_a_digit_is_not_taken_for_the_number_that_begins_with_it() -> None:
    for text, digits in (
        ("<100%>", tokens("<", "1", "0", "0", "%>", _1={"1": 0.5, "9": 0.5})),
        ("<9%>", tokens("<", "9", "%>", _1={"9": 0.5, "1": 0.5})),
    ):
        (value,) = expected_numbers(Answer(text, choices=digits), PERCENT)
        assert math.isnan(value)


def test_answers_whose_tokens_do_not_give_the_number_have_none() -> None:
    whole = tokens("<", "40", "%", ">")
    (joined,) = expected_numbers(Answer("<40%>", choices=tokens("<4", "0%>")), PERCENT)
    assert math.isnan(joined), "a token that is more than the number"
    for other in (
        Answer("<40%>"),
        Answer("about <40%>", choices=tokens("about <40%>")),
        Answer("<40%>", choices=whole[1:]),
    ):
        assert expected_numbers(other, PERCENT) == []


def test_progress_is_expected_where_the_model_returns_log_probabilities(tmp_path: Path) -> None:
    def script(request: Request) -> Answer:
        assert isinstance(request, Generate)
        assert request.top_logprobs == 20
        head = "The following steps are required:\n1. let go\nTherefore, the estimated progress is <progress>"
        choices = tokens(head, "60", "%</progress>.", _1={"60": 0.5, "80": 0.5})
        return Answer(f"{head}60%</progress>.", choices=choices, schema_mass=0.25)

    model = Logging("m", script=script, structured=True)
    run = run_judge(judge_of("procvlm", model), episode(subgoals=GOALS), tmp_path)
    curve = run.curves().to_pydict()
    assert curve["progress"] == curve["expected"] == pytest.approx([0.7] * 3)
    assert curve["stated"] == pytest.approx([0.6] * 3)
    assert curve["schema_mass"] == [0.25] * 3
    assert curve["remaining"] == [1.0] * 3
    assert [v["answer"] for v in run.verdicts().to_pylist()] == ["yes", "yes", "no"]
    assert NAMES[2] == "let go"


def test_log_probabilities_of_a_long_answer_are_fewer() -> None:
    model = Logging("m", structured=True)
    assert [logprobs_to_request(model, n) for n in (256, 2048, 100_000)] == [20, 9, 0]
    assert logprobs_to_request(MockModel("m"), 256) == 0


def test_the_embedded_judge_is_held_by_default() -> None:
    can = EmbeddedModel().capabilities
    assert can.structured
    assert can.answer_logprobs
    assert get_judge("hop", model="embedded").version == 2
    assert get_judge("stepeval", model="embedded").version == 1, "by statements"
