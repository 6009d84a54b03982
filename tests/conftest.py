"""Fixtures every test may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

from tests.paths import SHARED_DATA

# How long an example takes depends on what else the machine does.
settings.register_profile("stepscore", deadline=None)
settings.load_profile("stepscore")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real rollouts recorded by others. They live beside the repository, never in it."""
    if not (SHARED_DATA / "rollouts").is_dir():
        if os.environ.get("CI") == "true" and os.environ.get("STEPSCORE_REQUIRE_DATA"):
            pytest.fail(f"real rollouts are required and not at {SHARED_DATA}")
        pytest.skip(f"REAL ROLLOUTS ABSENT: no {SHARED_DATA}; the tests against published values did not run")
    return SHARED_DATA
