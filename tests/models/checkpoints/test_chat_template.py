from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stepscore.errors import ModelError
from stepscore.models.checkpoints.chat_template import CHATML, chat_template_of


def folder(path: Path, **files: Any) -> str:
    path.mkdir(exist_ok=True)
    for name, content in files.items():
        stem, _, suffix = name.rpartition("_")
        text = content if isinstance(content, str) else json.dumps(content)
        (path / f"{stem}.{suffix}").write_text(text, encoding="utf-8")
    return str(path)


def test_the_template_file_comes_first(tmp_path: Path) -> None:
    elsewhere = {"chat_template": "other"}
    found = chat_template_of(
        folder(
            tmp_path,
            chat_template_jinja="é own\n",
            chat_template_json=elsewhere,
            tokenizer_config_json=elsewhere,
        )
    )
    assert found == "é own\n"


def test_then_the_processors_then_the_tokenizers(tmp_path: Path) -> None:
    assert chat_template_of(folder(tmp_path, tokenizer_config_json={"chat_template": "b"})) == "b"
    assert chat_template_of(folder(tmp_path, chat_template_json={"chat_template": "a"})) == "a"


def test_of_several_the_default_is_taken(tmp_path: Path) -> None:
    several = [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]
    path = folder(tmp_path, tokenizer_config_json={"chat_template": several, "model_max_length": 10**30})
    assert chat_template_of(path) == "d"


def test_a_qwen_without_one_gets_chatml_and_others_are_refused(tmp_path: Path) -> None:
    assert chat_template_of(folder(tmp_path / "a", config_json={"model_type": "qwen3_vl"})) == CHATML
    with pytest.raises(ModelError, match="has no chat template"):
        chat_template_of(folder(tmp_path / "b", config_json={"model_type": "llava"}))


@pytest.mark.parametrize("wrong", [3, {"a": "b"}, [{"name": "tool_use", "template": "t"}]])
def test_what_is_no_template_is_refused(wrong: object, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"tokenizer_config\.json: chat_template must be"):
        chat_template_of(folder(tmp_path, tokenizer_config_json={"chat_template": wrong}))


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="there is no such folder"):
        chat_template_of(str(tmp_path / "nothing"))


def test_a_link_out_of_the_folder_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    inside = tmp_path / "checkpoint"
    inside.mkdir()
    (inside / "chat_template.jinja").symlink_to(tmp_path / "secret")
    with pytest.raises(ModelError, match="outside of the checkpoint"):
        chat_template_of(str(inside))
