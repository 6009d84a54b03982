"""The training configs of a domain gate and of its camera check."""

from __future__ import annotations

from dataclasses import dataclass

from stepscore.training.embedded.tasks import CAMERA_SEED, SECOND_VIEW, TRAINED, VIEW


@dataclass(frozen=True)
class GateConfig:
    """How a domain gate is trained.

    Attributes:
        views: Cameras the judge was trained with.
        frames_per_episode: Images of each episode and view: the first frame, and others at random.
        max_images: Most in-distribution and most out-of-distribution images, about, before augmentation.
        n_augmentations: Augmented copies of each in-distribution image, besides itself.
        n_ood_augmentations: Augmented copies of each out-of-distribution image.
        n_corruptions: Out-of-distribution images made from each in-distribution one; see ``images.py``.
        components: Principal components kept of a token.
        hidden_dim: Hidden units of the network.
        steps: Optimizer steps.
        batch_size: Images in a step.
        lr: Peak learning rate; it falls to 0 by a cosine.
        weight_decay: Weight decay.
        dropout: Dropout of inputs and hidden units.
        label_smoothing: Label smoothing of the cross entropy.
        bank_per_scene: In-distribution images of a scene that the gate stores to compare with.
        val_fraction: Fraction of arrangements held out to set the thresholds.
        refused_fraction: Fraction of held-out in-distribution images that the gate refuses: it sets the
            thresholds. Later frames and augmented copies are among them; of first frames it refuses fewer.
        shared_scene_fraction: Two tasks share a scene if this fraction of their held-out images is taken for the
            other's.
        seed: Random seed.
    """

    views: tuple[str, ...] = (VIEW, SECOND_VIEW)
    frames_per_episode: int = 3
    max_images: int = 3000
    n_augmentations: int = 2
    n_ood_augmentations: int = 3
    n_corruptions: int = 1
    components: int = 48
    hidden_dim: int = 160
    steps: int = 1200
    batch_size: int = 256
    lr: float = 2e-3
    weight_decay: float = 0.05
    dropout: float = 0.3
    label_smoothing: float = 0.02
    bank_per_scene: int = 160
    val_fraction: float = 0.25
    refused_fraction: float = 0.04
    shared_scene_fraction: float = 0.03
    seed: int = 0


@dataclass(frozen=True)
class CameraConfig:
    """How the camera check of a gate is trained.

    Attributes:
        tasks: Tasks whose scenes are rendered.
        policies: Policies that take turns on the scenes.
        scenes: Scenes of each task.
        scene_seed: Seed of the simulator.
        fps: Frames per second that are taken of a rollout.
        cameras_per_scene: Other cameras, besides the trained ones.
        n_augmentations: Augmented copies of each image of a trained camera; one of each other image.
        zoom_out: Largest zoom out of augmented copies: a camera further away is another camera.
        hidden_dim: Hidden units of the network.
        steps: Optimizer steps.
        batch_size: Images in a step.
        lr: Peak learning rate; it falls to 0 by a cosine.
        weight_decay: Weight decay.
        dropout: Dropout of inputs and hidden units.
        label_smoothing: Label smoothing of the cross entropy.
        val_fraction: Fraction of each task's scenes held out to set the thresholds.
        refused_fraction: Fraction of the held-out images of each trained camera that the check refuses; augmented
            copies are among them.
        seed: Random seed.
    """

    tasks: tuple[str, ...] = TRAINED
    policies: tuple[str, ...] = ("expert", "noisy:1", "hesitate", "drop", "short:2", "undo")
    scenes: int = 10
    scene_seed: int = CAMERA_SEED
    fps: int = 1
    cameras_per_scene: int = 9
    n_augmentations: int = 3
    zoom_out: float = 0.06
    hidden_dim: int = 64
    steps: int = 1500
    batch_size: int = 256
    lr: float = 2e-3
    weight_decay: float = 0.05
    dropout: float = 0.3
    label_smoothing: float = 0.02
    val_fraction: float = 0.2
    refused_fraction: float = 0.02
    seed: int = 0
