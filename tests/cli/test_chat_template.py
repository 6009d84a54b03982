from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from stepscore.cli.app import app
from stepscore.models.api import template_with_raw_turn
from tests.cli.command_walk import invoke


def test_it_writes_the_models_template_and_prints_the_command_that_serves_it(tmp_path: Path) -> None:
    (tmp_path / "a model").mkdir()
    (tmp_path / "a model" / "chat_template.jinja").write_text("{{ messages }}\n")
    out = tmp_path / "raw.jinja"
    result = CliRunner().invoke(app, ["chat-template", f"hf/{tmp_path / 'a model'}", "-o", str(out)])
    assert result.exit_code == 0
    assert out.read_text() == template_with_raw_turn("{{ messages }}\n")
    assert f"vllm serve '{tmp_path / 'a model'}' --chat-template {out}" in result.stderr


def test_a_model_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    ended = invoke(["chat-template", str(tmp_path / "nothing"), "-o", str(tmp_path / "raw.jinja")])
    assert ended.code == 2
    assert "there is no such folder" in ended.err
    assert not (tmp_path / "raw.jinja").exists()
