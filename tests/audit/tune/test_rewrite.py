"""Rewordings come from the model, keep the template's marks, and are tried as any other value."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepscore.audit.tune import tune
from stepscore.audit.tune.rewrite import check_rewording, marks_of
from stepscore.errors import OptionError
from stepscore.judges import Judge, get_judge
from stepscore.models.calls import Budget
from tests.audit.tune.planted import EPISODES, STRICT, PlantedModel, maker, options

TEMPLATE = "Judge {robot} by what the frames show.\n?reason: Say why.\n{{sketch}}"
GOOD = f"Look at {{robot}}; a {STRICT} does not count.\n?reason: State a reason.\n{{{{sketch}}}}"


def test_marks_are_fields_images_conditions_and_sections() -> None:
    assert marks_of("[task]\n{a} {a} {{b}}\n?c: d") == {"[task]": 1, "{a}": 2, "{{b}}": 1, "?c:": 1}
    assert not marks_of('An example: {"number": 1} is no mark.')


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (GOOD, None),
        (GOOD.replace("{robot}", "it"), r"it lacks {robot}"),
        (GOOD.replace("{{sketch}}", ""), "it lacks {{sketch}}"),
        (GOOD + " {instruction}", "it adds {instruction}"),
        (GOOD.replace("?reason:", "reason:"), "it lacks ?reason:"),
        (TEMPLATE.upper().replace("{ROBOT}", "{robot}"), "it lacks"),
        (f"  {TEMPLATE}\n", "it repeats another"),
        (GOOD + "x" * 5000, "characters"),
        ("", "it is no text"),
        (7, "it is no text"),
        (None, "it is no text"),
        ("\udcff", "it is no text"),
    ],
)
def test_a_rewording_that_loses_a_mark_is_not_used(text: object, why: str | None) -> None:
    found = check_rewording(text, TEMPLATE)
    assert found is None if why is None else found is not None and why in found


def test_a_better_rewording_is_chosen_and_the_others_are_said(tmp_path: Path) -> None:
    template = tmp_path / "mine.txt"
    template.write_text(TEMPLATE)
    model = PlantedModel(rewordings=[GOOD.replace("{robot}", "it"), GOOD, GOOD, 5])
    make = maker(model, template=str(template), frames=8)
    tuned = tune(EPISODES, make, {"layout": ["tiled"]}, tmp_path / "out", options(tmp_path, rewrite=5))
    assert tuned.chosen.startswith("layout=tiled,template=rewrite-") or tuned.chosen.startswith(
        "template=rewrite-"
    )
    path = Path(str(tuned.winner.settings["template"]))
    assert path.parent == tmp_path / "out" / "templates"
    assert path.read_text().strip() == GOOD
    assert tuned.notes == (
        "Rewording 1 is not tried: it lacks {robot}.",
        "Rewording 3 is not tried: it repeats another.",
        "Rewording 4 is not tried: it is no text.",
        "1 of 5 rewordings were not given.",
    )
    asked = len(model.requests)
    again = tune(
        EPISODES,
        make,
        {"layout": ["tiled"]},
        tmp_path / "out",
        options(tmp_path, rewrite=5, calls={"cache": False}),
    )
    assert len(model.requests) == asked == again.spent.attempts
    assert again.chosen == tuned.chosen


def test_an_answer_without_rewordings_leaves_the_choice_as_it_was(tmp_path: Path) -> None:
    model = PlantedModel(rewordings="none")
    tuned = tune(EPISODES, maker(model), {"frames": [8]}, tmp_path / "out", options(tmp_path, rewrite=2))
    assert tuned.chosen == "frames=8"
    assert "gave no rewordings" in tuned.notes[0]


def test_a_budget_may_end_before_rewording(tmp_path: Path) -> None:
    model = PlantedModel(rewordings=["Look."])
    budget = Budget(max_calls=48 + 48)  # two trials on 24 episodes, and as much for the test split
    limited = options(tmp_path, rewrite=1, calls={"budget": budget})
    tuned = tune(EPISODES, maker(model), {"frames": [8]}, tmp_path / "out", limited)
    assert "--max-calls" in tuned.stopped
    assert tuned.winner.test is not None
    assert len(model.requests) <= 96


@pytest.mark.parametrize(
    ("judge", "why"),
    [
        (lambda: get_judge("topreward", model="mock/x"), "takes none"),
        (lambda: get_judge("stepeval", model="embedded"), "was not made to write"),
    ],
)
def test_a_judge_without_a_template_or_a_writer_is_refused(judge: object, why: str, tmp_path: Path) -> None:
    made: Judge = judge()  # type: ignore[operator]
    with pytest.raises(OptionError, match=why):
        tune(EPISODES, lambda _: made, {}, tmp_path / "out", options(tmp_path, rewrite=2))
