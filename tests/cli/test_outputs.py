"""Every command that writes: over its own output as before, and over nothing else unless it is forced."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

import stepscore.analysis
import stepscore.audit.board
import stepscore.audit.tune
import stepscore.curation
import stepscore.procedures
import stepscore.report  # noqa: F401 - all of them before a name is replaced below, which they would keep
from stepscore.cli import outputs
from stepscore.errors import OptionError
from stepscore.models.calls import CallCache
from tests.cli.command_walk import Command, Inputs, commands, invoke, make_inputs

FOREIGN = "a person's own words, not of StepScore (stepscore-data)"
NEVER_FORCED = {"judge", "pairs score", "merge", "sim"}
"""Commands that write what they resume or what is new, and refuse anything else in their own ways."""
A_PERSON_MAY_CHANGE = {"plan", "annotate", "progress-labels"}
"""Their own output is overwritten only when forced, too."""
WRITING = [
    command
    for command in commands()
    if command.name == "cache export"
    or ({each.flag for each in command.parameters} & {"--out"} and command.name != "serve")
]
FORCED = [command for command in WRITING if command.name not in NEVER_FORCED]
FOLDERS = {"demo", "audit", "bench", "tune", "train vlm", "train sarm"}
TABLES = {"annotate", "progress-labels", "rewards", "weights"}
WELL = {"annotate": {1}}  # its model answers nonsense, and a table without rows is written
ONE_FILE_IN = {"report": "index.html", "plot": "leaderboard.svg"}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    return make_inputs(tmp_path_factory.mktemp("inputs"))


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    monkeypatch.setenv("STEPSCORE_CACHE", str(tmp_path / "cache"))


def line_of(command: Command, inputs: Inputs, folder: Path) -> tuple[list[str], Path]:
    """Return a line on which the command works, and what it writes."""
    line = Inputs(inputs.source, inputs.run, folder).line(command.words)
    out = Path(line[line.index("-o") + 1] if "-o" in line else line[len(command.words)])
    if command.name == "plan":
        line[line.index("mock/x")] = 'mock/{"subgoals": [{"name": "a", "criterion": "b", "mode": "ever"}]}'
    return line, out


def put_foreign(command: Command, out: Path) -> Path:
    """Write a person's file at the place that a command would write to; return the file."""
    file = out / "notes.txt" if command.name in FOLDERS else out / ONE_FILE_IN.get(command.name, "")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(FOREIGN)
    return file


def content_of(out: Path) -> Mapping[str, int]:
    files = [out] if out.is_file() else [path for path in out.rglob("*") if path.is_file()]
    return {str(path): path.stat().st_mtime_ns for path in files}


def test_every_command_that_writes_is_tried() -> None:
    assert {command.name for command in WRITING} >= NEVER_FORCED
    assert len(FORCED) >= 15  # each of them is tried below


