"""The commands of the page of published models run as they stand there, on models that answer in their form."""

from __future__ import annotations

import json
import random
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner, Result

import stepscore
from stepscore.cli.app import app
from stepscore.judges.published import prompting, published_judge
from stepscore.judges.published.profiles import Profile, PromptText, find_checkpoint, published_checkpoints
from stepscore.models import Generate, Request, Response, model_registry
from stepscore.models.mock import MockModel
from stepscore.testing import write_toy_rollouts
from tests.judges.published.answers import FORMS
from tests.paths import ROOT

PAGE = (ROOT / "docs" / "judges" / "published.md").read_text(encoding="utf-8")
COMMANDS = [line for block in re.findall(r"```\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]


@dataclass
class Published(MockModel):
    """Answers every question in the form of the published model of its name."""

    rng: random.Random = field(default_factory=lambda: random.Random(3))

    @property
    def name(self) -> str:
        return f"hf/{self.text}"

    async def answer(self, request: Request) -> Response:
        assert isinstance(request, Generate)
        found = find_checkpoint(self.name)
        assert found is not None
        name = next(iter(found[0].questions))
        if name == "compare" and "1 for yes" in str(request.prompt):
            name = "done"
        form = FORMS[f"{found[0].name}/{name}"]
        self.script = lambda request: form.write(self.rng, form.number(self.rng)[0])
        return await super().answer(request)


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with rollouts and the files that the commands name; the network answers nothing."""
    manifest = write_toy_rollouts(tmp_path / "rollouts", scenes=1) / "manifest.jsonl"
    manifest.write_text(manifest.read_text().splitlines()[0])  # one of nine is enough
    Image.new("RGB", (96, 96), (200, 10, 10)).save(tmp_path / "goal.png")
    (tmp_path / "subgoals.yaml").write_text('tasks: {"*": {subgoals: [reach it, move it]}}')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STEPSCORE_CACHE", str(tmp_path / "cache"))
    before = model_registry.get("hf")
    model_registry.replace("hf", Published)

    def stand_in(profile: Profile, text: PromptText) -> str:
        (name,) = [n for n, q in profile.questions.items() for t in q.texts.values() if t == text][:1]
        (role,) = [r for r, t in profile.questions[name].texts.items() if t == text][:1]
        return prompting.question_texts(profile, name, "own")[role]

    monkeypatch.setattr(prompting, "published_text", stand_in)
    monkeypatch.setattr(published_judge, "fetch_texts", lambda profile, *questions, offline: None)
    yield tmp_path
    model_registry.replace("hf", before)


def invoke(line: str) -> Result:
    _, *arguments = shlex.split(line)
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "100"})


@pytest.mark.parametrize("line", COMMANDS, ids=lambda line: " ".join(line.split()[1:5]))
def test_a_command_of_the_page_runs(line: str, workplace: Path) -> None:
    result = invoke(line)
    assert result.exit_code == 0, result.output
    if " judge " not in line:
        assert "Robo-Dopamine-GRM-3B" in result.output
        return
    run = stepscore.open_run(line.split()[-1])
    assert not any(run.judgements().column("error").to_pylist())
    assert run.calls().num_rows > 0
    known = [value for value in run.curves().column("progress").to_pylist() if value is not None]
    assert known, "answers in the published form are read"
    assert f"Licence of {run.model}: " in result.output


def test_every_published_model_is_listed_with_its_licence(workplace: Path) -> None:
    rows = json.loads(invoke("stepscore ls models --published --json").output)
    assert {row["id"] for row in rows} == {checkpoint.id for _, checkpoint in published_checkpoints()}
    assert all(row["licence"] and row["judge"] and row["citation"] for row in rows)
    refused = invoke("stepscore ls judges --published")
    assert refused.exit_code != 0


def test_a_non_commercial_licence_is_said_again_by_weights(workplace: Path) -> None:
    judged = invoke(next(line for line in COMMANDS if "--judge vlac" in line) + " -J clip=true")
    assert "CC-BY-NC-SA-4.0, which forbids commercial use" in judged.output
    assert stepscore.open_run("runs/vlac").non_commercial == {"hf/InternRobotics/VLAC": "CC-BY-NC-SA-4.0"}
    weighted = invoke("stepscore weights runs/vlac --method filter -o w.parquet")
    assert (
        "the progress is by hf/InternRobotics/VLAC, whose licence CC-BY-NC-SA-4.0 forbids" in weighted.output
    )


def test_procvlm_is_asked_as_published_also_where_there_are_subgoals(workplace: Path) -> None:
    published = stepscore.get_judge("procvlm", model="hf/ce-amtic/ProcVLM-2B")
    assert published.options()["template"] == "published"
    chosen = stepscore.get_judge("procvlm", model="hf/ce-amtic/ProcVLM-2B", template="steps")
    assert chosen.options()["template"] == "steps"
    assert stepscore.get_judge("procvlm", model="mock/x").options()["template"] == "auto"
