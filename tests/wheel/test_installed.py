"""A built wheel in a clean environment, with nothing cached: `pip install stepscore`, then what a new user runs.

Run by ``make dist``. It prints the megabytes and the seconds of each step; it asserts the megabytes alone.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import time
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest

from stepscore import __version__
from tests.paths import ROOT

MAX_MEGABYTES = 700
MAX_WHEEL_MEGABYTES = 30
NOT_IN_THE_CORE = ("torch", "transformers", "matplotlib", "pandas", "pytest", "mypy", "mujoco")


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel, and a home of its own."""

    folder: Path
    home: Path

    @property
    def bin(self) -> Path:
        return self.folder / ("Scripts" if os.name == "nt" else "bin")

    def run(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        """Run stepscore with empty caches and no way to a network; print its time."""
        nowhere = "http://127.0.0.1:9"
        environment = {
            **clean_environment(),
            "HOME": str(self.home),
            "XDG_CACHE_HOME": str(self.home / "cache"),
            "STEPSCORE_CACHE": str(self.home / "answers"),
            **dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), nowhere),
        }
        line = [str(self.bin / "stepscore"), *map(str, arguments)]
        return timed(
            f"stepscore {arguments[0]}",
            lambda: subprocess.run(line, capture_output=True, text=True, cwd=self.home, env=environment),
        )


def clean_environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}


def timed(what: str, call):
    """Print the seconds of a call and the processor time of the processes it started."""
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    result = call()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{what}: {time.perf_counter() - started:.1f} s, processor {processor:.1f} s")
    return result


@pytest.fixture(scope="module")
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel of ``--wheel``, installed by pip with a cache of its own; skipped loudly without a package index."""
    wheel = request.config.getoption("--wheel").resolve()
    made = Installed(tmp_path_factory.mktemp("venv"), tmp_path_factory.mktemp("home"))
    print(f"\n{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")
    timed("new environment", lambda: venv.create(made.folder, with_pip=True))
    pip = [str(made.bin / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pip += ["--cache-dir", str(tmp_path_factory.mktemp("pip")), "--constraint", str(ROOT / "constraints.txt")]
    done = timed(
        "pip install",
        lambda: subprocess.run(
            [*pip, str(wheel)], capture_output=True, text=True, env=clean_environment(), cwd=made.home
        ),
    )
    if done.returncode:
        if os.environ.get("CI") == "true":
            pytest.fail(f"the wheel could not be installed: {done.stderr[-2000:]}")
        pytest.skip(f"NO PACKAGE INDEX: the wheel was not installed, and is untested: {done.stderr[-500:]}")
    return made


def test_the_wheel_is_small(request: pytest.FixtureRequest) -> None:
    assert request.config.getoption("--wheel").stat().st_size / 1e6 < MAX_WHEEL_MEGABYTES


def test_it_is_small_and_brings_neither_torch_nor_tools_of_ours(installed: Installed) -> None:
    files = [path for path in installed.folder.rglob("*") if path.is_file() and not path.is_symlink()]
    megabytes = sum(path.stat().st_size for path in files) / 1e6
    print(f"environment: {megabytes:.0f} MB")
    assert megabytes < MAX_MEGABYTES
    listed = subprocess.run(
        [str(installed.bin / "python"), "-m", "pip", "list", "--format", "json"],
        capture_output=True,
        text=True,
        env=clean_environment(),
    )
    names = {package["name"] for package in json.loads(listed.stdout)}
    assert "stepscore" in names
    assert not names & set(NOT_IN_THE_CORE)


def test_it_says_its_version_and_what_can_run_here(installed: Installed) -> None:
    assert installed.run("--version").stdout.strip() == __version__
    found = json.loads(installed.run("doctor", "--json").stdout)
    assert {row["name"] for row in found["models"] if not row["ready"]} == {"hf", "sarm"}
    assert not any(
        row["ready"] for row in found["extras"] if row["name"] in ("local", "train", "plot", "sim")
    )


def test_the_demo_judges_and_reports_without_a_network(installed: Installed) -> None:
    done = installed.run("demo", "-o", "demo")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert (installed.home / "demo" / "report" / "index.html").stat().st_size > 100_000
    rows = json.loads(installed.run("metrics", "demo/topreward", "--by", "policy", "--json").stdout)
    coverage = [row["value"] for row in rows if row["metric"] == "coverage"]
    assert coverage
    assert min(coverage) > 0.5


def test_a_report_is_made_of_its_runs(installed: Installed) -> None:
    done = installed.run("report", "demo/topreward", "demo/stepeval", "-o", "page")
    assert done.returncode == 0, done.stderr
    assert (installed.home / "page" / "index.html").is_file()


def test_what_needs_an_extra_is_refused_in_one_line(installed: Installed) -> None:
    for extra, words in {"plot": ("plot", "demo/topreward"), "sim": ("sim",)}.items():
        done = installed.run(*words, "-o", extra)
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1
        assert f"pip install 'stepscore[{extra}]'" in done.stderr
