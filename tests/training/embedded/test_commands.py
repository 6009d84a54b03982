"""``python -m stepscore.training.embedded``: its commands, and a gate trained, written and evaluated by them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stepscore.errors import OptionError
from stepscore.models.embedded import load_gate
from stepscore.training.embedded.__main__ import app
from stepscore.training.embedded.build import (
    ALIGN_STEPS,
    STEPS,
    TRAINING,
    VALIDATION,
    VISION_PRETRAIN_STEPS,
    training_job,
)
from stepscore.training.embedded.tasks import TRAINED
from stepscore.training.gate.config import GateConfig
from stepscore.training.gate.evaluation import IN_DISTRIBUTION, OUT_OF_DISTRIBUTION, evaluate_checkpoint
from stepscore.training.gate.training import build_gate
from tests.models import tiny
from tests.paths import ROOT, TINY_SIM

QUICK = GateConfig(
    views=("corner",),
    frames_per_episode=2,
    n_ood_augmentations=1,
    val_fraction=0.2,
    components=8,
    hidden_dim=16,
    steps=20,
)


@pytest.mark.parametrize("command", ["build", "gate", "evaluate-gate"])
def test_every_command_has_help(command: str) -> None:
    result = CliRunner().invoke(app, [command, "--help"])
    assert result.exit_code == 0, result.output


def test_the_training_run_of_a_seed(tmp_path: Path) -> None:
    job = training_job(tmp_path, seed=3, threads=1)
    assert job.folder == tmp_path / "seed-3"
    assert [path.name for path in job.datasets] == [rollouts.name for rollouts in TRAINING]
    assert job.eval_datasets == (tmp_path / VALIDATION.name,)
    config = job.train_config()
    assert (config.seed, config.lr) == (3, 1e-3)
    assert config.total_steps == VISION_PRETRAIN_STEPS + ALIGN_STEPS + STEPS


def test_a_gate_is_trained_written_and_evaluated(tmp_path: Path) -> None:
    tokenizer = tiny.tokenizer()
    checkpoint = tiny.save(tmp_path / "judge", tiny.qwen3vl(tokenizer), tokenizer)
    path, gate = build_gate(checkpoint, [TINY_SIM], [TINY_SIM], QUICK)
    assert path.parent == checkpoint
    assert load_gate(path).facts == gate.facts
    rows = evaluate_checkpoint(checkpoint, [TINY_SIM], [("other", str(TINY_SIM))], view="corner")
    assert {row.side for row in rows} == {IN_DISTRIBUTION, OUT_OF_DISTRIBUTION}
    assert all(0 <= row.refused <= row.n for row in rows)


def test_a_source_without_a_name_says_how_to_give_one(tmp_path: Path) -> None:
    arguments = ["evaluate-gate", str(tmp_path), "--in-distribution", str(TINY_SIM)]
    result = CliRunner().invoke(app, [*arguments, "--out-of-distribution", "somewhere"])
    assert isinstance(result.exception, OptionError)
    assert "NAME=SOURCE" in str(result.exception)


def test_the_docs_name_every_trained_task() -> None:
    page = (ROOT / "docs" / "models" / "embedded.md").read_text(encoding="utf-8")
    listed = page.split(", of 25 tasks:")[1].split(". For")[0]
    assert sorted(re.findall(r"`([a-z-]+)`", listed)) == sorted(TRAINED)
