"""The files of a SARM checkpoint: the config in ``sarm.json``, the weights in ``sarm.safetensors``.

All that scoring needs is in them: sizes, window, views, the stages of each task with their breakpoints, the
encoder's description, and the means and deviations that inputs are scaled by. The encoder itself is not.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from stepscore._files import atomic_path, write_json
from stepscore.errors import EpisodeError, ModelError
from stepscore.models.sarm.window import Window

if TYPE_CHECKING:
    from stepscore.models.sarm.network import SarmNetwork

CONFIG_FILE, WEIGHTS_FILE = "sarm.json", "sarm.safetensors"
FORMAT = 1

SarmMode = Literal["single", "dense", "dual"]
Decode = Literal["argmax", "expected"]
"""How stages and shares become progress; see :func:`stepscore.models.sarm.score_video`."""


@dataclass(frozen=True)
class Procedure:
    """The stages of a task, as one head predicts them.

    Attributes:
        stages: Their K names, in order.
        breakpoints: Progress at the start of each, and 1 at the end of the last; K + 1 numbers.
    """

    stages: tuple[str, ...]
    breakpoints: tuple[float, ...]


@dataclass(frozen=True)
class SarmConfig:
    """The config of a checkpoint.

    Attributes:
        mode: ``"single"``: one head without stages; ``"dense"``: that and one with stages; ``"dual"``: both with.
        window: The frames of an observation.
        views: Names of the cameras, in order.
        state: Columns of the robot's state, in order; empty without.
        encoder: The encoder's ``describe()``.
        sizes: The network's sizes, as fields of ``SarmShape``.
        procedures: Stages of each task, by head and task.
        tasks: The task of each instruction it was trained on.
        progress: The progress labels it was trained on: ``stages``, ``linear``, or a potential's name.
        facts: How it was trained: episodes, steps, seed.
    """

    mode: SarmMode
    window: Window
    views: tuple[str, ...]
    state: tuple[str, ...]
    encoder: Mapping[str, Any]
    sizes: Mapping[str, Any]
    procedures: Mapping[str, Mapping[str, Procedure]]
    tasks: Mapping[str, str]
    progress: str
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def head(self) -> str:
        """The head with the most stages: dense where there is one, else sparse."""
        return "dense" if "dense" in self.procedures else "sparse"

    def task_of(self, task: str | None, instruction: str) -> str:
        """Return the trained task under which an episode is scored.

        Its task, else its instruction, decides; a checkpoint of a single task takes any wording of it.

        Raises:
            EpisodeError: The checkpoint knows several tasks, and this is none of them.
        """
        known = self.procedures[self.head]
        if task is not None and task in known:
            return task
        if instruction in self.tasks:
            return self.tasks[instruction]
        if len(known) == 1:
            return next(iter(known))
        raise EpisodeError(
            f"The task {(task or instruction)!r} is not one this SARM checkpoint was trained on, so its stages are "
            f"not known. Trained: {', '.join(sorted(known))}. Train on it: stepscore train sarm DATASET"
        )


def save_checkpoint(folder: Path, config: SarmConfig, network: SarmNetwork) -> None:
    """Write a checkpoint; each file appears under its name only when it is complete."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: value.detach().cpu().contiguous() for name, value in network.state_dict().items()}
    with atomic_path(folder / WEIGHTS_FILE) as temporary:
        save_file(tensors, temporary)
    content = {"format": FORMAT, **dataclasses.asdict(config)}
    write_json(folder / CONFIG_FILE, content, sort_keys=True)


def read_config(folder: Path) -> SarmConfig:
    """Read the config of the checkpoint in a folder.

    Raises:
        ModelError: The folder has no checkpoint, or one of another format.
    """
    path = folder / CONFIG_FILE
    if not path.is_file() or not (folder / WEIGHTS_FILE).is_file():
        raise ModelError(
            f"sarm/{folder}: the folder has no {CONFIG_FILE} and {WEIGHTS_FILE}, so it is not a SARM checkpoint. "
            f"Make one: stepscore train sarm DATASET -o {folder}"
        )
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content.pop("format") != FORMAT:
            raise ModelError(f"{path} is not a SARM checkpoint of format {FORMAT}. Train it again.")
        procedures = {
            head: {
                task: Procedure(tuple(entry["stages"]), tuple(entry["breakpoints"]))
                for task, entry in tasks.items()
            }
            for head, tasks in content.pop("procedures").items()
        }
        window = Window(**content.pop("window"))
        views, state = tuple(content.pop("views")), tuple(content.pop("state"))
        return SarmConfig(window=window, procedures=procedures, views=views, state=state, **content)
    except (ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{path} is damaged ({error}). Train it again, or copy it again.") from error


def load_network(folder: Path, config: SarmConfig, device: str) -> SarmNetwork:
    """Load the network of a checkpoint, in evaluation mode."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    from stepscore.models.sarm.network import SarmNetwork, SarmShape

    network = SarmNetwork(SarmShape(**config.sizes))
    try:
        network.load_state_dict(load_file(folder / WEIGHTS_FILE))
    except (SafetensorError, RuntimeError) as error:
        raise ModelError(f"{folder / WEIGHTS_FILE} does not fit its {CONFIG_FILE}: {error}") from error
    return network.to(device).eval()


def checkpoint_digest(folder: Path) -> str:
    """Return the sha256 of both files."""
    digest = hashlib.sha256()
    for name in (CONFIG_FILE, WEIGHTS_FILE):
        digest.update((folder / name).read_bytes())
    return digest.hexdigest()
