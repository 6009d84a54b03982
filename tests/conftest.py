"""Fixtures every test may use, the tests that `make test-core` leaves out, and the time of each folder."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import settings

from tests.paths import ROOT, SHARED_DATA

# How long an example takes depends on what else the machine does.
settings.register_profile("stepscore", deadline=None)
settings.load_profile("stepscore")

NEED_EXTRAS = (
    "benchmarks",
    "cli/test_demo.py",
    "curation/test_weights_command.py",
    "docs/test_python_blocks.py",
    "episodes/readers/test_hdf5.py",
    "episodes/remote",
    "examples",
    "judges/published/test_robometer_checkpoint.py",
    "judges/sarm",
    "models/api/test_raw_turn.py",
    "models/api/test_transformers_serve.py",
    "models/embedded",
    "models/hf",
    "models/qwen3vl",
    "models/robometer",
    "models/sarm",
    "report/plots",
    "rewards/test_stable_baselines3.py",
    "rewards/test_wrapper.py",
    "runs/engines/test_ray_engine.py",
    "server/test_app.py",
    "sim",
    "training",
    "vllm",
    "web",
)
"""Tests of what comes with an extra, under ``tests``; all others run with a plain installation."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--core", action="store_true", help="leave out tests that need an extra of the package")
    parser.addoption(
        "--wheel", type=Path, help="run the tests of a built wheel, installed by itself (make dist)"
    )
    parser.addoption(
        "--vllm",
        type=Path,
        help="run the tests on a real vLLM, with this Python that has it (make test-vllm)",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    core = config.getoption("--core") and any(
        collection_path == ROOT / "tests" / name for name in NEED_EXTRAS
    )
    # It takes minutes, and a package index: `make dist` runs it, `make test` does not.
    unbuilt = config.getoption("--wheel") is None and collection_path == ROOT / "tests" / "wheel"
    return True if core or unbuilt else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the tests and the seconds of each folder, slowest first; with several workers, the sum of theirs."""
    seconds: dict[str, float] = defaultdict(float)
    counts: dict[str, set[str]] = defaultdict(set)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                parts = report.nodeid.partition("::")[0].split("/")
                folder = "/".join(parts[: min(2, len(parts) - 1)])
                seconds[folder] += report.duration
                counts[folder].add(report.nodeid)
    if len(seconds) > 1:
        terminalreporter.section("time by folder")
        for folder in sorted(seconds, key=lambda name: -seconds[name]):
            terminalreporter.line(f"{seconds[folder]:8.1f} s  {len(counts[folder]):5d} tests  {folder}")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real rollouts recorded by others. They live beside the repository, never in it."""
    if not (SHARED_DATA / "rollouts").is_dir():
        if os.environ.get("CI") == "true" and os.environ.get("STEPSCORE_REQUIRE_DATA"):
            pytest.fail(f"real rollouts are required and not at {SHARED_DATA}")
        pytest.skip(f"REAL ROLLOUTS ABSENT: no {SHARED_DATA}; the tests against published values did not run")
    return SHARED_DATA
