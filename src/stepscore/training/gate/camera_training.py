"""Training of the camera check: rendered images of trained and of other cameras, and the classifier of them.

The domain gate that it is added to, and the judge's own weights, stay as they are.
``python -m stepscore.training.embedded gate-cameras`` runs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stepscore.episodes import resize_frames
from stepscore.errors import OptionError
from stepscore.models.embedded import (
    GATE_FILE,
    CameraCheck,
    DomainGate,
    Float32,
    gate_digest,
    load_gate,
    save_gate,
    torch_network,
)
from stepscore.models.qwen3vl import IMAGE_SIDE, image_features
from stepscore.sim import VIEWS, RolloutPlan
from stepscore.training.gate.cameras import Cameras, rendered, training_camera
from stepscore.training.gate.config import CameraConfig
from stepscore.training.gate.images import augment_image
from stepscore.training.schedule import cosine_lr
from stepscore.types import Frames, IntArray

if TYPE_CHECKING:
    from stepscore.models.qwen3vl import Qwen3VLNetwork

OTHER = "other"
"""Begins the names of cameras that the judge was not trained with."""


@dataclass(frozen=True, eq=False)
class CameraImage:
    """A rendered image.

    Attributes:
        pixels: The image, (IMAGE_SIDE, IMAGE_SIDE, 3).
        view: The trained camera that took it; empty for another one.
        scene: Number of the scene in its task.
    """

    pixels: Frames
    view: str
    scene: int


def add_camera_check(
    checkpoint: Path, config: CameraConfig | None = None, *, out: Path | None = None
) -> tuple[Path, CameraCheck]:
    """Train the camera check of a checkpoint's gate, and write it into the gate.

    A calibration map beside the gate stays valid, because the check changes which videos are answered and no answer:
    the map's file gets the gate's new digest.

    Args:
        checkpoint: Folder of the judge and its gate.
        config: How it is trained.
        out: File of the gate with the check; by default the checkpoint's own.

    Returns:
        The file, and the check.
    """
    config = config or CameraConfig()
    gate = load_gate(checkpoint / GATE_FILE)
    before = gate_digest(checkpoint)
    check = train_camera_check(torch_network(checkpoint), gate, camera_images(gate, config), config)
    path = out or checkpoint / GATE_FILE
    save_gate(replace(gate, cameras=check), path)
    if out is None:
        _rename_gate(checkpoint, before)
    return path, check


def camera_images(gate: DomainGate, config: CameraConfig) -> list[CameraImage]:
    """Render the scenes of all trained tasks under the gate's own cameras and under others."""
    views = gate_views(gate)
    trained = [VIEWS[view] for view in views]
    rng = np.random.default_rng([config.seed, 3])

    def cameras(plan: RolloutPlan) -> Cameras:
        others = {f"{OTHER} {n}": training_camera(rng, trained) for n in range(config.cameras_per_scene)}
        return dict(zip(views, trained, strict=True)) | others

    plans = [
        RolloutPlan(task, config.policies[scene % len(config.policies)], scene, config.scene_seed)
        for task in config.tasks
        for scene in range(config.scenes)
    ]
    return [
        CameraImage(pixels, "" if name.startswith(OTHER) else name, plan.scene)
        for plan, found in rendered(plans, cameras, config.fps)
        for name, frames in found.items()
        for pixels in resize_frames(frames, (IMAGE_SIDE, IMAGE_SIDE))
    ]


def gate_views(gate: DomainGate) -> tuple[str, ...]:
    """Return the cameras of a gate's scenes.

    Raises:
        OptionError: The simulator has no camera of such a name.
    """
    views = tuple(sorted(set(_scene_views(gate))))
    if unknown := [view for view in views if view not in VIEWS or VIEWS[view].fixed]:
        raise OptionError(
            f"The camera check is trained on scenes of `stepscore sim`; this gate has the camera {unknown[0]}."
        )
    return views


def train_camera_check(
    network: Qwen3VLNetwork, gate: DomainGate, images: Sequence[CameraImage], config: CameraConfig
) -> CameraCheck:
    """Train a camera check; its facts hold how many images it was trained on and how many it refuses."""
    rng = np.random.default_rng([config.seed, 4])
    views = gate_views(gate)
    last = round(config.scenes * (1 - config.val_fraction))
    training = [image for image in images if image.scene < last]
    validation = [image for image in images if image.scene >= last]
    x, targets = _samples(network, gate, training, views, config, rng)
    check = _fit(x, targets, gate, views, config)
    x, targets = _samples(network, gate, validation, views, config, rng)
    odds = check.log_odds(x)
    own = [odds[targets == number, number] for number in range(len(views))]
    # float16 on disk changes log-odds a little; the margin allows for it.
    limits = np.array([np.quantile(values, config.refused_fraction) for values in own]) - 0.02
    others = odds[targets == len(views)] >= limits
    facts = {
        "images": len(training),
        "held_out_images": len(validation),
        "held_out_refused": {
            view: float(np.mean(v < t)) for view, v, t in zip(views, own, limits, strict=True)
        },
        "other_cameras_passed": float(np.mean(others.any(axis=1))),
        "seed": config.seed,
    }
    return replace(check, thresholds=limits, facts=facts)


