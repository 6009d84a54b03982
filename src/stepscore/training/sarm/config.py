"""The options of ``stepscore train sarm``; importing them imports neither NumPy nor torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

from stepscore._options import MANY, MAX_SEED, Range
from stepscore.errors import OptionError, UnknownNameError
from stepscore.training.job import check_single_source, default_threads
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
        batch_size: Windows in a step.
        lr: Peak learning rate, which decays to a tenth by a cosine.
        warmup_steps: Steps in which it rises.
        weight_decay: Weight decay of matrices.
        true_stage_prob: Share of windows whose progress is predicted given the labelled stage, not the predicted.
        rewind_prob: Share of windows that end with frames played backwards.
        language_perturbation_prob: Share of windows with another task's instruction or a random one.
        save_every: Steps between saves.
        seed: Random seed of weights and batches.
    """

    steps: Annotated[int, Range(1, MANY)] = 2000
    batch_size: Annotated[int, Range(1, 100_000)] = 32
    lr: Annotated[float, Range(0, 1000, above=True)] = 3e-4
    warmup_steps: int = 100
    weight_decay: float = 1e-3
    true_stage_prob: float = 0.75
    rewind_prob: Annotated[float, Range(0, 1)] = 0.8
    language_perturbation_prob: Annotated[float, Range(0, 1)] = 0.2
    save_every: int = 500
    seed: Annotated[int, Range(0, MAX_SEED)] = 0

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
        labels: A labels file for a single dataset; by default the one next to each.
        subgoals: A subgoals file for a single dataset; by default the one next to each.
        success_from_stages: Take the last stage for success where no label says it.
        sparse_labels: A labels file with the sparse stages, for the mode ``dual``.
        encoder: The frozen encoder: ``embedded`` or ``hf/PATH-OR-ID``.
        mode: ``single`` (no stages), ``dense`` (stages) or ``dual`` (sparse and dense stages).
        progress: ``stages``, ``linear`` or a labelled potential's name. Default: the only one labelled, else
            ``stages``.
        causal: Use windows with only past frames, for online use.
        views: Cameras. Default: those of the first episode.
        state: Columns of the robot's state. Default: none.
        n_obs_steps: Frames of a window in addition to the episode's first (8).
        frame_gap_s: Seconds between the frames of a window. Default: the window spans half of the median episode.
        hidden_dim: Hidden dim of the transformers (128), the paper's is 768.
        n_layers: Layers of each transformer (3), the paper's is 8.
        n_heads: Attention heads of each layer (4), the paper's is 12.
        n_augmentations: Extra copies of every episode, with shifted camera and other light.
        train_config: Steps, learning rate, batch size and so on.
        eval_datasets: Held-out datasets, evaluated at every save.
        val_fraction: Share of scenes to evaluate on without ``eval_datasets``, below 1.
        features_dir: Where encoded frames are kept. Default: ``encoded`` in ``folder``.
        threads: CPU threads.
        device: Device of the encoder: ``"auto"``, ``"cpu"``, ``"cuda"``.
    """

    datasets: tuple[Path, ...]
    folder: Path
    labels: Path | None = None
    subgoals: Path | None = None
    success_from_stages: bool = False
    sparse_labels: Path | None = None
    encoder: str = "embedded"
    mode: SarmMode = "dense"
    progress: str | None = None
    causal: bool = False
    views: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    n_obs_steps: Annotated[int | None, Range(1, 10_000)] = None
    frame_gap_s: Annotated[float | None, Range(0, 1e6, above=True)] = None
    hidden_dim: Annotated[int | None, Range(1, 65_536)] = None
    n_layers: Annotated[int | None, Range(1, 1000)] = None
    n_heads: Annotated[int | None, Range(1, 1000)] = None
    n_augmentations: Annotated[int, Range(0, 1000)] = 0
    train_config: SarmTrainConfig = SarmTrainConfig()
    eval_datasets: tuple[Path, ...] = ()
    val_fraction: Annotated[float, Range(0, 1)] = 0.1
    features_dir: Path | None = None
    threads: Annotated[int, Range(1, 1024)] = field(default_factory=default_threads)
    device: str = "auto"

    def __post_init__(self) -> None:
        from stepscore.models.sarm import SarmMode

        if self.mode not in get_args(SarmMode):
            raise UnknownNameError("mode", self.mode, get_args(SarmMode))
        check_single_source(self.labels, self.subgoals, len(self.datasets))
        if self.progress == "linear" and self.mode != "single":
            raise OptionError("Frame-index labels have no stages: -T progress=linear needs -T mode=single.")
        if self.sparse_labels is not None and self.mode != "dual":
            raise OptionError("-T sparse-labels needs -T mode=dual.")
        if not 0 <= self.val_fraction < 1 or self.n_augmentations < 0:
            raise OptionError(
                f"val_fraction is {self.val_fraction} and n_augmentations {self.n_augmentations}; allowed are "
                "0 <= val_fraction < 1 and n_augmentations from 0."
            )
