"""Schemas of every kind, and those with which the judges ask."""

from __future__ import annotations

from stepscore.judges.gvl import answer_schema
from stepscore.judges.hop import SCHEMA as HOP
from stepscore.judges.published.procvlm import ProcVlm
from stepscore.judges.stepeval import StepEval
from stepscore.models import Generate, Request
from stepscore.models.mock import MockModel
from stepscore.models.schemas import (
    Constant,
    Either,
    FreeText,
    JsonItems,
    JsonList,
    JsonObject,
    Number,
    Schema,
    Seconds,
    Steps,
    Word,
    Written,
)
from stepscore.procedures.model_answers import STEPS, SUBGOALS, stages_schema
from tests.fakes import episode
from tests.judges.asked import judge_once
from tests.judges.published.test_procvlm import GOALS

KINDS: dict[str, Schema] = {
    "word": Word(("yes", "no")),
    "range": Number(-12, 103),
    "signed": Number(-3, 3, plus=True, unit="%"),
    "decimals": Number(0, 10, decimals=2, unit="%"),
    "seconds": Seconds(),
    "constant": Constant(7),
    "text": FreeText(),
    "steps": Steps(("grasp (the) handle", "pull", "let go.")),
    "written": Written(("<a> ", Number(0, 9), "\n[", Word(("b", "c|d")), "]")),
    "either": Either((Written(("no ", Word(("x",)))), Written((FreeText("<"), "no y")))),
    "object": JsonObject((("why", FreeText()), ("answer", Word(('say "yes"', "no"))), ("at", Seconds()))),
    "list": JsonObject(
        (
            (
                "all",
                JsonList((Constant(1), Number(0, 2), JsonObject((("é", Word(())),)))),
            ),
        )
    ),
    "items": JsonObject((("all", JsonItems(JsonObject((("a", FreeText()), ("at", Seconds()))), 3)),)),
}


def asked_by(judge: StepEval | ProcVlm) -> Schema:
    """The schema of a judge's first question about an episode of three subgoals."""
    requests: list[Request] = judge_once(judge, episode(subgoals=GOALS))
    assert isinstance(requests[0], Generate)
    assert requests[0].schema is not None
    return requests[0].schema


def of_judges() -> dict[str, Schema]:
    """The schemas with which the judges ask."""
    model = MockModel("m", structured=True)
    return {
        "stepeval": asked_by(StepEval(model)),
        "stepeval alone": asked_by(StepEval(model, strategy="per-subgoal", when=False)),
        "hop": HOP,
        "procvlm": asked_by(ProcVlm(model)),
        "procvlm published": asked_by(ProcVlm(model, template="published")),
        "gvl": answer_schema("published", range(3, 6)),
        "gvl json": answer_schema("json", range(1, 4)),
        "steps": STEPS,
        "stages": stages_schema(("grasp the cup", 'say "stop"')),
        "stages of any name": stages_schema(None),
        "subgoals": SUBGOALS,
    }
