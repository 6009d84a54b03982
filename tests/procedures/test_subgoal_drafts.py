from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stepscore.cli.app import app
from stepscore.episodes import open_episodes
from stepscore.episodes.labels.subgoals import read_subgoals
from stepscore.errors import BudgetError, CapabilityError, ModelError
from stepscore.models import Capabilities, Generate
from stepscore.models.mock import MockModel
from stepscore.procedures import plan_subgoals, plan_tasks, write_subgoals
from stepscore.procedures.subgoal_drafts import parse_plan
from stepscore.runs import CallOptions
from stepscore.testing import write_toy_rollouts
from tests.fakes import episode

PLAN = {
    "success": "holds",
    "subgoals": [
        {"name": "grasp the handle", "criterion": "the fingers close around the handle", "mode": "ever"},
        {"name": "the drawer is open", "criterion": "the inside of the drawer is seen", "mode": "holds"},
    ],
}
OFF = CallOptions(cache=False)


def test_a_draft_is_ordered_unreviewed_and_read_back(tmp_path: Path) -> None:
    model = MockModel(script=lambda request: "```json\n" + json.dumps(PLAN) + "\n```")
    draft = plan_subgoals("open the drawer", model, tmp_path, call_options=OFF)
    write_subgoals(draft, tmp_path / "subgoals.yaml")
    read = read_subgoals(tmp_path / "subgoals.yaml")["open the drawer"]
    assert [s.name for s in read.subgoals] == ["grasp the handle", "the drawer is open"]
    assert [s.mode for s in read.subgoals] == ["ever", "holds"]
    assert not any(s.reviewed for s in read.subgoals)
    assert read.success == "holds"


def test_a_draft_is_held_to_its_json_where_the_model_supports_it(tmp_path: Path) -> None:
    def asked(*, able: bool, structured: bool | None) -> Generate:
        model = MockModel(structured=able, script=lambda request: json.dumps(PLAN))
        plan_subgoals("open it", model, tmp_path, call_options=OFF, structured=structured)
        (request,) = model.requests
        assert isinstance(request, Generate)
        return request

    held, off, free = (asked(able=a, structured=s) for a, s in ((True, None), (True, False), (False, None)))
    assert held.schema is not None
    assert re.fullmatch(held.schema.written().regex(), json.dumps(PLAN))
    assert replace(held, schema=None) == off == free
    with pytest.raises(CapabilityError, match="structured=true"):
        asked(able=False, structured=True)


def test_a_video_is_shown_in_a_few_frames(tmp_path: Path) -> None:
    model = MockModel(script=lambda request: json.dumps(PLAN))
    plan_subgoals("open the drawer", model, tmp_path, episode=episode(), call_options=OFF)
    parts = model.requests[0].prompt.turns[0].parts
    assert sum(not isinstance(part, str) for part in parts) == 8


def test_a_model_without_image_input_is_refused(tmp_path: Path) -> None:
    class Blind(MockModel):
        @property
        def capabilities(self) -> Capabilities:
            return Capabilities(images=False)

    with pytest.raises(CapabilityError, match="does not accept images"):
        plan_subgoals("open", Blind(), tmp_path, episode=episode(), call_options=OFF)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I cannot help with that.",
        "{}",
        '{"subgoals": []}',
        '{"subgoals": [{"name": "x"}]}',
        '{"subgoals": [{"name": "x", "criterion": "y", "mode": "sometimes"}]}',
        '{"subgoals": "grasp"}',
        "{" * 50,
        '{"subgoals": [{"name": "", "criterion": "y", "mode": "ever"}]}',
    ],
)
def test_an_answer_without_a_plan_is_an_error_not_a_guess(text: str) -> None:
    with pytest.raises(ModelError, match="states no plan"):
        parse_plan(text)


def test_the_command_does_not_write_over_a_persons_work(tmp_path: Path) -> None:
    out = tmp_path / "subgoals.yaml"
    out.write_text("tasks: {}\n")
    result = CliRunner().invoke(app, ["plan", "open the drawer", "--model", "mock/x", "-o", str(out)])
    assert result.exit_code != 0
    assert out.read_text() == "tasks: {}\n"


