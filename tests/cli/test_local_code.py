"""Judges, readers and metrics in a file of the user's own: ``--judge mine.py:Brightness``."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stepscore
from stepscore.cli.main import run
from stepscore.errors import StepScoreError
from stepscore.judges import judge_registry
from stepscore.metrics import metric_registry
from stepscore.runs import open_run
from tests.paths import ROOT


def example(heading: str) -> str:
    """The lines of docs/reference/extending.md under a heading, without the decorator that registers them."""
    text = (ROOT / "docs/reference/extending.md").read_text(encoding="utf-8").partition(f"## {heading}\n")[2]
    code = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert code is not None
    return re.sub(r"@\w+_registry\.register.*\n", "", code.group(1))


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    file = tmp_path / "mine.py"
    file.write_text(example("A judge"), encoding="utf-8")
    return file


def judge(source: Path, name: object, out: Path, *more: object) -> int:
    return run(["judge", str(source), "--judge", str(name), "--limit", "2", "-o", str(out), *map(str, more)])


def refusal(capfd: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert judge(*arguments) == 2  # type: ignore[arg-type]
    said = capfd.readouterr().err
    assert len(said.strip().splitlines()) == 1
    return said


def test_a_judge_in_a_file_judges_with_its_options_and_its_digest_is_in_the_protocol(
    toys: Path, mine: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert judge(toys, f"{mine}:Brightness", out, "-J", "frames=3") == 0
    made = open_run(out)
    assert made.judge == "brightness"
    assert made.curves().num_rows == 2 * 3
    stated = made.protocol.content["judge"]
    assert stated["code"] == {  # type: ignore[index]
        "file": "mine.py",
        "class": "Brightness",
        "sha256": hashlib.sha256(mine.read_bytes()).hexdigest(),
    }
    assert str(tmp_path) not in made.protocol.text
    mine.write_text(mine.read_text() + "\n# another version\n")
    assert judge(toys, f"{mine}:Brightness", out, "-J", "frames=3") == 2
    assert "judge.code.sha256 is" in capfd.readouterr().err


def test_a_reader_in_a_file_reads_and_is_in_the_protocol(toys: Path, tmp_path: Path) -> None:
    file, out = tmp_path / "mine.py", tmp_path / "run"
    file.write_text(example("A reader"), encoding="utf-8")
    source = tmp_path / "source"
    source.mkdir()
    (source / "task.txt").write_text("push the block")
    (source / "a.mp4").write_bytes(next(toys.rglob("*.mp4")).read_bytes())
    assert judge(source, "linear-time", out, "--reader", f"{file}:OneTask") == 0
    made = open_run(out)
    assert made.info["reader"] == "mine.py:OneTask"
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert made.protocol.content["reader"] == {
        "code": {"file": "mine.py", "class": "OneTask", "sha256": digest}
    }


def test_the_protocol_of_other_judges_and_readers_knows_nothing_of_it(toys: Path, tmp_path: Path) -> None:
    made = stepscore.score(
        stepscore.open_episodes(toys, limit=1), stepscore.get_judge("linear-time"), tmp_path / "run"
    )
    assert set(made.protocol.content) == {"judge", "model", "views"}
    assert "code" not in made.protocol.content["judge"]  # type: ignore[operator]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("no.py:A", None, "cannot read"),
        ("a.py", "", r"name the class in it, too: --judge .*a\.py:CLASS"),
        ("a.py:Brihtness", "class Brightness: ...", "Did you mean 'Brightness'?"),
        ("a.py:A", "class A:\n    name = 'a'", "A has no version, models, options, judge"),
        ("a.py:A", "x = 1\ny = 1 / 0", "ZeroDivisionError in line 2"),
        ("a.py:A", "def", "SyntaxError in line 1"),
        ("a.py:A", "from numpy import ndarray as A", "Unknown class 'A'"),
    ],
)
def test_a_file_that_is_no_judge_is_refused_in_one_line(
    toys: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    name: str,
    content: str | None,
    message: str,
) -> None:
    if content is not None:
        (tmp_path / "a.py").write_text(content)
    said = refusal(capfd, toys, tmp_path / name, tmp_path / "run")
    assert re.search(message.replace("?", r"\?"), said)
    assert not (tmp_path / "run").exists()


def test_a_file_named_without_its_folder_is_refused_with_the_line_and_one_full_stop(
    toys: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.py").write_text("x = 1\nraise ValueError('no good.')")
    assert refusal(capfd, toys, "a.py:A", tmp_path / "run").endswith("ValueError in line 2: no good.\n")


def test_no_file_is_run_because_anything_but_the_command_line_names_it(toys: Path, tmp_path: Path) -> None:
    file, ran = tmp_path / "evil.py", tmp_path / "ran"
    file.write_text(f"open({str(ran)!r}, 'w')\nclass Evil: ...\n")
    name = f"{file}:Evil"
    for call in (
        lambda: stepscore.get_judge(name),
        lambda: stepscore.open_episodes(toys, reader=name),
        lambda: stepscore.get_judge("cascade", first=name, second="linear-time"),
    ):
        with pytest.raises(StepScoreError, match="Unknown"):
            call()
    out = tmp_path / "run"
    stepscore.score(stepscore.open_episodes(toys, limit=1), stepscore.get_judge("linear-time"), out)
    info = json.loads((out / "run.json").read_text())
    info["reader"] = name
    (out / "run.json").write_text(json.dumps(info))
    assert run(["report", str(out), "-o", str(tmp_path / "page")]) in (0, 1)
    assert not ran.exists()
    assert name not in judge_registry.names()


def test_an_option_of_the_wrong_type_is_refused_before_anything_is_judged(
    mine: Path, toys: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    said = refusal(capfd, toys, f"{mine}:Brightness", tmp_path / "run", "-J", "frames=four")
    assert "-J frames must be an integer, got four" in said
    assert not (tmp_path / "run").exists()


def test_a_judge_that_fails_everywhere_says_so_once_with_its_line(
    mine: Path, toys: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lines = mine.read_text(encoding="utf-8").splitlines()
    at = next(number for number, line in enumerate(lines) if line.strip().startswith("clip = "))
    lines[at] = "        raise KeyError('gone')"
    mine.write_text("\n".join(lines), encoding="utf-8")
    assert judge(toys, f"{mine}:Brightness", tmp_path / "run") == 1
    said = capfd.readouterr().err
    assert f"and 1 more: KeyError: 'gone' (mine.py, line {at + 1})" in said
    assert said.count("KeyError") == 1
    assert "stepscore metrics" not in said
    assert "fix the cause, then rerun this command" in said


@pytest.fixture
def metric_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(metric_registry, "_targets", dict(metric_registry._targets))
    file = tmp_path / "metrics.py"
    file.write_text(
        example("A metric").replace('metric_registry.register("half")(late)', ""), encoding="utf-8"
    )
    return file


def test_the_metric_of_the_docs_is_unknown_where_half_is_never_reached(metric_file: Path) -> None:
    names: dict[str, Any] = {}
    exec(metric_file.read_text(encoding="utf-8"), names)
    half_at = names["half_at"]
    times = np.arange(5.0)
    assert half_at(times, np.array([0, 0.2, 0.6, 0.7, 1.0])) == {"half_at": 0.5}
    assert np.isnan(half_at(times, np.array([0, 0.1, 0.2, 0.3, 0.4]))["half_at"])
    assert np.isnan(half_at(times, np.full(5, np.nan))["half_at"])
    assert np.isnan(half_at(np.zeros(1), np.ones(1))["half_at"])


def test_a_metric_in_a_file_is_in_the_tables_of_metrics_and_compare_and_on_the_page(
    toy_run: Path, metric_file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    added = ["--metric", f"{metric_file}:late"]
    for command in ("metrics", "compare"):
        assert run([command, str(toy_run), *added]) == 0
        assert "half_at ↓" in capfd.readouterr().out
    assert run(["metrics", str(toy_run), *added, "--json"]) == 0
    rows = [row for row in json.loads(capfd.readouterr().out) if row["metric"] == "half_at"]
    assert len(rows) == 3
    assert all(row["lo"] <= row["value"] <= row["hi"] for row in rows)
    page = tmp_path / "page"
    assert run(["report", str(toy_run), *added, "--no-videos", "-o", str(page)]) == 0
    assert '"half_at"' in (page / "index.html").read_text(encoding="utf-8")


def test_a_metric_that_its_file_registers_is_measured_once(
    toy_run: Path, metric_file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    metric_file.write_text(example("A metric"), encoding="utf-8")
    added = ["--metric", f"{metric_file}:late"]
    assert run(["metrics", str(toy_run), *added, *added, "--json"]) == 0
    assert sum(row["metric"] == "half_at" for row in json.loads(capfd.readouterr().out)) == 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("half", "--metric must be FILE.py:NAME, got 'half'"),
        ("{}", "name the metric in it, too"),
        ("{}:lat", "Did you mean 'late'?"),
        ("{}:half_at", "Unknown metric 'half_at'"),
    ],
)
def test_a_metric_that_the_file_does_not_have_is_refused_in_one_line(
    toy_run: Path, metric_file: Path, capfd: pytest.CaptureFixture[str], given: str, message: str
) -> None:
    assert run(["metrics", str(toy_run), "--metric", given.format(metric_file)]) == 2
    said = capfd.readouterr().err
    assert len(said.strip().splitlines()) == 1
    assert message in said


def test_a_metric_that_fails_is_one_line_with_its_own(
    toy_run: Path, metric_file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code = metric_file.read_text(encoding="utf-8")
    line = code.splitlines().index("    reached = np.flatnonzero(progress >= 0.5)") + 1
    metric_file.write_text(code.replace("progress >= 0.5", "progress >= limit"), encoding="utf-8")
    assert run(["metrics", str(toy_run), "--metric", f"{metric_file}:late"]) == 2
    said = capfd.readouterr().err.strip().splitlines()
    assert f"raised NameError: name 'limit' is not defined (metrics.py, line {line})" in said[-1]
    assert "bug" not in said[-1]
    assert run(["--traceback", "metrics", str(toy_run), "--metric", f"{metric_file}:late"]) == 2
    assert "in half_at" in capfd.readouterr().err
