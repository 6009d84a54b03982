"""A configuration cannot claim a larger network than the weights that are there."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from stepscore._untrusted.safetensors_header import Header, TensorEntry
from stepscore.errors import ModelError
from stepscore.models.checkpoints import network_size
from stepscore.models.checkpoints.network_size import (
    bounded_network,
    check_config,
    check_memory,
    weights_limit,
)

HEADER = Header(
    Path("x"), b"{}", {f"t{i}": TensorEntry("F32", (10, 10), 400 * i, 400 * i + 400) for i in range(20)}, {}
)
GOOD: dict[str, Any] = {
    "model_type": "x",
    "text_config": {"hidden_size": 64, "num_hidden_layers": 4, "rope_theta": 10**12, "head_dim": None},
    "vision_config": {"depth": 2, "patch_size": [14, 14], "deepstack_visual_indexes": [0, 1]}, "eos_token_id": [1, 2],
    "max_window_layers": 10**6, "_attn_implementation": "sdpa", "architectures": ["X"],
}  # fmt: skip


def test_an_ordinary_configuration_passes() -> None:
    check_config(GOOD, Path("config.json"), [HEADER])


@pytest.mark.parametrize(
    ("part", "field", "value"),
    [
        ("text_config", "hidden_size", 10**12), ("text_config", "hidden_size", 0),
        ("text_config", "hidden_size", "64"), ("text_config", "hidden_size", 64.5),
        ("text_config", "num_hidden_layers", 21), ("vision_config", "depth", 10**9),
        ("vision_config", "patch_size", [14, -1]), ("vision_config", "deepstack_visual_indexes", [2**40]),
        ("text_config", "layer_types", ["x"] * 21), ("text_config", "_attn_implementation", "stranger/kernel"),
        ("text_config", "vocab_size", True), ("text_config", "eos_token_id", [2**40]),
    ],
)  # fmt: skip
def test_a_field_that_cannot_be_true_is_named(part: str, field: str, value: object) -> None:
    config = {**GOOD, part: {**GOOD[part], field: value}}
    with pytest.raises(ModelError, match=rf"config\.json: {part}\.{field}"):
        check_config(config, Path("config.json"), [HEADER])


def test_weights_may_be_tied_and_packed() -> None:
    spare = network_size.SPARE_WEIGHTS
    assert weights_limit([HEADER], quantized=False) == 2 * 2000 + spare
    assert weights_limit([HEADER, HEADER], quantized=True) == 2 * 2 * 8 * 8000 + spare


def test_building_stops_where_a_network_outgrows_its_files() -> None:
    built = []
    with torch.device("meta"), bounded_network(1000, "config.json"):
        built.append(torch.nn.Linear(10, 50))
        with pytest.raises(
            ModelError, match=r"config\.json states a network of more weights than its files hold: at Linear"
        ):
            torch.nn.Linear(10**6, 10**6)
    assert torch.nn.Linear(40, 40).weight.numel() == 1600  # and no longer holds outside


def test_other_threads_build_what_they_like() -> None:
    done: list[int] = []

    def build() -> None:
        with torch.device("meta"):
            done.append(torch.nn.Linear(1000, 1000).weight.numel())

    with bounded_network(10, "config.json"):
        thread = threading.Thread(target=build)
        thread.start()
        thread.join()
    assert done == [1_000_000]


def test_memory_is_known_before_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_size, "total_memory", lambda: 16 << 30)
    check_memory(4 * 10**9, 4, "hf/x")
    with pytest.raises(
        ModelError, match=r"30\.00 billion weights of 2 bytes take 60\.0 GB; this machine has 17\.2 GB"
    ):
        check_memory(30 * 10**9, 2, "hf/x")
    monkeypatch.setattr(network_size, "total_memory", lambda: None)
    check_memory(10**15, 4, "hf/x")


def test_this_machine_states_its_memory() -> None:
    found = network_size.total_memory()
    assert found is None or found > 1 << 28
