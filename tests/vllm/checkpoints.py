"""Checkpoints that vLLM's CPU build can serve: a tiny random Qwen3-VL, and the embedded judge with wider heads.

Its attention takes heads of 32, 64 or more, not of 48. Zeros beyond the 48th dimension change no dot product, so the
embedded judge is served with heads of 64: queries and keys are normalised over 64 numbers of which 16 are 0, which
makes each sqrt(64/48) larger, and their product is divided by sqrt(64) instead of sqrt(48). A key norm sqrt(48/64)
as large undoes both, and rotary positions turn the first 48 dimensions alone.
"""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np

EMBEDDED = Path(__file__).parents[2] / "src" / "stepscore" / "models" / "embedded" / "checkpoint"
PUBLISHED = {
    "preprocessor_config.json": {"shortest_edge": 65_536, "longest_edge": 16_777_216},
    "video_preprocessor_config.json": {"shortest_edge": 4_096, "longest_edge": 25_165_824},
}
"""Pixels of an image, and of all frames of a video, in the processors of the published Qwen3-VL checkpoints."""
HEAD, WIDER = 48, 64


def embedded(folder: Path) -> Path:
    """Write the embedded judge as a checkpoint in float32 with the published limits in pixels, for ``hf/``."""
    from safetensors.numpy import load_file, save_file

    folder.mkdir(parents=True)
    for file in EMBEDDED.iterdir():
        if file.suffix in (".json", ".jinja") and file.name != "calibration.json":
            shutil.copy(file, folder)
    _limits(folder)
    _edit(folder / "config.json", lambda config: config | {"dtype": "float32"})
    weights = load_file(EMBEDDED / "model.safetensors")
    save_file(
        {name: value.astype(np.float32) for name, value in weights.items()},
        folder / "model.safetensors",
        metadata={"format": "pt"},
    )
    return folder


def widened(source: Path, folder: Path) -> Path:
    """Write a copy of the embedded judge's checkpoint with heads of 64 dimensions, which scores the same."""
    from safetensors.numpy import load_file, save_file

    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("*.safetensors"))

    def config(found: dict[str, Any]) -> dict[str, Any]:
        text = found["text_config"]
        text["head_dim"] = WIDER
        text["rope_parameters"]["partial_rotary_factor"] = HEAD / WIDER
        return found

    _edit(folder / "config.json", config)
    weights = load_file(source / "model.safetensors")
    save_file(
        {name: _wider(name, value) for name, value in weights.items()},
        folder / "model.safetensors",
        metadata={"format": "pt"},
    )
    return folder


def _wider(name: str, value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if "language_model" not in name or "self_attn" not in name:
        return value
    if name.endswith(("q_norm.weight", "k_norm.weight")):
        scale = math.sqrt(HEAD / WIDER) if "k_norm" in name else 1.0
        return np.pad(value * np.float32(scale), (0, WIDER - HEAD))
    if name.endswith("o_proj.weight"):
        by_head = value.reshape(len(value), -1, HEAD)
        return np.pad(by_head, ((0, 0), (0, 0), (0, WIDER - HEAD))).reshape(len(value), -1)
    by_head = value.reshape(-1, HEAD, value.shape[1])
    return np.pad(by_head, ((0, 0), (0, WIDER - HEAD), (0, 0))).reshape(-1, value.shape[1])


def tiny(folder: Path) -> Path:
    """Write a random Qwen3-VL with heads of 32 dimensions, as a whole checkpoint folder."""
    from tests.models import tiny as random_models

    made = random_models.tokenizer()
    sections = {
        "rope_type": "default",
        "rope_theta": 10000.0,
        "mrope_section": [8, 4, 4],
        "mrope_interleaved": True,
    }
    model = random_models.qwen3vl(made, head_dim=32, rope_parameters=sections)
    random_models.save(folder, model, made)
    for name in PUBLISHED:
        shutil.copy(EMBEDDED / name, folder)
    _limits(folder)
    return folder


def _limits(folder: Path) -> None:
    for name, size in PUBLISHED.items():
        _edit(folder / name, lambda found, size=size: found | {"size": size})


def _edit(file: Path, change: Any) -> None:
    file.write_text(json.dumps(change(json.loads(file.read_text(encoding="utf-8")))), encoding="utf-8")
