"""Only files of the checkpoint's own folder are opened."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from stepscore._untrusted import checkpoint_folder
from stepscore._untrusted.checkpoint_folder import (
    check_files,
    checked_file,
    has_file,
    named_folder,
    read_object,
    whole_number,
)
from stepscore.errors import ModelError
from stepscore.models.hf.files import INDEX_FILE, config_digest, weight_files, weights_digest
from tests.models.hostile_checkpoints import INDEXES


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A checkpoint's folder, with a file that is not its own beside it."""
    (tmp_path / "outside.json").write_text("{}")
    (tmp_path / "outside.safetensors").write_bytes(b"\2\0\0\0\0\0\0\0{}")
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.json").write_text('{"model_type": "x"}')
    return home


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../outside.json", "/etc/passwd", "a/b.json", "a\\b.json", "a\0b"]
)
def test_a_name_that_leads_out_is_refused(home: Path, name: str) -> None:
    with pytest.raises(ModelError, match="stand in its own folder"):
        checked_file(home, name)


def test_a_link_out_of_the_folder_is_refused_and_one_within_is_read(home: Path) -> None:
    (home / "inside.json").symlink_to("config.json")
    (home / "outside.json").symlink_to("../outside.json")
    (home / "twice.json").symlink_to("outside.json")
    assert read_object(home, "inside.json") == {"model_type": "x"}
    for name in ("outside.json", "twice.json"):
        with pytest.raises(ModelError, match=r"outside of the checkpoint, and is not read\. Copy the file"):
            read_object(home, name)


def test_the_layout_of_the_hub_cache_is_read(tmp_path: Path) -> None:
    """snapshots/REVISION/config.json is a link to blobs/DIGEST."""
    blob = tmp_path / "models--x--y" / "blobs" / "0123"
    snapshot = tmp_path / "models--x--y" / "snapshots" / "main"
    for folder in (blob.parent, snapshot):
        folder.mkdir(parents=True)
    blob.write_text('{"a": 1}')
    (snapshot / "config.json").symlink_to("../../blobs/0123")
    assert read_object(snapshot, "config.json") == {"a": 1}
    (snapshot / "other.json").symlink_to("../../../secret.json")
    with pytest.raises(ModelError, match="outside of the checkpoint"):
        checked_file(snapshot, "other.json")


def test_only_regular_files_are_opened(home: Path) -> None:
    os.mkfifo(home / "pipe.json")
    (home / "folder.json").mkdir()
    (home / "loop.json").symlink_to("loop.json")
    (home / "zero.json").symlink_to("/dev/zero")
    for name in ("pipe.json", "folder.json", "loop.json", "zero.json", "missing.json"):
        with pytest.raises(ModelError):
            read_object(home, name)
    with pytest.raises(ModelError):
        check_files(home)
    assert has_file(home, "loop.json")
    assert not has_file(home, "missing.json")


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"[]", "not a JSON object"), (b"{", "not JSON"), (b"\xff", "not UTF-8"), (b'{"a":' * 9000, "nested|not JSON"),
     (b'{"a": ' + b"9" * 5000 + b"}", "64 bits")],
)  # fmt: skip
def test_a_configuration_that_is_none_is_refused_by_its_file(home: Path, content: bytes, says: str) -> None:
    (home / "config.json").write_bytes(content)
    with pytest.raises(ModelError, match=says) as refused:
        read_object(home, "config.json")
    assert "config.json" in str(refused.value)


def test_a_configuration_of_any_length_is_not_read(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_folder, "MAX_CONFIG_BYTES", 5)
    with pytest.raises(ModelError, match="more than 5 bytes"):
        read_object(home, "config.json")


def test_an_adapter_is_refused_since_it_names_another_model(home: Path) -> None:
    (home / "adapter_config.json").write_text('{"base_model_name_or_path": "/"}')
    with pytest.raises(ModelError, match="merge_and_unload"):
        check_files(home)


@pytest.mark.parametrize(("name", "index"), INDEXES, ids=[name for name, _ in INDEXES])
def test_an_index_names_files_of_the_folder(home: Path, name: str, index: object) -> None:
    (home / INDEX_FILE).write_text(json.dumps(index))
    if name == "names tensors that are not there":
        (home / "model-1.safetensors").write_bytes(b"\2\0\0\0\0\0\0\0{}")
        assert weight_files(home) == [home / "model-1.safetensors"]
        return
    with pytest.raises(ModelError) as refused:
        weight_files(home)
    assert len(str(refused.value)) < 1000


def test_the_digest_of_weights_changes_with_any_byte(home: Path) -> None:
    content = bytearray(300_000)
    path = home / "model.safetensors"
    digests = set()
    for at in (None, 0, 70_000, 150_001, 299_999):
        changed = bytearray(content)
        if at is not None:
            changed[at] = 1
        path.write_bytes(changed)
        digests.add(weights_digest(home))
    assert len(digests) == 5


def test_the_digest_of_the_other_files_changes_with_any_of_them(home: Path) -> None:
    digests = [config_digest(home, remote_code=False)]
    for name in ("tokenizer.json", "chat_template.jinja", "merges.txt"):
        (home / name).write_text("x")
        digests.append(config_digest(home, remote_code=False))
    (home / "code.py").write_text("x")
    assert config_digest(home, remote_code=False) == digests[-1]
    digests.append(config_digest(home, remote_code=True))
    assert len(set(digests)) == 5


@pytest.mark.parametrize("checkpoint", ["a\0b", "x" * 5000, "~no-such-user-of-this-machine/x"])
def test_a_path_that_cannot_be_is_refused_in_one_line(checkpoint: str) -> None:
    with pytest.raises(ModelError, match="Cannot read the checkpoint") as refused:
        named_folder(checkpoint)
    assert len(str(refused.value)) < 1000


@pytest.mark.parametrize("value", [0, 11, -1, "5", 5.0, True, [5], 10**400])
def test_a_number_outside_its_limits_names_the_field(value: object) -> None:
    with pytest.raises(ModelError, match=r"config\.json: depth is .*it is a whole number, 1 to 10"):
        whole_number({"depth": value}, "depth", "config.json: ", 1, 10)


def test_a_number_may_be_missing() -> None:
    assert whole_number({}, "depth", "", 1, 10) is None
    assert whole_number({"depth": 5}, "depth", "", 1, 10) == 5
