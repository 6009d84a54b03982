"""Every command that the docs show is one, and works."""

from __future__ import annotations

import importlib.util
import inspect
import json
import re
import shutil
from pathlib import Path

import pytest
from typer.main import get_command

import stepscore
from stepscore.cli.app import app
from stepscore.models import model_registry
from stepscore.testing import write_toy_rollouts
from tests.cli.command_walk import invoke
from tests.docs.shown_commands import (
    ELSEWHERE,
    PAGES,
    Shown,
    plain,
    run_elsewhere,
    shown_commands,
    shown_lines,
    with_stand_ins,
)
from tests.paths import ROOT

COMMANDS = shown_commands()
OURS = ("stepscore", "benchmarks", "examples", "tests", "tools")
PLAN = {"success": "holds", "subgoals": [{"name": "there", "criterion": "it is there", "mode": "holds"}]}


def parse(words: list[str]) -> None:
    """Let the command line read a command, without running it."""
    command = get_command(app)
    while inner := getattr(command, "commands", None):
        command, words = inner[words[0]], words[1:]
    command.make_context(command.name, list(words), resilient_parsing=False)


def test_the_docs_show_many_commands() -> None:
    assert len(COMMANDS) > 120
    assert {command.words[0] for command in COMMANDS} >= {
        "judge",
        "metrics",
        "compare",
        "report",
        "plot",
        "export",
    }


@pytest.mark.parametrize("shown", COMMANDS, ids=str)
def test_a_command_of_the_docs_is_read_by_the_command_line(shown: Shown) -> None:
    words = [{"DEPTH": "1", "N": "1"}.get(word, word) for word in plain(shown.words)]
    parse(words)
    given = [words[i + 1] for i, word in enumerate(words) if word == "-M"]
    if given:
        backend = words[words.index("--model") + 1].partition("/")[0]
        options = inspect.signature(model_registry.get(backend)).parameters
        assert all(pair.partition("=")[0] in options for pair in given), (
            f"{backend}/ has no such option: {given}"
        )


def test_a_wrong_command_is_not_read() -> None:
    for line in ("metrics runs/a --by-policy x", "judge", "nothing at all"):
        with pytest.raises(BaseException):  # noqa: B017, PT011 - typer's own kinds
            parse(line.split())


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the docs take for granted: recordings, labels, subgoals, runs and a goal."""
    folder = tmp_path_factory.mktemp("docs")
    write_toy_rollouts(folder / "rollouts", scenes=2)
    shutil.copytree(folder / "rollouts", folder / "videos")
    (folder / "videos" / "manifest.jsonl").unlink()
    (folder / "demonstrations").symlink_to(folder / "rollouts")
    episodes = stepscore.open_episodes(folder / "rollouts")
    rows = [f"{episode.id},success,,,,{number % 2}" for number, episode in enumerate(episodes)]
    rows += [f"{episode.id},progress,,{t},,{t / 9}" for episode in episodes for t in (0.1, 0.5, 0.9)]
    (folder / "labels.csv").write_text("\n".join(["episode_id,kind,name,start_s,end_s,value", *rows]) + "\n")
    tasks = sorted({episode.task or episode.instruction for episode in episodes})
    subgoals = json.dumps({"tasks": dict.fromkeys(tasks, PLAN)})
    for name in ("subgoals.yaml", "s.yaml"):
        (folder / name).write_text(subgoals)
    with_goals = stepscore.open_episodes(folder / "rollouts", subgoals=folder / "subgoals.yaml")
    recorded, clock = stepscore.get_judge("recorded"), stepscore.get_judge("linear-time")
    judged = {"a": recorded, "b": clock, "clock": clock, "gvl": clock, "stepeval": clock}
    for name in {
        word for command in COMMANDS for word in command.words if re.fullmatch(r"(runs|demo)/\w+", word)
    }:
        judge = judged.get(name.partition("/")[2], recorded)
        stepscore.score(with_goals, judge, out=folder / name)
    stepscore.score(with_goals, recorded, out=folder / "runs/x")
    table = stepscore.open_run(folder / "runs/a").to_pandas("curves")
    table.to_csv(folder / "curves.csv", index=False)
    table.to_parquet(folder / "curves.parquet")
    return folder


@pytest.mark.parametrize("page", [page.relative_to(ROOT).as_posix() for page in PAGES])
def test_the_commands_of_a_page_work(page: str, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("matplotlib")
    pytest.importorskip("rerun")
    monkeypatch.chdir(workspace)
    failed = []
    for number, shown in enumerate(command for command in COMMANDS if command.page == page):
        words = plain(shown.words)
        if run_elsewhere(words) or words[0:2] == ["inspect", "user/name"]:
            continue
        given = with_stand_ins([{"DEPTH": "1", "TEXT": "go"}.get(word, word) for word in words])
        if "mock/x" in given and given[0] == "plan":
            given[given.index("mock/x")] = f"mock/{json.dumps(PLAN)}"
        if given[0] == "judge":
            given[given.index("-o") + 1] = f"judged/{page.replace('/', '-')}-{number}"
        ended = invoke(given)
        if ended.code:
            failed.append(f"{shown} ended with {ended.code}: stepscore {' '.join(given)}\n{ended.err}")
    assert not failed, "\n".join(failed)


def test_what_is_run_elsewhere_is_shown_and_has_its_tests() -> None:
    used = {run_elsewhere(plain(command.words)) for command in COMMANDS}
    assert used - {None} == set(ELSEWHERE.values())
    assert all((ROOT / tests).exists() for tests in ELSEWHERE.values())


def test_modules_and_targets_that_the_docs_call_are_there() -> None:
    targets = re.search(r"\.PHONY: (.*)", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert targets is not None
    called = 0
    for page in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        for number, line in shown_lines(page):
            words = line.split()
            if words[:2] == ["python", "-m"] and words[2].partition(".")[0] in OURS:
                assert importlib.util.find_spec(words[2]) is not None, f"{page}:{number}: {line}"
                called += 1
            elif words[:1] == ["make"]:
                assert words[1] in targets[1].split(), f"{page}:{number}: {line}"
                called += 1
    assert called > 15
