"""Sizes that a configuration claims, checked against the weights that are really there.

A network takes the memory its configuration states. Two checks keep that within the size of the files: fields that
cannot be true are refused by name, before a library makes lists by them; and while the library builds the network
without memory, on torch's meta device, building stops as soon as it has more weights than the files.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from stepscore._untrusted import shown
from stepscore._untrusted.checkpoint_folder import brief
from stepscore._untrusted.safetensors_header import Header
from stepscore.errors import ModelError

MAX_NUMBER = 2**31 - 1
"""Largest integer in a configuration; ids and sizes are far below."""
TIED_COPIES = 2
"""A network may be built with this many times the weights in its files: those that are tied are built twice."""
SPARE_WEIGHTS = 1 << 22
"""Weights beyond those in the files that a network may be built with: tables of positions, which are not saved."""
PACKED_PER_BYTE = 8
"""Most weights that a byte of a quantized checkpoint can stand for."""
ATTENTIONS = frozenset({"sdpa", "eager", "flash_attention_2", "flash_attention_3", "flex_attention"})
_COUNTS = re.compile(r"(layers?|depths?|blocks?)$")
_POSITIVE = re.compile(
    r"(?:^|(?<!additional)_)(hidden_size|intermediate_size|hidden_layers|attention_heads|key_value_heads|head_dim|vocab_size"
    r"|patch_size|merge_size|image_size|depth|num_heads|position_embeddings|in_channels|num_channels)$"
)


def check_config(config: Mapping[str, Any], path: Path, headers: Sequence[Header]) -> None:
    """Check the numbers of a ``config.json`` that no network with these weights can have.

    Args:
        config: Its content.
        path: The file, for the message.
        headers: Headers of the weight files.

    Raises:
        ModelError: A field cannot be true; the message names file and field.
    """
    tensors = sum(len(header.tensors) for header in headers)
    for field, value in _fields(config):
        where, name = f"{shown(path)}: {shown('.'.join(field))}", field[-1]
        if name.endswith("attn_implementation") and value is not None and value not in ATTENTIONS:
            # The library would download an implementation of this name and run it.
            raise ModelError(f"{where} is {brief(value)}; it is one of {', '.join(sorted(ATTENTIONS))}.")
        if _POSITIVE.search(name) and not _positive(value):
            raise ModelError(f"{where} is {brief(value)}; it is a whole number from 1 on.")
        for number in value if isinstance(value, list) else (value,):
            if not isinstance(number, int) or "theta" in name:
                continue
            if abs(number) > MAX_NUMBER:
                raise ModelError(f"{where} is {brief(number)}; no model has a size or a token like that.")
            if _COUNTS.search(name) and not name.startswith("max_") and number > tensors:
                raise ModelError(f"{where} is {number}; the weights are {tensors} tensors, fewer than that.")
        if isinstance(value, list) and "layer" in name and len(value) > tensors:
            raise ModelError(f"{where} has {len(value)} items; the weights are {tensors} tensors.")


def _positive(value: object) -> bool:
    if value is None:
        return True  # the library's default
    if isinstance(value, list):
        return all(_positive(item) for item in value)
    if isinstance(value, dict):
        return True  # height and width, checked by their own names
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _fields(config: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every field of a configuration that holds no further fields, with its path."""
    waiting: list[tuple[tuple[str, ...], Any]] = [((name,), value) for name, value in config.items()]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [((*path, name), item) for name, item in value.items()]
        else:
            yield path, value


def weights_limit(headers: Sequence[Header], *, quantized: bool) -> int:
    """Return how many weights a network with these files may be built with."""
    if quantized:
        stored = PACKED_PER_BYTE * sum(t.stop - t.start for h in headers for t in h.tensors.values())
    else:
        stored = sum(header.elements for header in headers)
    return TIED_COPIES * stored + SPARE_WEIGHTS


@contextmanager
def bounded_network(limit: int, where: str) -> Iterator[None]:
    """Within it, a network built by this thread on the meta device may have so many weights and no more.

    Raises:
        ModelError: It has more; the message begins with ``where``.
    """
    from torch.nn.modules import module as torch_module

    builder, built = threading.get_ident(), 0

    def count(module: Any, name: str, value: Any) -> None:
        nonlocal built
        if value is None or threading.get_ident() != builder or value.device.type != "meta":
            return
        built += value.numel()
        if built > limit:
            raise ModelError(
                f"{where} states a network of more weights than its files hold: at {type(module).__name__}.{name} of "
                f"shape {tuple(value.shape)} it has {built}. The configuration belongs to other weights."
            )

    with ExitStack() as hooks:
        for register in (
            torch_module.register_module_parameter_registration_hook,
            torch_module.register_module_buffer_registration_hook,
        ):
            hooks.callback(register(count).remove)
        yield


def check_memory(elements: int, bytes_each: int, name: str) -> None:
    """Raise ModelError where weights are more than the memory of this machine, swap included."""
    needed, there = elements * bytes_each, total_memory()
    if there is not None and needed > there:
        raise ModelError(
            f"{name}: {elements / 1e9:.2f} billion weights of {bytes_each} bytes take {needed / 1e9:.1f} GB; this "
            f"machine has {there / 1e9:.1f} GB. Choose dtype=bfloat16, a GPU, or a smaller model."
        )


def total_memory() -> int | None:
    """Return the bytes of memory and swap of this machine; ``None`` where the system does not state it."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None
    try:
        swap = re.search(r"SwapTotal:\s+(\d+) kB", Path("/proc/meminfo").read_text(encoding="ascii"))
    except (OSError, ValueError):
        swap = None
    return total + (int(swap[1]) << 10 if swap else 0)
