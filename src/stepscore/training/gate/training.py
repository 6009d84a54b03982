"""Training of a domain gate: it learns to tell the scenes a small judge was trained on from all others.

See ``stepscore.models.embedded.DomainGate`` for what the gate computes; the judge's own weights stay as they are.
``python -m stepscore.training.embedded gate`` runs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stepscore.errors import OptionError
from stepscore.models.embedded import GATE_FILE, DomainGate, save_gate, torch_network
from stepscore.models.qwen3vl import image_features
from stepscore.training.embedded.tasks import PARAPHRASES_FILE
from stepscore.training.gate.config import GateConfig
from stepscore.training.gate.dataset import GateImage, read_images
from stepscore.training.gate.fit import (
    OUT_OF_DISTRIBUTION,
    Samples,
    fit_components,
    fit_network,
    scene_words,
    shared_scenes,
    with_bank,
    with_thresholds,
)
from stepscore.training.gate.images import augment_image, corrupt_image

if TYPE_CHECKING:
    from stepscore.models.qwen3vl import Qwen3VLNetwork

MIN_ARRANGEMENTS = 4


def build_gate(
    checkpoint: Path,
    in_distribution: Sequence[str | Path],
    ood: Sequence[str | Path],
    config: GateConfig | None = None,
    *,
    paraphrases: Path = PARAPHRASES_FILE,
    out: Path | None = None,
) -> tuple[Path, DomainGate]:
    """Train the gate of a checkpoint on datasets, and write it.

    Args:
        checkpoint: Folder of the judge.
        in_distribution: Datasets the judge was trained on. Their views that it was not trained with are out of
            distribution.
        ood: Datasets with other scenes, only for the gate.
        config: How the gate is trained.
        paraphrases: A YAML file with paraphrases of the trained instructions.
        out: File of the gate; by default in the checkpoint's folder.

    Returns:
        The file, and the gate.
    """
    from stepscore.training.vlm.setup import read_paraphrases

    config = config or GateConfig()
    rng = np.random.default_rng([config.seed, 1])
    known: list[GateImage] = []
    others: list[GateImage] = []
    for source in in_distribution:
        count = config.max_images // len(in_distribution)
        for image in read_images(source, config.frames_per_episode, count, rng):
            (known if image.view in config.views else others).append(image)
    for source in ood:
        others += read_images(source, config.frames_per_episode, config.max_images // len(ood), rng)
    network = torch_network(checkpoint)
    gate = train_gate(network, known, others, config, read_paraphrases(paraphrases))
    path = out or checkpoint / GATE_FILE
    save_gate(gate, path)
    return path, gate


def train_gate(
    network: Qwen3VLNetwork,
    in_distribution: Sequence[GateImage],
    ood: Sequence[GateImage],
    config: GateConfig | None = None,
    paraphrases: Mapping[str, Sequence[str]] | None = None,
) -> DomainGate:
    """Train a gate for a judge.

    Args:
        network: The judge.
        in_distribution: Images of scenes and cameras it was trained on.
        ood: Images of others.
        config: How the gate is trained.
        paraphrases: Paraphrases of the trained instructions.

    Returns:
        The gate; its facts hold how many images it was trained on and how many it refuses.
    """
    config = config or GateConfig()
    rng = np.random.default_rng(config.seed)
    arrangements = sorted({image.arrangement for image in in_distribution})
    if len(arrangements) < MIN_ARRANGEMENTS or not ood:
        raise OptionError(
            f"A gate needs images of at least {MIN_ARRANGEMENTS} scenes and out-of-distribution ones; here are "
            f"{len(arrangements)} scenes and {len(ood)} out-of-distribution images."
        )
    count = max(1, round(config.val_fraction * len(arrangements)))
    held_out = set(rng.permutation(arrangements)[:count].tolist())
    training = [image for image in in_distribution if image.arrangement not in held_out]
    tasks = sorted({image.task for image in training})
    validation = [i for i in in_distribution if i.arrangement in held_out and i.task in tasks]
    if not validation:
        raise OptionError(
            "No held-out scene is of a task that has others to train on. Give more scenes of each task."
        )
    train_samples = _training_samples(network, training, ood, tasks, config, rng)
    val_samples = _in_distribution_samples(network, validation, tasks, config, rng)
    known = train_samples.features[train_samples.scenes != OUT_OF_DISTRIBUTION]
    components = fit_components(known, _token_width(network), config.components)
    return _fit_gate(components, train_samples, val_samples, tasks, config, paraphrases or {})


def _fit_gate(
    components: DomainGate,
    train: Samples,
    val: Samples,
    tasks: Sequence[tuple[str, str]],
    config: GateConfig,
    paraphrases: Mapping[str, Sequence[str]],
) -> DomainGate:
    """Return the whole gate from components and samples numbered by task: first find the scenes tasks share."""
    fit = partial(fit_network, components, config=config)
    scenes = shared_scenes(fit(train), val, config.shared_scene_fraction)
    train, val = train.renumbered(scenes), val.renumbered(scenes)
    gate = fit(train)
    gate = with_bank(gate, train, config.bank_per_scene, np.random.default_rng([config.seed, 2]))
    views = [tasks[scenes.index(scene)][1] for scene in range(len(gate))]
    gate = with_thresholds(gate, val, views, config.refused_fraction)
    gate = replace(gate, words=scene_words([text for text, _ in tasks], paraphrases, scenes))
    own = gate.fits(val.features)[np.arange(len(val.scenes)), val.scenes]
    accepted = gate.fits(train.features[train.scenes == OUT_OF_DISTRIBUTION]) >= gate.thresholds
    facts = {
        "images": len(train.scenes),
        "kept_apart": len(val.scenes),
        "refused_of_kept_apart": float(np.mean(own < gate.thresholds[val.scenes])),
        "ood_accepted_by_any_scene": float(np.mean(accepted.any(axis=1))),
        "ood_accepted_by_a_random_scene": float(np.mean(accepted)),
        "scenes": [
            [f"{t}, {v}" for (t, v), s in zip(tasks, scenes, strict=True) if s == n] for n in range(len(gate))
        ],
        "seed": config.seed,
    }
    return replace(gate, facts=facts)


def _token_width(network: Qwen3VLNetwork) -> int:
    """Return the length of a token: the vision encoder's output, and those of its deepstack layers."""
    vision = network.model.config.vision_config
    return int(vision.out_hidden_size) * (1 + len(vision.deepstack_visual_indexes))