def _samples(
    network: Qwen3VLNetwork,
    gate: DomainGate,
    images: Sequence[CameraImage],
    views: Sequence[str],
    config: CameraConfig,
    rng: np.random.Generator,
) -> tuple[Float32, IntArray]:
    """Return the gate's components of images and of augmented copies, and the number of their camera."""
    numbers = [views.index(image.view) if image.view else len(views) for image in images]
    targets = list(numbers)
    parts = [_components(network, gate, [image.pixels for image in images])]
    for copy in range(config.n_augmentations):
        # One copy of other cameras' images, which are more, and all of the trained ones'.
        chosen = [n for n, number in enumerate(numbers) if number < len(views) or copy == 0]
        pixels = [augment_image(images[n].pixels, rng, config.zoom_out) for n in chosen]
        parts.append(_components(network, gate, pixels))
        targets += [numbers[n] for n in chosen]
    return np.concatenate(parts), np.array(targets)


def _components(network: Qwen3VLNetwork, gate: DomainGate, pixels: Sequence[Frames]) -> Float32:
    """Return the components of images, some at a time: features take 36 kB each."""
    groups = [pixels[start : start + 512] for start in range(0, len(pixels), 512)]
    return np.concatenate([gate.components(image_features(network, group)) for group in groups])


def _fit(
    components: Float32, targets: IntArray, gate: DomainGate, views: tuple[str, ...], config: CameraConfig
) -> CameraCheck:
    """Return a camera check without thresholds, its network trained; other cameras have half of the weight."""
    import torch
    from torch.nn.functional import cross_entropy, gelu

    torch.manual_seed(config.seed)
    count = len(views)
    share = np.bincount(targets, minlength=count + 1) / len(targets)
    weights = torch.tensor(np.array([0.5 / count] * count + [0.5]) / share, dtype=torch.float32)
    x, y = torch.from_numpy(components), torch.from_numpy(targets)
    first = torch.nn.Linear(x.shape[1], config.hidden_dim)
    last = torch.nn.Linear(config.hidden_dim, count + 1)
    dropout = torch.nn.Dropout(config.dropout)
    parameters = [*first.parameters(), *last.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=config.lr, weight_decay=config.weight_decay)
    for step in range(config.steps):
        optimizer.param_groups[0]["lr"] = cosine_lr(config.lr, step, config.steps)
        rows = torch.randint(len(x), (config.batch_size,))
        logits = last(dropout(gelu(first(dropout(x[rows])), approximate="tanh")))
        losses = cross_entropy(logits, y[rows], reduction="none", label_smoothing=config.label_smoothing)
        optimizer.zero_grad()
        (losses * weights[y[rows]]).mean().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return CameraCheck(
        views,
        np.array([views.index(view) for view in _scene_views(gate)]),
        first=np.ascontiguousarray(first.weight.detach().numpy().T),
        first_bias=first.bias.detach().numpy(),
        last=np.ascontiguousarray(last.weight.detach().numpy().T),
        last_bias=last.bias.detach().numpy(),
        thresholds=np.zeros(count),
    )


def _scene_views(gate: DomainGate) -> list[str]:
    """Return the camera of each scene: the facts list the tasks of a scene as ``INSTRUCTION, VIEW``."""
    return [str(tasks[0]).rpartition(", ")[2] for tasks in gate.facts["scenes"]]


def _rename_gate(checkpoint: Path, before: str | None) -> None:
    """Write the gate's new digest into the calibration maps that were fitted with the gate ``before``."""
    from stepscore.judges.common import read_calibration, write_calibration
    from stepscore.models.embedded import CALIBRATION, CAUSAL_CALIBRATION

    for path in (checkpoint / CALIBRATION.name, checkpoint / CAUSAL_CALIBRATION.name):
        fitted = read_calibration(path) if path.is_file() else None
        if fitted is not None and fitted.identity is not None and fitted.identity.get("gate") == before:
            identity = {**fitted.identity, "gate": gate_digest(checkpoint)}
            write_calibration(replace(fitted, identity=identity), path)
