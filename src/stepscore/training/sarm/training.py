"""Training SARM on films that an encoder has seen: the loss, the steps, and a state to go on from.

L = sum over heads [ CE(stage) + MSE(share) ], each the mean over slots that are no padding and whose label is
known. The share is asked given the right stage in three of four windows, and else given the stage that the first
network thinks likeliest, as it will be in use.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  # the usual name
from torch import Tensor

from stepscore.errors import OptionError
from stepscore.models.sarm import Float32, SarmConfig, SarmNetwork
from stepscore.training.sarm.batches import Batch, Lies, draw, make_batch
from stepscore.training.sarm.dataset import SarmFilm
from stepscore.training.trainer import Trainer, adamw


@dataclass(frozen=True)
class TrainConfig:
    """How training goes.

    Attributes:
        steps: Steps in all.
        batch: Windows in each.
        rate: Highest learning rate; after the first steps it falls to a tenth by a cosine.
        warmup: Steps in which it rises.
        decay: Weight decay of matrices.
        right_stage: Share of windows whose progress is asked given the right stage.
        rewind: Share of windows that are rewound.
        wrong_text: Share of windows with the text of something else.
        save_every: Steps between saves.
        seed: Of weights, order and choices.
    """

    steps: int = 2000
    batch: int = 32
    rate: float = 3e-4
    warmup: int = 100
    decay: float = 1e-3
    right_stage: float = 0.75
    rewind: float = 0.8
    wrong_text: float = 0.2
    save_every: int = 500
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "save_every", "warmup"):
            if getattr(self, name) < 1:
                raise OptionError(f"{name} is {getattr(self, name)}; it must be at least 1.")
        for name in ("right_stage", "rewind", "wrong_text"):
            if not 0 <= getattr(self, name) <= 1:
                raise OptionError(f"{name} is {getattr(self, name)}; it is a share, 0..1.")

    @property
    def total_steps(self) -> int:
        """Steps in all."""
        return self.steps

    def lr_at(self, step: int) -> float:
        """The learning rate of a step."""
        risen = min(1.0, (step + 1) / self.warmup)
        return self.rate * risen * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * min(1.0, step / self.steps))))


def set_scaling(network: SarmNetwork, films: Sequence[SarmFilm]) -> None:
    """Put means and deviations of what was seen and recorded into the network, to be saved with it."""
    count = sum(len(film.times) for film in films)
    sums = [sum(film.features[0].astype(np.float64).sum(0) for film in films) / count]
    squares = sum(((film.features[0].astype(np.float64) - sums[0]) ** 2).sum(0) for film in films) / count
    network.feature_mean.copy_(torch.from_numpy(np.asarray(sums[0])))
    network.feature_std.copy_(torch.from_numpy(np.sqrt(np.asarray(squares)) + 1e-3))
    if network.shape.state:
        rows = np.concatenate([film.state for film in films])
        network.state_mean.copy_(torch.from_numpy(rows.mean(0)))
        network.state_std.copy_(torch.from_numpy(rows.std(0) + 1e-3))


def sarm_loss(network: SarmNetwork, batch: Batch, given: Tensor) -> tuple[Tensor, dict[str, float]]:
    """The loss of a batch, and its parts by name.

    Args:
        network: The network.
        batch: Windows and targets.
        given: Windows whose progress is asked given the right stage, (B,).
    """
    told = network.stages(batch.windows)
    parts: dict[str, Tensor] = {}
    supposed = {}
    for head, logs in told.items():
        stage = batch.stages[head]
        known = stage >= 0
        if known.any() and network.shape.stages[head] > 1:
            parts[f"{head}_stage"] = F.nll_loss(logs[known], stage[known])
        supposed[head] = torch.where(given[:, None] & known, stage, logs.detach().argmax(-1))
    for head, found in network.shares(batch.windows, supposed).items():
        share = batch.shares[head]
        known = (batch.stages[head] >= 0) & ~share.isnan()
        if known.any():
            parts[f"{head}_share"] = F.mse_loss(found[known], share[known])
    total = torch.stack(list(parts.values())).sum() if parts else torch.zeros((), requires_grad=True)
    return total, {name: float(part.detach()) for name, part in parts.items()}


@dataclass
class SarmTraining(Trainer):
    """A training run that can be stopped and taken up again.

    Attributes:
        network: The network, scaled by :func:`set_scaling`.
        config: What it is.
        films: What it learns from.
        read: What the encoder read in every text that may be said.
        texts: Instructions of each task.
        senseless: Texts of no task.
        train_config: Steps, learning rate and so on.
        folder: Where its state and log are kept.
    """

    network: SarmNetwork
    config: SarmConfig
    films: Sequence[SarmFilm]
    read: Mapping[str, Float32]
    texts: Mapping[str, Sequence[str]]
    senseless: Sequence[str]
    train_config: TrainConfig
    folder: Path
    step: int = 0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        how = self.train_config
        self.optimizer = adamw(self.network.parameters(), how.rate, how.decay, (0.9, 0.999))

    def loss(self) -> tuple[Tensor, Mapping[str, float]]:
        """The loss of the windows that are due."""
        recipe = self.train_config
        rng = np.random.default_rng([recipe.seed, self.step])
        lies = Lies(recipe.rewind, recipe.wrong_text)
        window = self.config.window
        drawn = [
            draw(number, self.films[number], window, lies, self.texts, self.senseless, rng)
            for number in rng.integers(len(self.films), size=recipe.batch).tolist()
        ]
        batch = make_batch(drawn, self.films, self.config, self.read, rng)
        given = torch.from_numpy(rng.random(recipe.batch) < recipe.right_stage)
        self.network.train()
        with torch.random.fork_rng(devices=[]):
            # Dropout too is drawn from the step's number, so that a run taken up again draws the same.
            torch.manual_seed(int(rng.integers(2**62)))
            return sarm_loss(self.network, batch, given)

    def settings(self) -> dict[str, Any]:
        """What must be the same for a run to go on."""
        plain: dict[str, Any] = json.loads(json.dumps({**asdict(self.train_config), "config": asdict(self.config)}))
        plain["config"].pop("facts")
        return plain

    def state(self) -> dict[str, Any]:
        """The network."""
        return {"network": self.network.state_dict()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Put what was learned back."""
        self.network.load_state_dict(state["network"])
