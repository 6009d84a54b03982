"""The files of a checkpoint: where they are, their content, and a digest that identifies the checkpoint.

Only safetensors are read: they hold numbers and nothing that runs.
"""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

from stepscore.errors import ModelError

WANTED = ("*.safetensors", "*.json", "*.txt", "*.jinja", "*.model")
EDGE = 64 * 1024
"""Bytes of each tensor's two ends that enter the digest."""


def checkpoint_folder(checkpoint: str, *, remote_code: bool) -> Path:
    """Return the folder of a checkpoint: a local one, or a hub id's, downloaded once into the hub's cache.

    Raises:
        ModelError: There is no such folder or model, or it holds no safetensors.
    """
    folder = Path(checkpoint).expanduser()
    if not folder.is_dir():
        folder = _downloaded(checkpoint, remote_code=remote_code)
    if not (folder / "config.json").is_file():
        raise ModelError(f"hf/{checkpoint}: {folder} has no config.json, so it is not a checkpoint.")
    if not weight_files(folder):
        others = sorted(p.name for p in folder.iterdir() if p.suffix in {".bin", ".pt", ".pth", ".ckpt"})
        has = (
            f" It holds {', '.join(others[:3])}, which can run code when opened and is not read."
            if others
            else ""
        )
        raise ModelError(
            f"hf/{checkpoint}: {folder} has no *.safetensors.{has} "
            "Convert it: load it where you trust it and call model.save_pretrained(FOLDER)."
        )
    return folder


def _downloaded(checkpoint: str, *, remote_code: bool) -> Path:
    if checkpoint.count("/") > 1 or checkpoint.startswith((".", "~", "/")):
        raise ModelError(f"hf/{checkpoint}: there is no such folder.")
    try:
        from huggingface_hub import snapshot_download

        patterns = [*WANTED, "*.py"] if remote_code else list(WANTED)
        return Path(snapshot_download(checkpoint, allow_patterns=patterns))
    except (
        Exception
    ) as error:  # the hub's client raises many kinds; all of them mean that the model is not available
        raise ModelError(
            f"hf/{checkpoint}: there is no such folder, and the model could not be downloaded "
            f"({type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'}). "
            "Give the path of a checkpoint folder: hf/PATH"
        ) from error


def weight_files(folder: Path) -> list[Path]:
    """Return the safetensors files that transformers would load, sorted by name."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        return sorted(folder / name for name in names)
    single = folder / "model.safetensors"
    return [single] if single.is_file() else sorted(folder.glob("*.safetensors"))


def read_json(path: Path) -> dict[str, Any]:
    """Return the content of a JSON file of the checkpoint; empty where there is no such file."""
    if not path.is_file():
        return {}
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def weights_digest(folder: Path) -> str:
    """Return a digest of the weights that takes a second, not a minute.

    sha256 over every file's size and header (names, shapes, kinds and places of all tensors) and the first and
    last 64 KiB of every tensor. Training, merging or quantising changes every tensor it touches from end to
    end and so changes the digest; a few numbers changed by hand in the middle of a large tensor would not.
    """
    digest = hashlib.sha256()
    for path in weight_files(folder):
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = file.read(length)
            digest.update(f"{path.name} {path.stat().st_size} ".encode() + header)
            for name, tensor in json.loads(header).items():
                if name == "__metadata__":
                    continue
                start, stop = (8 + length + offset for offset in tensor["data_offsets"])
                for at in sorted({start, max(start, stop - EDGE)}):
                    file.seek(at)
                    digest.update(file.read(min(EDGE, stop - at)))
    return digest.hexdigest()


def config_digest(folder: Path, *, remote_code: bool) -> str:
    """Return a digest of every other file that can change a number: configuration, tokenizer, templates, code."""
    kinds = {".json", ".txt", ".jinja", ".model"} | ({".py"} if remote_code else set())
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.suffix in kinds and not path.name.endswith(".index.json") and path.is_file():
            content = path.read_bytes()
            digest.update(f"{path.name} {len(content)} ".encode() + content)
    return digest.hexdigest()


def load_tokenizer(folder: Path, *, remote_code: bool) -> Any:
    """Load the checkpoint's tokenizer, from its ``tokenizer.json`` where there is one."""
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    if (folder / "tokenizer.json").is_file():
        # The class that a model's type suggests may split text by rules of its own; the file is complete.
        return PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)
    return AutoTokenizer.from_pretrained(folder, trust_remote_code=remote_code, local_files_only=True)
