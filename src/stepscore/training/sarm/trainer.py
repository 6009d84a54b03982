"""Training SARM on encoded episodes: the loss, the optimizer steps, and a state to resume from.

L = sum over heads [ CE(stage) + MSE(share) ], each the mean over slots that are not padding and whose label is
known. The share of the stage that is done is predicted given the labelled stage in three of four windows, and else
given the stage that the first network predicts, as it is in use.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  # the usual name
from torch import Tensor

from stepscore.models.sarm import Float32, SarmConfig, SarmNetwork
from stepscore.training.sarm.batches import Batch, PerturbationConfig, make_batch, sample_window
from stepscore.training.sarm.config import SarmTrainConfig
from stepscore.training.sarm.dataset import TrainingEpisode
from stepscore.training.trainer import Trainer, adamw


def set_scaling(network: SarmNetwork, episodes: Sequence[TrainingEpisode]) -> None:
    """Set the means and deviations by which the network scales features and state; they are saved with it."""
    count = sum(len(episode.times) for episode in episodes)
    mean = sum(episode.features[0].astype(np.float64).sum(0) for episode in episodes) / count
    squares = sum(((e.features[0].astype(np.float64) - mean) ** 2).sum(0) for e in episodes) / count
    network.feature_mean.copy_(torch.from_numpy(np.asarray(mean)))
    network.feature_std.copy_(torch.from_numpy(np.sqrt(np.asarray(squares)) + 1e-3))
    if network.shape.state:
        rows = np.concatenate([episode.state for episode in episodes])
        network.state_mean.copy_(torch.from_numpy(rows.mean(0)))
        network.state_std.copy_(torch.from_numpy(rows.std(0) + 1e-3))


def sarm_loss(
    network: SarmNetwork, batch: Batch, given_true_stage: Tensor
) -> tuple[Tensor, dict[str, float]]:
    """Return the loss of a batch, and its parts by name.

    Args:
        network: The two networks, in training.
        batch: Windows and targets.
        given_true_stage: Windows whose share is predicted given the labelled stage, (B,) bool.
    """
    parts: dict[str, Tensor] = {}
    assumed = {}
    for head, log_probs in network.stages(batch.windows).items():
        stage = batch.stages[head]
        known = stage >= 0
        if known.any() and network.shape.stages[head] > 1:
            parts[f"{head}_stage"] = F.nll_loss(log_probs[known], stage[known])
        assumed[head] = torch.where(given_true_stage[:, None] & known, stage, log_probs.detach().argmax(-1))
    for head, predicted in network.shares(batch.windows, assumed).items():
        share = batch.shares[head]
        known = (batch.stages[head] >= 0) & ~share.isnan()
        if known.any():
            parts[f"{head}_share"] = F.mse_loss(predicted[known], share[known])
    total = torch.stack(list(parts.values())).sum() if parts else torch.zeros((), requires_grad=True)
    return total, {name: float(part.detach()) for name, part in parts.items()}


@dataclass
class SarmTrainer(Trainer):
    """The trainer of SARM's two networks.

    Attributes:
        network: The networks, scaled by :func:`set_scaling`.
        model_config: The checkpoint's config.
        episodes: Encoded episodes with targets.
        text_features: The encoder's features of every instruction that a window may have, by text.
        instructions: Instructions of each task.
        random_instructions: Instructions of no task.
        train_config: Steps, learning rate and so on.
        folder: Where the state and the logs are kept.
    """

    network: SarmNetwork
    model_config: SarmConfig
    episodes: Sequence[TrainingEpisode]
    text_features: Mapping[str, Float32]
    instructions: Mapping[str, Sequence[str]]
    random_instructions: Sequence[str]
    train_config: SarmTrainConfig
    folder: Path
    step: int = 0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        config = self.train_config
        self.optimizer = adamw(self.network.parameters(), config.lr, config.weight_decay, (0.9, 0.999))

    def loss(self) -> tuple[Tensor, Mapping[str, float]]:
        """Return the loss of the next step's windows."""
        config = self.train_config
        rng = np.random.default_rng([config.seed, self.step])
        perturbation = PerturbationConfig(config.rewind_prob, config.language_perturbation_prob)
        sampled = [
            sample_window(
                number,
                self.episodes[number],
                self.model_config.window,
                perturbation,
                self.instructions,
                self.random_instructions,
                rng,
            )
            for number in rng.integers(len(self.episodes), size=config.batch_size).tolist()
        ]
        batch = make_batch(sampled, self.episodes, self.model_config, self.text_features, rng)
        given_true_stage = torch.from_numpy(rng.random(config.batch_size) < config.true_stage_prob)
        self.network.train()
        with torch.random.fork_rng(devices=[]):
            # Dropout too is drawn from the step's number, so that a resumed run draws the same.
            torch.manual_seed(int(rng.integers(2**62)))
            return sarm_loss(self.network, batch, given_true_stage)

    def settings(self) -> dict[str, Any]:
        """Return the training config and the checkpoint's config, which must be the same for a run to resume."""
        settings = {**asdict(self.train_config), "config": asdict(self.model_config)}
        plain: dict[str, Any] = json.loads(json.dumps(settings))
        plain["config"].pop("facts")
        return plain

    def state(self) -> dict[str, Any]:
        """Return the networks' weights."""
        return {"network": self.network.state_dict()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore the networks' weights."""
        self.network.load_state_dict(state["network"])