def _in_distribution_samples(
    network: Qwen3VLNetwork,
    images: Sequence[GateImage],
    tasks: Sequence[tuple[str, str]],
    config: GateConfig,
    rng: np.random.Generator,
) -> Samples:
    """Return in-distribution images and augmented copies of them, by task."""
    pixels = [image.pixels for image in images]
    pixels += [augment_image(image.pixels, rng) for _ in range(config.n_augmentations) for image in images]
    number = np.tile([tasks.index(image.task) for image in images], 1 + config.n_augmentations)
    return Samples(image_features(network, pixels), number, np.full(len(pixels), 1 / len(pixels)))


def _training_samples(
    network: Qwen3VLNetwork,
    images: Sequence[GateImage],
    ood: Sequence[GateImage],
    tasks: Sequence[tuple[str, str]],
    config: GateConfig,
    rng: np.random.Generator,
) -> Samples:
    """Return in-distribution images and copies, and recorded and corrupted ones out of distribution.

    Half of the weight is in distribution.
    """
    own = _in_distribution_samples(network, images, tasks, config, rng)
    recorded = [image.pixels for image in ood]
    recorded += [augment_image(i.pixels, rng) for i in ood for _ in range(config.n_ood_augmentations)]
    corrupted = []
    for image in images:
        for _ in range(config.n_corruptions):
            other = images[int(rng.integers(len(images)))]
            corrupted.append(augment_image(corrupt_image(image.pixels, other.pixels, rng), rng))
    sizes = (len(own.scenes), len(recorded), len(corrupted))
    features = [own.features, *(image_features(network, group) for group in (recorded, corrupted))]
    weights = np.repeat(np.array([0.5, 0.25, 0.25]) / sizes, sizes) * sum(sizes)
    outside = np.full(len(recorded) + len(corrupted), OUT_OF_DISTRIBUTION)
    return Samples(np.concatenate(features), np.concatenate([own.scenes, outside]), weights)
