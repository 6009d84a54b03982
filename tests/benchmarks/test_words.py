"""The evaluation of judges in words: figures of rows whose truth is known."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.embedded.words import CHANGES, figures
from stepscore.models import Generate, Prompt, Turn


def row(number: int, *, success: bool, error: float = 0.1) -> dict[str, Any]:
    true = [0.0, 0.4, 1.0 if success else 0.6]
    curve = {"stated": [value + error for value in true[:2]] + [None], "true": true, "clock": [0.0, 0.5, 1.0]}
    ends = {"stated": [0.0, 0.2, 0.9 if success else 0.3], "true": true, "clock": [0.0, 0.5, 1.0]}
    return {
        "id": str(number), "policy": "undo" if number % 2 else "expert", "task": "push", "pair": f"scene-{number}",
        "success": success, "procvlm": ends, "hop": curve, "gvl": ends, "first_step": [True, True, False, True],
        "pairs": [(0.05, 0.1, 0.2), (-0.05, -0.2, 0.2), (0.2, 0.3, 0.1), (0.5, 0.6, None)],
        "changed": {name: [0.0, 0.3, 0.9 if success else 0.3] for name in CHANGES},
        "procvlm_frozen": [0.2, 0.25], "gvl_frozen": [None, 0.1],
    }  # fmt: skip


def test_figures_are_those_of_the_rows() -> None:
    made = dict(figures([row(number, success=number < 6) for number in range(12)]))
    value = {name: estimate.value for name, estimate in made.items()}
    assert value["procvlm: AUC"] == 1.0
    assert value["hop: MAE"] == pytest.approx(0.1)
    assert value["hop: values known"] == pytest.approx(2 / 3)
    assert value["procvlm: first remaining step"] == 0.75
    assert value["hop: sign, 0.03 to 0.1"] == 0.5
    assert value["hop: sign, 0.1 to 0.3"] == 1.0
    assert value["hop: sign, 0.3 to 1"] == 0.0  # an unknown one is wrong
    assert value["procvlm: change with timestamps doubled"] == pytest.approx(0.1 / 3)
    assert value["procvlm: spread on a frozen video"] == pytest.approx(0.05)
    assert value["gvl: VOC, successes"] == 1.0
    assert made["clock: MAE, undo and retreat"].n == 6
    assert value["clock: MAE"] == pytest.approx((6 * (0.1 / 3) + 6 * (0.5 / 3)) / 12)


def test_timestamps_are_changed_in_the_question_alone() -> None:
    prompt = Prompt(
        (Turn("user", ("Frame 1, 0.50 s: ", "x", "\nFrame 2, 1.25 s, camera left: ", "Rest 3.00 s.")),)
    )
    changed = {
        name: "".join(str(part) for part in change(Generate(prompt, max_tokens=8)).prompt.turns[0].parts)
        for name, change in CHANGES.items()
    }
    assert changed["doubled"] == "Frame 1, 1.00 s: x\nFrame 2, 2.50 s, camera left: Rest 3.00 s."
    assert changed["shifted"] == "Frame 1, 5.50 s: x\nFrame 2, 6.25 s, camera left: Rest 3.00 s."
    assert changed["absent"] == "Frame 1: x\nFrame 2, camera left: Rest 3.00 s."
