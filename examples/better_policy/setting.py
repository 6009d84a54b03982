"""All that is fixed before anything is run: tasks, counts, seeds, the policy's sizes."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscore.errors import OptionError
from stepscore.models.embedded.model import FOLDER
from stepscore.sim import CONTROL_HZ
from stepscore.training.embedded.tasks import FPS

TASKS: tuple[str, ...] = (
    "button-press",
    "door-open",
    "drawer-open",
    "faucet-open",
    "plate-slide",
    "window-open",
)
"""One task of each kind of thing among those the embedded judge knows and whose expert always succeeds: a button, a
door, a drawer, a faucet, something to push, a window; the one that opens where two undo each other."""

FAILED: tuple[str, ...] = ("wrong-target", "retreat", "short:4", "freeze", "drop")
WASTEFUL: tuple[str, ...] = ("hesitate", "detour", "redo", "slow")
"""How the expert is changed in bad demonstrations; the kinds take turns. See ``stepscore.sim``."""

WASTE = 1.25
"""A wasteful demonstration takes at least this many times the median good one's time to success."""

SLACK = 1.5
"""A policy has this many times as long as nine of ten good demonstrations took."""

STEPS_PER_FRAME = CONTROL_HZ // FPS
"""Control steps between two frames of the dataset."""

SETTING_FILE = "setting.json"
STORED_NAMES = {"hidden_dim": "hidden", "batch_size": "batch", "lr": "rate"}
"""Fields of :class:`Setting` that the experiment's files hold under another name."""


@dataclass(frozen=True)
class Setting:
    """The setting of one experiment.

    Attributes:
        tasks: Tasks, each with policies of its own.
        good: Demonstrations of a task by the expert, all successful.
        failed: Demonstrations that fail, by label.
        wasteful: Demonstrations that succeed, by label, after ``WASTE`` times the usual time.
        annotated: Rollouts of each task that SARM is trained on, with the simulator's stages and progress.
        sources: Whose progress weights the demonstrations: ``truth``, ``sarm``, ``embedded``.
        seeds: Training seeds of every configuration; each has other initial weights and other batches.
        scenes: Scenes of the trials of each seed; the same for every config, others for each seed.
        chunk: Length of the policy's chunk of actions, in frames; RA-BC's chunk size.
        hidden_dim: Width of the policy's two hidden layers.
        steps: Optimizer steps.
        batch_size: Samples in each.
        lr: Peak learning rate; it falls to a hundredth by a cosine.
        sarm_steps: Optimizer steps of SARM.
        demo_seed: The simulator's seed of the demonstrations.
        annotated_seed: That of the rollouts that SARM is trained on.
        scene_seed: That of the scenes of the trials.
    """

    tasks: tuple[str, ...] = TASKS
    good: int = 24
    failed: int = 12
    wasteful: int = 12
    annotated: int = 12
    sources: tuple[str, ...] = ("truth", "sarm", "embedded")
    seeds: int = 10
    scenes: int = 20
    chunk: int = 2
    hidden_dim: int = 96
    steps: int = 3000
    batch_size: int = 64
    lr: float = 2e-3
    sarm_steps: int = 1500
    demo_seed: int = 71001
    annotated_seed: int = 72001
    scene_seed: int = 73001

    @property
    def horizon(self) -> int:
        """Actions in the policy's chunk."""
        return self.chunk * STEPS_PER_FRAME


SHORT = Setting(
    tasks=("button-press",),
    good=2,
    failed=1,
    wasteful=1,
    sources=("truth",),
    seeds=2,
    scenes=4,
    hidden_dim=32,
    steps=150,
    batch_size=32,
)
"""An experiment of a minute, to see that everything works; its figures mean nothing."""


def stored(setting: Setting) -> dict[str, Any]:
    """Return the fields of a setting under the names by which the experiment's files hold them."""
    return {STORED_NAMES.get(name, name): value for name, value in asdict(setting).items()}


def claim(work: Path, setting: Setting) -> None:
    """Make the folder of an experiment, or check that the experiment in it can resume.

    The embedded judge belongs to the setting: weights of one judge are not mixed with those of another.

    Raises:
        OptionError: The folder holds an experiment with another setting.
    """
    file, now = work / SETTING_FILE, json.loads(json.dumps(stored(setting)))
    if {"sarm", "embedded"} & set(setting.sources):
        now["embedded_judge"] = judge_digest()
    if file.is_file():
        before = json.loads(file.read_text(encoding="utf-8"))
        names = {old: name for name, old in STORED_NAMES.items()}
        changed = [names.get(name, name) for name in now if before.get(name) != now[name]]
        if changed:
            raise OptionError(
                f"{work} holds an experiment with other settings ({', '.join(changed)}). Resume it with the same, or "
                "choose another folder."
            )
        return
    write_atomic(file, json.dumps(now, indent=1) + "\n")


def judge_digest() -> str:
    """Return the sha256 of the embedded judge's files: weights, gate, calibration map."""
    digest = hashlib.sha256()
    for path in sorted(path for path in FOLDER.iterdir() if path.suffix in {".safetensors", ".json"}):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def write_atomic(path: Path, text: str) -> None:
    """Write a file that appears under its name only when it is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write an ``.npz`` file that appears under its name only when it is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.stem}.tmp.npz")
    np.savez(temporary, allow_pickle=False, **arrays)
    os.replace(temporary, path)
