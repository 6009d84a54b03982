"""A network by transformers, from files that are checked first: no larger than they are, complete, and of numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from stepscore._untrusted import shown
from stepscore._untrusted.checkpoint_folder import check_files, whole_number
from stepscore.errors import ModelError, StepScoreError, exits_as_errors
from stepscore.models.checkpoints.network_size import (
    bounded_network,
    check_config,
    check_memory,
    weights_limit,
)
from stepscore.models.hf.files import first_line, read_json, weight_headers

MAX_BEAMS = 64
COPIES = ("num_beams", "num_beam_groups", "num_return_sequences")
"""Fields of a generation config that multiply the memory of an answer."""


def load_network(
    auto: Any,
    folder: Path,
    name: str,
    *,
    dtype: str = "float32",
    device: str = "cpu",
    attention: str | None = None,
    remote_code: bool = False,
) -> Any:
    """Load a network and its weights onto a device, in evaluation mode.

    Args:
        auto: The class of transformers that loads it, e.g. ``AutoModel``.
        folder: Folder of the checkpoint.
        name: The model string, for messages.
        dtype: Type of its weights in memory.
        device: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"``.
        attention: Implementation of attention; ``None`` for the library's choice.
        remote_code: Run code that comes with the checkpoint.

    Raises:
        ModelError: A file is damaged, the files do not belong together, or memory is too small.
    """
    check_files(folder, code=remote_code)
    config = read_json(folder / "config.json")
    headers = weight_headers(folder)
    # Code of the checkpoint's own may build what it likes; who runs it trusts it.
    limit = weights_limit(headers, quantized=remote_code or "quantization_config" in config)
    if not remote_code:
        check_config(config, folder / "config.json", headers)
    for file in ("config.json", "generation_config.json"):
        for field in COPIES:
            whole_number(read_json(folder / file), field, f"{shown(folder / file)}: ", 1, MAX_BEAMS)
    weights, each = sum(header.elements for header in headers), getattr(torch, dtype).itemsize
    if device == "cpu":
        check_memory(weights, each, name)
    chosen = {} if attention is None else {"attn_implementation": attention}
    with (
        library_errors(
            f"{name}: a model of type {config.get('model_type')!r} cannot be loaded", weights * each
        ),
        bounded_network(limit, shown(folder / "config.json")),
        no_progress_bars(),
    ):
        network, found = auto.from_pretrained(
            folder,
            dtype=getattr(torch, dtype),
            use_safetensors=True,
            trust_remote_code=remote_code,
            local_files_only=True,
            output_loading_info=True,
            **chosen,
        )
        network = network.eval().to(device)
    if found["missing_keys"]:
        lacking = sorted(found["missing_keys"])
        raise ModelError(
            f"{name}: the checkpoint lacks {len(lacking)} of the model's weights "
            f"({shown(lacking[0])} ...), which would be random numbers. Save the complete model again."
        )
    check_numbers(network, name)
    return network


@contextmanager
def no_progress_bars() -> Iterator[None]:
    """Within it, transformers draws no bar of its own: it would stand in logs, and tear ours."""
    logging: Any = import_module("transformers.utils.logging")
    shown_before = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown_before:
            logging.enable_progress_bar()


@contextmanager
def library_errors(doing: str, needed: int | None = None) -> Iterator[None]:
    """Within it, whatever a library raises is raised as a ModelError.

    Args:
        doing: Beginning of the message.
        needed: Bytes of the weights, for a message about memory.
    """
    try:
        with exits_as_errors():  # a checkpoint may bring code
            yield
    except StepScoreError:
        raise
    except ImportError as error:
        raise ModelError(f"{doing}: {first_line(error)}") from error
    except Exception as error:  # a library raises anything on a damaged file
        if is_out_of_memory(error):
            size = "" if needed is None else f" Its weights take {needed / 1e9:.2f} GB."
            raise ModelError(
                f"{doing}: out of memory ({first_line(error)}).{size} Choose dtype=bfloat16, another device, or a "
                "smaller model."
            ) from error
        raise ModelError(f"{doing} ({first_line(error)}).") from error


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error states that memory could not be allocated; torch has several kinds."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and ("allocate memory" in text or "not enough memory" in text)


@torch.inference_mode()
def check_numbers(network: Any, name: str) -> None:
    """Raise ModelError where a weight is NaN or infinite: every answer would be made of it."""
    for tensor, weights in network.named_parameters():
        # A sum is one pass without a copy, and finite only where every weight is.
        if weights.is_floating_point() and not torch.isfinite(weights.sum(dtype=torch.float32)):
            if weights.isfinite().all():
                continue  # finite numbers whose sum is not
            raise ModelError(
                f"{name}: the weights {shown(tensor)} have values that are not numbers (NaN or infinite). "
                "The file is damaged, or its training diverged."
            )