def test_an_answer_that_cannot_be_used_is_asked_for_again_and_a_good_one_is_not(tmp_path: Path) -> None:
    answers = iter(["I cannot help with that.", json.dumps(PLAN)])
    model = MockModel(script=lambda request: next(answers))
    cached = CallOptions(cache_path=tmp_path / "cache.sqlite")
    with pytest.raises(ModelError, match="states no plan"):
        plan_subgoals("open the drawer", model, tmp_path, call_options=cached)
    first = plan_subgoals("open the drawer", model, tmp_path, call_options=cached)
    assert plan_subgoals("open the drawer", model, tmp_path, call_options=cached) == first
    assert len(model.requests) == 2


def test_all_tasks_of_a_source_are_drafted_into_one_file_that_fits_its_episodes(tmp_path: Path) -> None:
    instructions = ["open the drawer", "close it", "open the drawer", "dance"]
    episodes = [episode(f"e{n}", instruction=text) for n, text in enumerate(instructions)]

    def answer(request: Generate) -> str:
        asked = str(request.prompt.turns[0].parts[-1])
        return "no" if "dance" in asked else json.dumps(PLAN)

    model = MockModel(script=answer)  # type: ignore[arg-type]
    drafts, failures = plan_tasks(episodes, model, tmp_path, call_options=OFF)
    assert [draft.task for draft in drafts] == ["open the drawer", "close it"]
    assert list(failures) == ["dance"]
    assert len(model.requests) == 3
    assert all(len(request.prompt.turns[0].parts) > 8 for request in model.requests)
    write_subgoals(drafts, tmp_path / "subgoals.yaml")
    assert list(read_subgoals(tmp_path / "subgoals.yaml")) == ["open the drawer", "close it"]


def test_the_command_drafts_a_source_and_its_file_is_taken_by_the_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = write_toy_rollouts(tmp_path / "toys", scenes=1), tmp_path / "subgoals.yaml"
    monkeypatch.setenv("STEPSCORE_CACHE", str(tmp_path / "cache"))
    model = ["--model", f"mock/{json.dumps(PLAN)}", "-E", "cache=false"]
    result = CliRunner().invoke(app, ["plan", str(source), *model, "-o", str(out)])
    assert result.exit_code == 0, result.output
    tasks = {episode.instruction for episode in open_episodes(source)}
    assert set(read_subgoals(out)) == tasks
    assert all(len(episode.subgoals) == 2 for episode in open_episodes(source, subgoals=out))
    assert not (tmp_path / "cache").exists()
    result = CliRunner().invoke(app, ["plan", str(source), *model, "--video", "x", "-o", str(out), "--force"])
    assert "--video goes with an instruction" in str(result.exception)


def test_the_budget_of_a_source_is_kept_and_what_was_drafted_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = write_toy_rollouts(tmp_path / "toys", scenes=1), tmp_path / "subgoals.yaml"
    monkeypatch.setenv("STEPSCORE_CACHE", str(tmp_path / "cache"))
    command = ["plan", str(source), "--model", f"mock/{json.dumps(PLAN)}", "-o", str(out)]
    result = CliRunner().invoke(app, [*command, "--max-calls", "2"])
    assert result.exit_code == 1
    assert len(read_subgoals(out)) == 2
    assert "The budget of 2 calls is spent" in result.output
    prices = ["-E", "price-in=1", "-E", "price-out=1"]
    result = CliRunner().invoke(app, [*command, "-E", "cache=false", "--force", "--max-cost", "0", *prices])
    assert isinstance(result.exception, BudgetError)
    assert len(read_subgoals(out)) == 2  # nothing was drafted, and nothing is replaced
    result = CliRunner().invoke(app, [*command, "--force", "--max-calls", "1"])
    assert result.exit_code == 0, "the two others are in the cache"
    assert len(read_subgoals(out)) == 3
