"""Servers of these tests, started when the first test needs them. `make test-vllm` gives the environment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from PIL import Image

from stepscore.cli.judging.demo import ROLLOUTS
from stepscore.episodes import Episode, open_episodes
from tests.vllm import checkpoints
from tests.vllm.server import VllmServer, served

ABSENT = "NO VLLM: nothing was tried on a real server; `make test-vllm` installs one and runs these tests"
CHOSEN = (0, 9, 20)
"""Of the bundled rollouts: three policies on three tasks."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--vllm") is None:
        here = Path(__file__).parent
        for item in items:
            if here in item.path.parents:
                item.add_marker(pytest.mark.skip(reason=ABSENT))


@pytest.fixture(scope="session")
def python(request: pytest.FixtureRequest) -> Path:
    """The Python of the environment that vLLM is in."""
    found: Path = request.config.getoption(
        "--vllm"
    ).absolute()  # not resolved: a link is what makes it a venv
    if not found.is_file():
        pytest.fail(f"--vllm {found}: there is no such file; `make test-vllm` makes it")
    return found


@dataclass(frozen=True)
class Embedded:
    """The embedded judge, as a checkpoint for ``hf/`` and on a server."""

    checkpoint: Path
    server: VllmServer


@pytest.fixture(scope="session")
def embedded(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    folder = tmp_path_factory.mktemp("embedded")
    checkpoint = checkpoints.embedded(folder / "narrow")
    wider = checkpoints.widened(checkpoint, folder / "embedded")
    with served(python, wider, folder, "--block-size", "32") as server:
        yield Embedded(checkpoint, server)


@pytest.fixture(scope="session")
def tiny(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    folder = tmp_path_factory.mktemp("tiny")
    with served(python, checkpoints.tiny(folder / "tiny"), folder, "--block-size", "32") as server:
        yield server


@pytest.fixture(scope="session")
def rollouts(tmp_path_factory: pytest.TempPathFactory) -> list[Episode]:
    """Three bundled rollouts, with their subgoals, and their last frame as goal image."""
    episodes = open_episodes(ROLLOUTS, subgoals=ROLLOUTS / "subgoals.yaml")
    folder = tmp_path_factory.mktemp("goals")
    return [_with_goal(episodes[number], folder) for number in CHOSEN]


def _with_goal(episode: Episode, folder: Path) -> Episode:
    view = episode.views[episode.main_view]
    file = folder / f"{episode.id}.png"
    Image.fromarray(view.read([view.info().n_frames - 1])[0]).save(file)
    return replace(episode, goals={episode.main_view: file})
