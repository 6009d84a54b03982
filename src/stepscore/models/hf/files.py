"""The files of a checkpoint: where they are, their content, and digests that identify the checkpoint.

Only safetensors are read: they hold numbers and nothing that runs. Files of a stranger are checked as
``models/checkpoints`` states before a library opens them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stepscore._untrusted import read_bytes, shown
from stepscore._untrusted.checkpoint_folder import (
    brief,
    check_files,
    checked_file,
    file_names,
    has_file,
    named_folder,
    read_object,
)
from stepscore._untrusted.safetensors_header import Header, read_header
from stepscore.errors import ModelError
from stepscore.models.checkpoints.digests import files_digest

WANTED = ("*.safetensors", "*.json", "*.txt", "*.jinja", "*.model", "config.yaml")
TOKENIZER_FILES = ("tokenizer*.json", "vocab.*", "merges.txt", "added_tokens.json", "special_tokens_map.json")
WEIGHTS_FILE, INDEX_FILE = "model.safetensors", "model.safetensors.index.json"


def checkpoint_folder(checkpoint: str, *, remote_code: bool) -> Path:
    """Return the folder of a checkpoint: a local one, or a hub id's, downloaded once into the hub's cache.

    Raises:
        ModelError: There is no such folder or model, it holds no safetensors, or a file that is none of its own.
    """
    folder = named_folder(checkpoint)
    if not folder.is_dir():
        folder = _downloaded(checkpoint, (*WANTED, "*.py") if remote_code else WANTED)
    if not has_file(folder, "config.json"):
        raise ModelError(
            f"hf/{shown(checkpoint)}: {shown(folder)} has no config.json, so it is not a checkpoint."
        )
    check_files(folder, code=remote_code)
    if not weight_files(folder):
        others = [
            name for name in file_names(folder) if Path(name).suffix in {".bin", ".pt", ".pth", ".ckpt"}
        ]
        has = (
            f" It holds {shown(', '.join(others[:3]))}, which can run code when opened and is not read."
            if others
            else ""
        )
        raise ModelError(
            f"hf/{shown(checkpoint)}: {shown(folder)} has no {WEIGHTS_FILE} and no {INDEX_FILE}.{has} "
            "Convert it: load it where you trust it and call model.save_pretrained(FOLDER)."
        )
    return folder


def tokenizer_folder(checkpoint: str) -> Path:
    """Return the folder of a tokenizer: a local one, or a hub id's, of which its files alone are downloaded.

    Raises:
        ModelError: There is no such folder or model.
    """
    folder = named_folder(checkpoint)
    return folder if folder.is_dir() else _downloaded(checkpoint, (*TOKENIZER_FILES, "*.jinja"))


def has_tokenizer(folder: Path) -> bool:
    """Return whether a folder has the files of a tokenizer."""
    return any(has_file(folder, name) for name in ("tokenizer.json", "vocab.json", "tokenizer.model"))


def _downloaded(checkpoint: str, patterns: Sequence[str]) -> Path:
    if checkpoint.count("/") > 1 or checkpoint.startswith((".", "~", "/")):
        raise ModelError(f"hf/{shown(checkpoint)}: there is no such folder.")
    try:
        from huggingface_hub import snapshot_download

        return Path(snapshot_download(checkpoint, allow_patterns=list(patterns)))
    except (
        Exception
    ) as error:  # the hub's client raises many kinds; all of them mean that the model is not available
        raise ModelError(
            f"hf/{shown(checkpoint)}: there is no such folder, and the model could not be downloaded "
            f"({first_line(error)}). Give the path of a checkpoint folder: hf/PATH"
        ) from error


def weight_files(folder: Path) -> list[Path]:
    """Return the safetensors files that transformers would load, sorted by name; empty where there are none.

    Raises:
        ModelError: The index names something else than safetensors files of the folder.
    """
    if has_file(folder, WEIGHTS_FILE):
        return [checked_file(folder, WEIGHTS_FILE)]
    if not has_file(folder, INDEX_FILE):
        return []
    named = read_object(folder, INDEX_FILE).get("weight_map")
    where = f"{shown(folder / INDEX_FILE)}: weight_map"
    if not isinstance(named, dict) or not named:
        raise ModelError(f"{where} is {brief(named)}; it names the file of each tensor.")
    for tensor, name in named.items():
        if not isinstance(name, str) or not name.endswith(".safetensors"):
            raise ModelError(
                f"{where}.{shown(tensor)} is {brief(name)}; it is the name of a safetensors file."
            )
    return [checked_file(folder, name) for name in sorted(set(named.values()))]


def weight_headers(folder: Path) -> list[Header]:
    """Return the checked headers of the weight files."""
    return [read_header(path) for path in weight_files(folder)]


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file of a checkpoint; empty where there is no such file.

    Raises:
        ModelError: It is damaged, or not a file of the checkpoint.
    """
    return read_object(path.parent, path.name) if has_file(path.parent, path.name) else {}


def weights_digest(folder: Path) -> str:
    """Return a digest of every byte of the weights; of a large file it is computed once and remembered."""
    return files_digest(weight_files(folder))


def config_digest(folder: Path, *, remote_code: bool) -> str:
    """Return a digest of every other file that can change a number: configuration, tokenizer, templates, code."""
    kinds = {".json", ".txt", ".jinja", ".model"} | ({".py"} if remote_code else set())
    digest = hashlib.sha256()
    for name in file_names(folder):
        # A calibration map beside the weights is the judge's, and enters the protocol there.
        if Path(name).suffix in kinds and not name.endswith((".index.json", "calibration.json")):
            content = read_bytes(checked_file(folder, name), ModelError)
            digest.update(f"{name} {len(content)} ".encode("utf-8", "surrogateescape") + content)
    return digest.hexdigest()


def load_tokenizer(folder: Path, *, remote_code: bool) -> Any:
    """Load the checkpoint's tokenizer, from its ``tokenizer.json`` where there is one.

    Raises:
        ModelError: Its files are damaged.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    check_files(folder, code=remote_code)
    if has_file(folder, "tokenizer_config.json"):
        # The length limit of many is the integer of 1e30.
        config = read_object(folder, "tokenizer_config.json", huge_integers=True)
        for name in _listed(config.get("fast_tokenizer_files")):
            checked_file(folder, name)
    try:
        if has_file(folder, "tokenizer.json"):
            # The class that a model's type suggests may split text by rules of its own; the file is complete.
            return PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=remote_code, local_files_only=True)
    except ImportError:
        raise
    except Exception as error:  # the library raises anything on a damaged file
        raise ModelError(
            f"The tokenizer in {shown(folder)} cannot be loaded ({first_line(error)}). Copy or download it again."
        ) from error


def _listed(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []


def first_line(error: BaseException) -> str:
    """Return kind and message of a library's error on one line, not a screen long."""
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), "no message")
    line = "".join(char if char.isprintable() else "?" for char in line)
    return f"{type(error).__name__}: {line if len(line) <= 300 else line[:300] + '…'}"
