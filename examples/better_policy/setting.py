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
from stepscore.sim.world import CONTROL_HZ
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
"""What is done to the expert in bad demonstrations; the kinds take turns. See ``stepscore.sim``."""

WASTE = 1.25
"""A wasteful demonstration takes at least so many times the median good one's time to success."""

SLACK = 1.5
"""A policy has so many times as long as nine of ten good demonstrations took."""

STEPS_A_FRAME = CONTROL_HZ // FPS
"""Actions between two frames of the films."""

SETTING_FILE = "setting.json"


@dataclass(frozen=True)
class Setting:
    """One experiment.

    Attributes:
        tasks: What is learned, each by policies of its own.
        good: Demonstrations of a task by the expert, all successful.
        failed: Demonstrations that fail, by label.
        wasteful: Demonstrations that succeed, by label, after ``WASTE`` times the usual time.
        annotated: Rollouts of each task that SARM is taught on, with the simulator's stages and progress.
        sources: Whose progress weighs the demonstrations: ``truth``, ``sarm``, ``embedded``.
        seeds: Trainings of every arm; each begins with other weights and draws other batches.
        scenes: Scenes in which each training is tried; the same for every arm, others for each seed.
        chunk: Frames of the actions that the policy gives at once; RA-BC's chunk size.
        hidden: Width of the policy's two hidden layers.
        steps: Steps of training.
        batch: Samples in each.
        rate: Highest learning rate; it falls to a hundredth by a cosine.
        sarm_steps: Steps of SARM's training.
        demo_seed: The simulator's seed of the demonstrations.
        annotated_seed: That of the rollouts that SARM is taught on.
        scene_seed: That of the scenes in which policies are tried.
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
    hidden: int = 96
    steps: int = 3000
    batch: int = 64
    rate: float = 2e-3
    sarm_steps: int = 1500
    demo_seed: int = 71001
    annotated_seed: int = 72001
    scene_seed: int = 73001

    @property
    def horizon(self) -> int:
        """Actions in the policy's chunk."""
        return self.chunk * STEPS_A_FRAME


SHORT = Setting(
    tasks=("button-press",),
    good=2,
    failed=1,
    wasteful=1,
    sources=("truth",),
    seeds=2,
    scenes=4,
    hidden=32,
    steps=150,
    batch=32,
)
"""A minute's worth, to see that everything works; its figures mean nothing."""


def claim(work: Path, setting: Setting) -> None:
    """Make the folder of an experiment, or go on in it; OptionError where it holds one of another setting.

    The embedded judge belongs to the setting: what was weighed by one is not gone on with under another.
    """
    file, now = work / SETTING_FILE, json.loads(json.dumps(asdict(setting)))
    if {"sarm", "embedded"} & set(setting.sources):
        now["embedded_judge"] = judge_digest()
    if file.is_file():
        before = json.loads(file.read_text(encoding="utf-8"))
        changed = [name for name in now if before.get(name) != now[name]]
        if changed:
            raise OptionError(
                f"{work} holds an experiment with other settings ({', '.join(changed)}). Go on with the same, or "
                "choose another folder."
            )
        return
    write_whole(file, json.dumps(now, indent=1) + "\n")


def judge_digest() -> str:
    """sha256 of the embedded judge's files: weights, gate, calibration map."""
    digest = hashlib.sha256()
    for path in sorted(path for path in FOLDER.iterdir() if path.suffix in {".safetensors", ".json"}):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def write_whole(path: Path, text: str) -> None:
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
