"""Opposite instructions: the verb is swapped, or it is said why it cannot be."""

from __future__ import annotations

import pytest

from stepscore.episodes.perturbations.perturb import opposite_instruction
from stepscore.episodes.perturbations.rewording import OPPOSITES, opposite_instruction_of
from stepscore.errors import OptionError
from tests.fakes import episode


@pytest.mark.parametrize(
    ("instruction", "opposite"),
    [
        ("open the drawer", "close the drawer"),
        ("Close the window.", "Open the window."),
        ("please turn on the lamp", "please turn off the lamp"),
        ("unlock the door", "lock the door"),
        ("open the lower drawer", "close the lower drawer"),
        ("lower the shelf", "raise the shelf"),
    ],
)
def test_the_opposite_swaps_the_verb(instruction: str, opposite: str) -> None:
    assert opposite_instruction_of(instruction) == opposite
    assert opposite_instruction(episode(instruction=instruction)).instruction == opposite


def test_an_opposite_that_cannot_be_told_is_an_error_with_a_remedy() -> None:
    unknown = r"does not begin with a verb that has a known opposite. Known: attach.*opposites="
    for instruction in ("push the puck to the goal", "reopen the drawer", "put the open box away", ""):
        with pytest.raises(OptionError, match=unknown):
            opposite_instruction_of(instruction)
    # Whoever did this has put the cup down: the swapped verb alone would call it undone.
    for instruction in (
        "Pick up the cup and place it on the plate",
        "open the drawer, close it",
        "open it then go",
    ):
        with pytest.raises(OptionError, match="has several actions"):
            opposite_instruction_of(instruction)
    mapping = {"push the puck to the goal": "pull the puck back"}
    assert opposite_instruction_of("Push the puck to the goal", mapping) == "pull the puck back"
    assert opposite_instruction_of("pull the puck back", mapping) == "push the puck to the goal"


def test_every_opposite_leads_back() -> None:
    for word, other in OPPOSITES.items():
        assert opposite_instruction_of(f"{word} it") == f"{other} it"
        assert opposite_instruction_of(opposite_instruction_of(f"{other} it")) == f"{other} it"
