"""``--config FILE``: options from a file that may be anyone's, and a run repeated from its ``run.json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stepscore.cli.main import run
from stepscore.runs import open_run
from tests.cli.command_walk import invoke


@pytest.fixture
def config(tmp_path: Path, toys: Path) -> Path:
    file = tmp_path / "options.yaml"
    file.write_text(f"source: {toys}\njudge: linear-time\nJ: {{points: 8}}\nlimit: 2\nE: {{workers: 1}}\n")
    return file


def written(tmp_path: Path, text: str) -> str:
    file = tmp_path / "other.yaml"
    file.write_text(text)
    return str(file)


def options(run_folder: Path) -> dict[str, Any]:
    stored = json.loads((run_folder / "run.json").read_text())["command"]
    assert stored["name"] == "judge"
    found: dict[str, Any] = stored["options"]
    return found


def test_a_file_gives_a_command_its_options(config: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert run(["judge", "--config", str(config), "-o", str(out)]) == 0
    made = open_run(out)
    assert made.curves().num_rows == 2 * 8
    assert options(out) == {
        "source": json.loads(json.dumps(str(options(out)["source"]))),
        "judge": "linear-time",
        "J": {"points": "8"},
        "limit": 2,
        "E": {"workers": "1"},
    }


def test_the_command_line_overrides_the_file_key_by_key(config: Path, tmp_path: Path) -> None:
    config.write_text(config.read_text().replace("{points: 8}", "{points: 8, extra: 1}"))
    out = tmp_path / "run"
    ended = invoke(["judge", "--config", str(config), "-o", str(out), "-J", "points=4"])
    assert "'extra'" in ended.err, "the other keys of the file are still there"
    words = ["judge", "-J", "points=4", f"--config={config}", "--limit", "3", "-o", str(out)]
    config.write_text(config.read_text().replace(", extra: 1", ""))
    assert run(words) == 0
    assert open_run(out).curves().num_rows == 3 * 4


def test_another_judge_drops_the_options_of_the_file_s_judge(config: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    config.write_text(config.read_text().replace("{points: 8}", "{no_such: 8}"))
    assert run(["judge", "--config", str(config), "--judge", "constant", "-o", str(out)]) == 0
    assert options(out)["judge"] == "constant"
    assert "J" not in options(out)


def test_a_run_is_repeated_from_its_run_json(config: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    assert run(["judge", "--config", str(config), "-o", str(first)]) == 0
    assert run(["judge", "--config", str(first / "run.json"), "-o", str(second)]) == 0
    assert open_run(first).curves().equals(open_run(second).curves())
    assert options(first) == options(second)
    ended = invoke(["audit", "--config", str(first / "run.json"), "-o", str(tmp_path / "c")])
    assert (ended.code, "keeps the options of stepscore judge, not of stepscore audit" in ended.err) == (
        2,
        True,
    )


def test_the_output_is_named_on_the_command_line(config: Path, tmp_path: Path) -> None:
    ended = invoke(["judge", "--config", str(config)])
    assert (ended.code, "--out" in ended.err) == (2, True)
    config.write_text(config.read_text() + f"out: {tmp_path / 'run'}\n")
    ended = invoke(["judge", "--config", str(config), "-o", str(tmp_path / "x")])
    assert ended.code == 0, "what the command line states is not read from the file"
    ended = invoke(["judge", "--config", str(config)])
    assert (ended.code, "out counts only on the command line: --out" in ended.err) == (2, True)
    assert not (tmp_path / "run").exists()


OURS = "source: rollouts\njudge: gvl\nmodel: openai-api/x\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (OURS + "M: {base-url: 'http://localhost:9'}\n", "-M base-url counts only on the command line"),
        (OURS + "M: {base_url: x}\n", "base_url counts only"),
        (OURS + "M: {api_key: x}\n", "api_key counts only"),
        (OURS + "M: {headers: x}\n", "headers counts only"),
        (OURS + "M: {note: 'https://elsewhere'}\n", "note counts only"),
        (
            "source: s\njudge: gvl\nmodel: hf/x\nM: {trust_remote_code: true}\n",
            "trust_remote_code counts only",
        ),
        (OURS + "E: {ray-address: 'elsewhere:6379'}\n", "ray-address counts only"),
        ("source: s\njudge: 'mine.py:Mine'\n", "code to run"),
        (OURS + "reader: 'mine.py:Mine'\n", "code to run"),
        (OURS + "J: {first: 'mine.py:Mine'}\n", "code to run"),
        (OURS + "force: true\n", "Unknown option"),
        (OURS + "out: there\n", "out counts only on the command line"),
        (OURS + "limt: 3\n", "Did you mean 'limit'? Valid: E, J, M, dry-run"),
        (OURS + "config: x.yaml\n", "Unknown option"),
        (OURS + "limit: {a: 1}\n", "limit must be a text, a number"),
        (OURS + "limit: two\n", "'two' is not an integer"),
        (OURS + "limit: 0\n", "--limit"),
        (OURS + "dry-run: 1\n", "dry-run must be true or false, got 1"),
        (OURS + "E: 4\n", "E must be a mapping of keys to values"),
        (OURS + "E: {worker: 4}\n", "Did you mean 'workers'"),
        ("- judge\n", "must be a mapping of options"),
        ("", "must be a mapping of options"),
        ("judge: !!python/object/apply:os.system [ls]\n", "other.yaml"),
        ("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n", "Unknown option"),
        ("x" * (1 << 21), "more than 1048576 bytes"),
    ],
)
def test_a_file_cannot_send_a_key_elsewhere_or_run_code_and_says_what_is_wrong(
    text: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("raise SystemExit('it ran')")
    words = ["judge", "--config", written(tmp_path, text)]
    ended = invoke(words if text.endswith("out: there\n") else [*words, "-o", "run"])
    assert ended.code == 2
    assert says in ended.err
    assert len(ended.err.splitlines()) == 1
    assert "it ran" not in ended.err
    assert not (tmp_path / "run").exists()


def test_other_commands_are_as_careful(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("raise SystemExit('it ran')")
    for words, text in (
        (["bench", "x", "-o", "b"], "models: ['vllm/x:base_url=http://elsewhere']\njudges: [gvl]\n"),
        (["bench", "x", "-o", "b"], "E: {base-url: 'http://elsewhere'}\n"),
        (["bench", "x", "-o", "b"], "entries: entries.yaml\n"),
        (["metrics", "x"], "metric: ['mine.py:late']\n"),
        (["weights", "x", "-o", "w.parquet"], "plot: figure.svg\n"),
    ):
        ended = invoke([*words, "--config", written(tmp_path, text)])
        assert (ended.code, "command line" in ended.err) == (2, True), (words, ended.err)


def test_secrets_are_not_kept(toys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import typer

    from stepscore.cli import config
    from stepscore.cli.app import app

    whole: Any = typer.main.get_command(app)
    command = whole.commands["judge"]
    given = ["-M", "api_key=hidden", "-M", "base-url=http://me:hidden@host/v1", "-M", "frames=3"]
    context = command.make_context("stepscore judge", [str(toys), "--judge", "gvl", "-o", "r", *given])
    kept = config.options_of(context)["options"]
    assert kept["M"] == {"base-url": "http://host/v1", "frames": "3"}
    assert "out" not in kept
    assert "hidden" not in json.dumps(kept)


def test_a_run_made_from_python_says_that_it_keeps_no_options(toy_run: Path, tmp_path: Path) -> None:
    ended = invoke(["judge", "--config", str(toy_run / "run.json"), "-o", str(tmp_path / "r")])
    assert ended.code == 2
    assert "keeps no options: the run was not made by a command" in ended.err
