"""A slice of the hostile checkpoints: each is refused in one line, or answers; the whole is a script of its own."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from stepscore.errors import StepScoreError
from tests.models import hostile_checkpoints

TRIES = {"hf": 16, "sarm": 40, "embedded": 20, "robometer": 16}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", TRIES)
def test_a_hostile_checkpoint_is_refused_in_one_line_or_answers(kind: str, tmp_path: Path) -> None:
    refused = 0
    for number, (name, make) in enumerate(
        itertools.islice(hostile_checkpoints.variants(14, (kind,)), TRIES[kind])
    ):
        make(tmp_path / f"checkpoint_{number}")
        says = ""
        try:
            hostile_checkpoints.exercise(name, tmp_path / f"checkpoint_{number}")
        except StepScoreError as error:
            says, refused = str(error), refused + 1
        assert "\n" not in says, name
        assert len(says) < 1200, name
    assert refused > TRIES[kind] // 2


@pytest.mark.parametrize("kind", TRIES)
def test_a_sound_checkpoint_answers(kind: str, tmp_path: Path) -> None:
    folder = hostile_checkpoints.write(kind, tmp_path / "checkpoint")
    assert hostile_checkpoints.exercise(f"{kind}:sound", folder) is not None
