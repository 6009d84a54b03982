"""The commands that the docs show work, page by page."""

from __future__ import annotations

import json
import re
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

import stepscore
from stepscore.testing import write_toy_rollouts
from tests.cli.command_walk import invoke
from tests.docs.shown_commands import PAGES, plain, run_elsewhere, shown_commands, with_stand_ins
from tests.paths import ROOT, TINY_SIM

COMMANDS = shown_commands()
PLAN = {"success": "holds", "subgoals": [{"name": "there", "criterion": "it is there", "mode": "holds"}]}


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
    dataset = stepscore.open_episodes(TINY_SIM, labels=TINY_SIM / "labels.parquet")
    shutil.rmtree(folder / "runs/judged")
    stepscore.score(dataset, stepscore.get_judge("random-monotone"), out=folder / "runs/judged")
    table = stepscore.open_run(folder / "runs/a").to_pandas("curves")
    table.to_csv(folder / "curves.csv", index=False)
    table.to_parquet(folder / "curves.parquet")
    return folder


def make_missing(words: list[str]) -> None:
    """Run the command of another page that writes an audit or a board which these words read."""
    written = [after for word, after in pairwise(words) if word == "-o"]
    for name in ("AUDIT", "BOARD"):
        if name in {word.partition("/")[0] for word in words} - set(written) and not Path(name).exists():
            maker = next(command for command in COMMANDS if ["-o", name] == list(command.words[-2:]))
            ended = invoke(with_stand_ins(plain(maker.words)))
            assert not ended.code, ended.err


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
        make_missing(words)
        given = with_stand_ins([{"DEPTH": "1", "TEXT": "go"}.get(word, word) for word in words])
        if "mock/x" in given and given[0] == "plan":
            given[given.index("mock/x")] = f"mock/{json.dumps(PLAN)}"
        if given[0] == "judge" and "-o" in given:
            given[given.index("-o") + 1] = f"judged/{page.replace('/', '-')}-{number}"
        ended = invoke(given)
        if ended.code:
            failed.append(f"{shown} ended with {ended.code}: stepscore {' '.join(given)}\n{ended.err}")
    assert not failed, "\n".join(failed)
