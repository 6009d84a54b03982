from __future__ import annotations

from pathlib import Path

import pytest

import stepscore
from stepscore.testing import write_toy_rollouts


@pytest.fixture(scope="session")
def toys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Toy rollouts of three policies on three tasks, four scenes each: 36 episodes."""
    return write_toy_rollouts(tmp_path_factory.mktemp("toys"), scenes=4)


@pytest.fixture(scope="session")
def toy_run(toys: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Their recorded curves as a run."""
    out = tmp_path_factory.mktemp("runs") / "recorded"
    return stepscore.score(stepscore.open_episodes(toys), stepscore.get_judge("recorded"), out=out).path
