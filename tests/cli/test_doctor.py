"""``stepscore doctor``: what is installed, what can run here, and what is missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping

import pytest
from typer.testing import CliRunner

from stepscore._imports import EXTRAS
from stepscore.cli.app import app
from stepscore.judges import judge_registry
from stepscore.models import model_registry


def examined() -> dict[str, dict[str, Mapping[str, object]]]:
    result = CliRunner().invoke(app, ["doctor", "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    return {kind: {row["name"]: row for row in found[kind]} for kind in ("extras", "models", "judges")}


@pytest.fixture
def without_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    for modules in EXTRAS.values():
        for module in modules:
            monkeypatch.setitem(sys.modules, module, None)


@pytest.mark.usefixtures("without_extras")
def test_with_the_core_alone_it_says_what_runs_and_how_to_get_the_rest() -> None:
    found = examined()
    assert not any(row["ready"] for row in found["extras"].values())
    for name, row in found["extras"].items():
        assert f"pip install 'stepscore[{name}]'" in str(row["note"])
    assert "PyTorch's install page" in str(found["extras"]["local"]["note"])
    assert {name for name, row in found["models"].items() if not row["ready"]} == {"hf", "sarm"}
    assert "stepscore[local]" in str(found["models"]["hf"]["note"])
    assert {name for name, row in found["judges"].items() if not row["ready"]} == {"robometer", "sarm"}
    assert found["judges"]["topreward"]["note"] == "--model embedded, openai-api, sglang, vllm"


def test_it_fits_a_few_screens_of_a_small_terminal() -> None:
    printed = CliRunner().invoke(app, ["doctor"], env={"COLUMNS": "80"}).stdout
    assert len(printed.splitlines()) < 72


def test_everything_that_can_be_chosen_is_in_it() -> None:
    found = examined()
    assert set(found["extras"]) == set(EXTRAS)
    assert list(found["models"]) == model_registry.names()
    assert list(found["judges"]) == judge_registry.names()
    for columns in ("200", "80"):
        printed = CliRunner().invoke(app, ["doctor"], env={"COLUMNS": columns}).stdout
        assert all(name in printed for kind in found.values() for name in kind), columns
        assert "installed" in printed
        assert max(map(len, printed.splitlines()[2:])) <= int(columns)


def test_a_package_that_cannot_be_imported_is_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(judge_registry._targets, "broken", "no_such_package:Judge")
    row = examined()["judges"]["broken"]
    assert row["ready"] is False
    assert "ModuleNotFoundError" in str(row["note"])


class TestCompletion:
    """The shell's completion, as typer makes it."""

    def run(self, *arguments: str, **environment: str) -> str:
        line = [sys.executable, "-c", "from stepscore.cli.main import main; main()", *arguments]
        done = subprocess.run(line, capture_output=True, text=True, env={**os.environ, **environment})
        assert done.returncode == 0, done.stderr
        return done.stdout

    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_the_script_of_each_shell_is_shown(self, shell: str) -> None:
        disabled = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
        script = self.run("--show-completion", shell, **disabled)
        assert "_STEPSCORE_COMPLETE=complete_" in script
        assert "stepscore" in script

    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            ("stepscore doc", ["doctor"]),
            ("stepscore train ", ["vlm", "sarm"]),
            ("stepscore judge --dry", ["--dry-run"]),
            ("stepscore ls ju", ["judges"]),
        ],
    )
    def test_commands_options_and_choices_are_completed(self, words: str, expected: list[str]) -> None:
        position = str(len(words.split(" ")) - 1)
        asked = {"COMP_WORDS": words, "COMP_CWORD": position, "_STEPSCORE_COMPLETE": "complete_bash"}
        assert self.run(**asked).split() == expected
