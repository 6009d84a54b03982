"""The files of a SARM checkpoint: the config in ``sarm.json``, the weights in ``sarm.safetensors``.

All that scoring needs is in them: sizes, window, views, the stages of each task with their breakpoints, the
encoder's description, and the means and deviations that inputs are scaled by. The encoder itself is not.
"""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscore._files import atomic_path, write_json
from stepscore._untrusted import shown
from stepscore._untrusted.checkpoint_folder import checked_file, has_file, read_object
from stepscore._untrusted.safetensors_header import read_header
from stepscore.errors import ModelError, RunError
from stepscore.models.checkpoints.digests import digest_of
from stepscore.models.checkpoints.network_size import bounded_network, weights_limit
from stepscore.models.sarm.config import SarmConfig, parse_config

if TYPE_CHECKING:
    from stepscore.models.sarm.network import SarmNetwork

CONFIG_FILE, WEIGHTS_FILE = "sarm.json", "sarm.safetensors"
FORMAT = 1


def save_checkpoint(folder: Path, config: SarmConfig, network: SarmNetwork) -> None:
    """Write a checkpoint; each file appears under its name only when it is complete.

    Raises:
        RunError: It cannot be written; what was there before stays.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    tensors = {name: value.detach().cpu().contiguous() for name, value in network.state_dict().items()}
    with atomic_path(folder / WEIGHTS_FILE, make_folder=True) as temporary:
        try:
            save_file(tensors, temporary)
        except SafetensorError as error:  # a full disk
            raise RunError(f"Cannot write {shown(folder / WEIGHTS_FILE)}: {error}.") from error
    content = {"format": FORMAT, **dataclasses.asdict(config)}
    write_json(folder / CONFIG_FILE, content, sort_keys=True)


def read_config(folder: Path) -> SarmConfig:
    """Read the config of the checkpoint in a folder.

    Raises:
        ModelError: The folder has no checkpoint, a damaged one, or one of another format.
    """
    path = folder / CONFIG_FILE
    if not has_file(folder, CONFIG_FILE) or not has_file(folder, WEIGHTS_FILE):
        raise ModelError(
            f"sarm/{shown(folder)}: the folder has no {CONFIG_FILE} and {WEIGHTS_FILE}, so it is not a SARM "
            f"checkpoint. Make one: stepscore train sarm DATASET -o {shlex.quote(shown(folder))}"
        )
    content = read_object(folder, CONFIG_FILE)
    if content.pop("format", None) != FORMAT:
        raise ModelError(f"{shown(path)} is not a SARM checkpoint of format {FORMAT}. Train it again.")
    return parse_config(content, shown(path))


def load_network(folder: Path, config: SarmConfig, device: str) -> SarmNetwork:
    """Load the network of a checkpoint, in evaluation mode.

    The sizes that its config states are compared with the tensors in the file before the network is built.

    Raises:
        ModelError: The files do not belong together, or are damaged.
    """
    from safetensors.torch import load_file

    from stepscore.models.hf.network_loading import check_numbers, library_errors
    from stepscore.models.sarm.network import SarmNetwork, SarmShape

    name = f"sarm/{shown(folder)}"
    path = checked_file(folder, WEIGHTS_FILE)
    header = read_header(path)
    where = shown(folder / CONFIG_FILE)
    layers = int(config.sizes["layers"])
    if layers > len(header.tensors):
        raise ModelError(f"{where}: sizes.layers is {layers}; the weights are {len(header.tensors)} tensors.")
    with library_errors(f"{name} cannot be loaded", 4 * header.elements):
        shape = SarmShape(**config.sizes)
        with torch_device("meta"), bounded_network(weights_limit([header], quantized=False), where):
            stated = {key: tuple(value.shape) for key, value in SarmNetwork(shape).state_dict().items()}
        stored = {key: tensor.shape for key, tensor in header.tensors.items()}
        if wrong := sorted(key for key in {*stated, *stored} if stated.get(key) != stored.get(key)):
            raise ModelError(
                f"{shown(path)} does not fit its {CONFIG_FILE}: {shown(wrong[0])} has the shape "
                f"{stored.get(wrong[0])}, not {stated.get(wrong[0])}."
            )
        network = SarmNetwork(shape)
        network.load_state_dict(load_file(path))
        check_numbers(network, name)
        return network.to(device).eval()


def torch_device(name: str) -> Any:
    """Return torch's device of this name, which is a context: tensors made within it are on the device."""
    import torch

    return torch.device(name)


def checkpoint_digest(folder: Path) -> str:
    """Return the sha256 of both files."""
    return digest_of(checked_file(folder, name) for name in (CONFIG_FILE, WEIGHTS_FILE))
