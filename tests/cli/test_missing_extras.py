"""A command that needs an extra says so before it starts: one line, exit code 2, nothing written."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from stepscore._imports import EXTRAS
from stepscore.cli.main import run
from tests.episodes.layout import lay


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch):
    """Make the modules of an extra look as if they were not installed."""

    def remove(extra: str) -> None:
        for module in EXTRAS[extra]:
            monkeypatch.setitem(sys.modules, module, None)

    return remove


def refused(capfd: pytest.CaptureFixture[str], extra: str, *arguments: object) -> str:
    """Run a command that must be refused for want of an extra; return its line."""
    assert run([str(argument) for argument in arguments]) == 2
    said = capfd.readouterr().err
    assert said.startswith("Error: "), said
    assert len(said.strip().splitlines()) == 1
    assert f"pip install 'stepscore[{extra}]'" in said
    return said


def test_judging_with_a_local_model_stops_before_the_source_is_read(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], without
) -> None:
    without("local")
    (tmp_path / "checkpoint").mkdir()
    model = f"hf/{tmp_path / 'checkpoint'}"
    missing, out = tmp_path / "no-such-source", tmp_path / "run"
    said = refused(capfd, "local", "judge", missing, "--judge", "topreward", "--model", model, "-o", out)
    assert f"The model {model} needs" in said
    assert "CPU build of torch" in said
    assert not out.exists()


def test_a_plan_by_a_local_model_is_not_begun(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], without
) -> None:
    without("local")
    (tmp_path / "config.json").write_text('{"model_type": "qwen3_vl"}')
    refused(
        capfd, "local", "plan", "open the drawer", "--model", f"hf/{tmp_path}", "-o", tmp_path / "plan.yaml"
    )
    assert not (tmp_path / "plan.yaml").exists()


def test_figures_are_refused_before_a_run_is_read(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], without
) -> None:
    without("plot")
    refused(capfd, "plot", "plot", tmp_path / "no-run", "-o", tmp_path / "figures")
    weights = ("weights", tmp_path / "no-run", "--method", "filter", "-o", tmp_path / "w.parquet")
    refused(capfd, "plot", *weights, "--plot", tmp_path / "w.svg")
    assert not list(tmp_path.iterdir())


def test_an_export_is_refused_before_a_run_is_read(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], without
) -> None:
    without("rerun")
    refused(capfd, "rerun", "export", tmp_path / "no-run", "--to", "rerun", "-o", tmp_path / "a.rrd")
    assert not list(tmp_path.iterdir())


def test_hdf5_files_are_refused_as_a_source(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], without
) -> None:
    without("hdf5")
    lay(tmp_path, "a/demo.hdf5", "b/demo.hdf5")
    refused(capfd, "hdf5", "judge", tmp_path, "--judge", "linear-time", "-o", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_simulation_and_a_training_make_no_folder(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], without
) -> None:
    without("sim")
    without("local")
    refused(capfd, "sim", "sim", "-o", tmp_path / "dataset")
    refused(capfd, "local", "train", "vlm", tmp_path, "-o", tmp_path / "new")
    lora = ("-T", "base=hf/x", "-T", "lora-rank=16")
    refused(capfd, "train", "train", "vlm", tmp_path, "-o", tmp_path / "new", *lora)
    assert not list(tmp_path.iterdir())
