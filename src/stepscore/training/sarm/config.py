"""The options of ``stepscore train sarm``; importing them imports neither NumPy nor torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from stepscore.errors import OptionError, UnknownNameError
from stepscore.training.job import default_threads
from stepscore.training.schedule import cosine_lr

if TYPE_CHECKING:
    from stepscore.models.sarm import SarmMode


FINAL_LR_FRACTION = 0.1
"""Learning rate at the end, as a fraction of its peak."""


@dataclass(frozen=True)
class SarmTrainConfig:
    """The training config of SARM.

    Attributes:
        steps: Optimizer steps.
        batch_size: Windows in each.
        lr: Peak learning rate; after warm-up it falls to a tenth by a cosine.
        warmup_steps: Steps in which it rises.
        weight_decay: Weight decay of matrices.
        true_stage_prob: Share of windows whose progress is predicted given the labelled stage, not the predicted.
        rewind_prob: Share of windows that end with frames played backwards.
        language_perturbation_prob: Share of windows with the instruction of another task, or a random one.
        save_every: Steps between saves.
        seed: Random seed of weights and batches.
    """

    steps: int = 2000
    batch_size: int = 32
    lr: float = 3e-4
    warmup_steps: int = 100
    weight_decay: float = 1e-3
    true_stage_prob: float = 0.75
    rewind_prob: float = 0.8
    language_perturbation_prob: float = 0.2
    save_every: int = 500
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "save_every", "warmup_steps"):
            if getattr(self, name) < 1:
                raise OptionError(f"{name} is {getattr(self, name)}; it must be at least 1.")
        for name in ("true_stage_prob", "rewind_prob", "language_perturbation_prob"):
            if not 0 <= getattr(self, name) <= 1:
                raise OptionError(f"{name} is {getattr(self, name)}; it is a share, 0..1.")

    @property
    def total_steps(self) -> int:
        """Optimizer steps in all."""
        return self.steps

    def lr_at(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0."""
        return cosine_lr(
            self.lr,
            step,
            self.steps,
            warmup_steps=self.warmup_steps,
            final_fraction=FINAL_LR_FRACTION,
        )


@dataclass(frozen=True)
class SarmJobConfig:
    """The options of a training run of SARM.

    Attributes:
        datasets: Labelled episodes to train on.
        folder: Where the checkpoint, the state and the logs are kept.
        labels: A labels file for a single dataset; by default ``labels.parquet`` of each.
        sparse_labels: For ``mode="dual"``: a labels file with the sparse stages.
        encoder: The frozen encoder: ``embedded`` or ``hf/PATH-OR-ID``.
        mode: ``single``, ``dense`` or ``dual``; see ``SarmConfig``.
        progress: ``stages``, ``linear`` or a labelled potential's name; by default the only one labelled, else
            ``stages``.
        causal: Windows hold past frames alone, for online use; else frames on both sides.
        views: Cameras; by default those of the first episode.
        state: Columns of the robot's state; by default none.
        n_obs_steps: Frames of a window beside the episode's first; by default as in ``Window``.
        frame_gap_s: Seconds between them; by default the window spans half of the median episode.
        hidden_dim: Numbers in a token of the transformers; by default as in ``SarmShape``.
        n_layers: Layers of each transformer; by default as in ``SarmShape``.
        n_heads: Attention heads of each layer; by default as in ``SarmShape``.
        n_augmentations: Augmented copies of every episode (shifted camera, other light) to train on besides.
        train_config: Steps, learning rate, batch size and so on.
        eval_datasets: Held-out datasets to evaluate on.
        val_fraction: Without them: the share of scenes kept apart for evaluation, 0 <= share < 1.
        features_dir: Where encoded frames are kept; by default ``encoded`` in ``folder``.
        threads: CPU threads.
        device: Device of the encoder: ``"auto"``, ``"cpu"``, ``"cuda"``.
    """

    datasets: tuple[Path, ...]
    folder: Path
    labels: Path | None = None
    sparse_labels: Path | None = None
    encoder: str = "embedded"
    mode: SarmMode = "dense"
    progress: str | None = None
    causal: bool = False
    views: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    n_obs_steps: int | None = None
    frame_gap_s: float | None = None
    hidden_dim: int | None = None
    n_layers: int | None = None
    n_heads: int | None = None
    n_augmentations: int = 0
    train_config: SarmTrainConfig = SarmTrainConfig()
    eval_datasets: tuple[Path, ...] = ()
    val_fraction: float = 0.1
    features_dir: Path | None = None
    threads: int = field(default_factory=default_threads)
    device: str = "auto"

    def __post_init__(self) -> None:
        from stepscore.models.sarm import SarmMode

        if self.mode not in get_args(SarmMode):
            raise UnknownNameError("mode", self.mode, get_args(SarmMode))
        if self.labels is not None and len(self.datasets) != 1:
            raise OptionError("--labels belongs to one dataset; several bring their own labels.parquet.")
        if self.progress == "linear" and self.mode != "single":
            raise OptionError("Frame-index labels have no stages: --progress linear needs --mode single.")
        if self.sparse_labels is not None and self.mode != "dual":
            raise OptionError("--sparse-labels is for --mode dual.")
        if not 0 <= self.val_fraction < 1 or self.n_augmentations < 0:
            raise OptionError(
                f"val_fraction is {self.val_fraction} and n_augmentations {self.n_augmentations}; allowed are "
                "0 <= val_fraction < 1 and n_augmentations from 0."
            )