@pytest.mark.parametrize("command", FORCED, ids=lambda command: command.name)
def test_what_stepscore_did_not_write_is_refused_before_any_work(
    command: Command, inputs: Inputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(*_: object, **__: object) -> None:
        raise AssertionError("work was begun")

    line, out = line_of(command, inputs, tmp_path)
    file = put_foreign(command, out)
    for module, name in (
        ("stepscore.episodes", "open_episodes"),
        ("stepscore.cli.options.sources", "SourceFlags.open"),
        ("stepscore.runs", "open_run"),
        ("stepscore.models", "get_model"),
    ):
        monkeypatch.setattr(f"{module}.{name}", work)
    before = content_of(tmp_path)
    ended = invoke(line)
    assert ended.code == 2, ended.err
    assert "--force" in ended.err
    assert content_of(tmp_path) == before
    assert file.read_text() == FOREIGN


@pytest.mark.parametrize(
    "command",
    [one for one in FORCED if one.words[0] not in ("demo", "train") and one.name != "cache export"],
    ids=lambda command: command.name,
)
def test_what_it_wrote_itself_is_written_again_and_anything_when_forced(
    command: Command, inputs: Inputs, tmp_path: Path
) -> None:
    line, out = line_of(command, inputs, tmp_path)
    file = put_foreign(command, out)
    forced = invoke([*line, "--force"])
    assert forced.code in WELL.get(command.name, {0}), forced.err
    assert (file.read_bytes() == FOREIGN.encode()) is (command.name in FOLDERS)
    again = invoke(line)
    if command.name in A_PERSON_MAY_CHANGE:
        assert again.code == 2
        assert "may hold a person's work" in again.err
    else:
        assert again.code in WELL.get(command.name, {0}), again.err


def test_exported_answers_are_known_again(tmp_path: Path) -> None:
    target, cache = tmp_path / "answers.jsonl", tmp_path / "cache.sqlite"
    kept = CallCache(cache)
    kept.put("k", "mock/x", {"text": "yes"})
    kept.close()
    for _ in range(2):
        assert invoke(["cache", "export", str(target), "--path", str(cache)]).code == 0
    assert target.read_text().startswith('{"key": "k"')


def test_a_demo_leaves_a_persons_page(inputs: Inputs, tmp_path: Path) -> None:
    (tmp_path / "topreward").mkdir()
    (tmp_path / "topreward/run.json").write_text("{}")
    (tmp_path / "report").mkdir()
    page = tmp_path / "report/index.html"
    page.write_text(FOREIGN)
    ended = invoke(["demo", "-o", str(tmp_path)])
    assert ended.code == 2
    assert "index.html exists and is not a report page written by StepScore" in ended.err
    assert page.read_text() == FOREIGN


@pytest.mark.parametrize("command", [one for one in WRITING if one.name in TABLES], ids=lambda one: one.name)
@pytest.mark.parametrize("name", ["out.csv", "out", ".parquet"])
def test_a_table_of_another_name_is_refused_before_any_work(
    command: Command, name: str, inputs: Inputs, tmp_path: Path
) -> None:
    line, _ = line_of(command, inputs, tmp_path)
    line[line.index("-o") + 1] = str(tmp_path / name)
    line[len(command.words)] = "nowhere"  # else the first complaint
    ended = invoke(line)
    assert ended.code == 2
    assert "the table is Parquet. Name the file" in ended.err


@pytest.mark.parametrize("marker", ["training.jsonl", "training.pt"])
def test_a_training_run_is_known_again(marker: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(OptionError):
        outputs.check_output(tmp_path, outputs.CHECKPOINT, force=False)
    (tmp_path / marker).touch()
    outputs.check_output(tmp_path, outputs.CHECKPOINT, force=False)


@pytest.mark.parametrize("page", ["report.html", "none"])
def test_an_audit_learns_of_a_foreign_page_before_anything_is_asked(
    page: str, inputs: Inputs, tmp_path: Path
) -> None:
    (tmp_path / "judge").mkdir()
    (tmp_path / "judge/journal.jsonl").touch()
    (tmp_path / page).write_text("<html>mine</html>")
    line = ["audit", str(inputs.source), "--judge", "constant", "--limit", "1", "-o", str(tmp_path)]
    ended = invoke([*line, "-T", "probes=frozen-first", "-T", "trivial=false"])
    assert ended.code == (2 if page == "report.html" else 0), ended.err
    assert (tmp_path / "judge/run.json").exists() is (page == "none")


def test_an_audit_writes_its_page_before_it_prints(
    inputs: Inputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What reads the output may be head, which leaves after some lines."""

    def leave(*given: object, **options: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("stepscore.cli.trust.audit.print_result", leave)
    line = ["audit", str(inputs.source), "--judge", "constant", "--limit", "1", "-o", str(tmp_path / "a")]
    invoke([*line, "-T", "probes=frozen-first", "-T", "trivial=false"])
    assert (tmp_path / "a/report.html").is_file()


def test_a_stopped_audit_board_or_tuning_is_resumed(tmp_path: Path) -> None:
    for output, file in (
        (outputs.AUDIT, "judge/shards.json"),
        (outputs.AUDIT, "judge/journal.jsonl"),
        (outputs.DEMO, "stepeval/journal.jsonl"),
        (outputs.BOARD, "runs/linear-time/recorded/journal.jsonl"),
        (outputs.TUNING, "trials/points=2/journal.jsonl"),
    ):
        folder = tmp_path / f"{output.what}-{Path(file).name}"
        (folder / file).parent.mkdir(parents=True)
        outputs.check_output(folder, output, force=False)  # folders without files are new
        (folder / "notes.txt").write_text(FOREIGN)
        with pytest.raises(OptionError, match=r"is not empty and is not .* written by StepScore"):
            outputs.check_output(folder, output, force=False)
        (folder / file).touch()
        outputs.check_output(folder, output, force=False)


@pytest.mark.parametrize(
    ("output", "file", "run"),
    [
        (outputs.AUDIT, "audit.json", "judge/run.json"),
        (outputs.BOARD, "board.json", "runs/may/topreward/run.json"),
        (outputs.BOARD, "rows/mine.json", "runs/may/topreward/run.json"),
        (outputs.TUNING, "tuned.json", "trials/one/run.json"),
    ],
)
def test_a_folder_with_runs_is_no_leave_to_replace_a_persons_file(
    output: outputs.Output, file: str, run: str, tmp_path: Path
) -> None:
    for name in (run, file):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / run).write_text("{}")
    outputs.check_output(tmp_path, output, force=False)
    (tmp_path / file).write_text(FOREIGN)
    with pytest.raises(OptionError, match="written by StepScore"):
        outputs.check_output(tmp_path, output, force=False)


def test_a_pipe_or_a_broken_link_is_not_read_and_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("pipe", "link"):
        for output in (outputs.MAP, outputs.PAIRS, outputs.TEMPLATE, outputs.WEIGHTS, outputs.FIGURE):
            with pytest.raises(OptionError, match="--force"):
                outputs.check_output(tmp_path / name, output, force=False)
    assert (tmp_path / "link").is_symlink()
