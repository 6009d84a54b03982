"""The reference page of the metrics says what the code does."""

from __future__ import annotations

import doctest
import inspect

import pytest

import stepscore.metrics
from stepscore.metrics import (
    calibration,
    frame_pairs,
    order,
    pair_consistency,
    stage_errors,
    subgoals,
    success,
    success_map,
    token_rewards,
)
from tests.paths import DOCS

PAGE = DOCS / "methods/metrics.md"


def test_every_example_prints_what_the_page_shows():
    found = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert found.attempted > 20
    assert found.failed == 0


@pytest.mark.parametrize(
    "module",
    [
        order,
        success,
        success_map,
        subgoals,
        stage_errors,
        frame_pairs,
        pair_consistency,
        calibration,
        token_rewards,
    ],
)
def test_every_public_function_stands_on_the_page(module):
    text = PAGE.read_text(encoding="utf-8")
    for name, function in inspect.getmembers(module, inspect.isfunction):
        if function.__module__ == module.__name__ and not name.startswith("_"):
            assert name in text, f"{module.__name__}.{name} is missing from {PAGE.name}"
            assert name in stepscore.metrics.__all__, f"{name} is not public"
