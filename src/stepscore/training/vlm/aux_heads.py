"""Auxiliary heads that predict the labels of every frame as numbers; they are dropped after training.

Numbers give a dense signal, every label at every frame, where text asks about one thing at a time. A vision
encoder or a language model that has to predict them has the information at hand when a sentence asks for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  # the usual name
from torch import Tensor, nn

from stepscore.training.vlm.data.dataset import LabelledVideo
from stepscore.types import FloatArray

TASK_WEIGHT, DONE_WEIGHT = 0.3, 0.5
"""Loss weights of the task's name and of its success, beside 1 for states and subgoals."""


@dataclass(frozen=True, eq=False)
class StateScaling:
    """How recorded states and progress are brought to mean 0 and standard deviation 1.

    Attributes:
        mean: Mean of each number over all frames.
        scale: Its standard deviation.
    """

    mean: FloatArray
    scale: FloatArray

    @classmethod
    def fit(cls, videos: Sequence[LabelledVideo]) -> StateScaling:
        """Return the scaling of these videos."""
        every = np.concatenate([_states(video) for video in videos])
        return cls(np.nanmean(every, 0), np.nanstd(every, 0) + 1e-3)

    def of(self, video: LabelledVideo) -> FloatArray:
        """Return the scaled states of each frame, and its progress last, (n, S + 1); NaN where it has no label."""
        return (_states(video) - self.mean) / self.scale


def _states(video: LabelledVideo) -> FloatArray:
    return np.column_stack([video.states, video.potential])


@dataclass(frozen=True, eq=False)
class AuxLabelSpace:
    """Class and column numbers of the labels that the heads predict.

    Attributes:
        task_ids: Class of each instruction.
        first_subgoal: Column of each instruction's first subgoal.
        n_subgoals: Columns in all.
    """

    task_ids: Mapping[str, int]
    first_subgoal: Mapping[str, int]
    n_subgoals: int


def label_space_of(videos: Sequence[LabelledVideo]) -> AuxLabelSpace:
    """Number the tasks and subgoals of these videos."""
    counts = {video.instruction: len(video.subgoals) for video in videos}
    task_ids, first_subgoal, at = {}, {}, 0
    for number, instruction in enumerate(sorted(counts)):
        task_ids[instruction], first_subgoal[instruction] = number, at
        at += counts[instruction]
    return AuxLabelSpace(task_ids, first_subgoal, at)


class AuxPredictions(NamedTuple):
    """Predictions of some frames: states, and logits of the task, of each subgoal, of the task being done.

    The last is one for all tasks: a single direction in which a network finds that whatever is to be done here
    is done.
    """

    states: Tensor
    task: Tensor
    subgoals: Tensor
    done: Tensor


class AuxHead(nn.Module):
    """Predicts the labels of a pair of frames from a feature vector.

    Args:
        in_features: Length of the feature vector.
        n_states: How many recorded numbers to predict.
        label_space: Tasks and subgoals to predict.
    """

    def __init__(self, in_features: int, n_states: int, label_space: AuxLabelSpace) -> None:
        super().__init__()
        self.inner = nn.Linear(in_features, 256)
        self.states = nn.Linear(256, n_states)
        self.task = nn.Linear(256, len(label_space.task_ids))
        self.subgoals = nn.Linear(256, label_space.n_subgoals)
        self.done = nn.Linear(256, 1)

    def forward(self, features: Tensor) -> AuxPredictions:
        """Return predictions with one row a pair; features are (pairs, in_features)."""
        hidden = F.gelu(self.inner(features))
        return AuxPredictions(
            self.states(hidden), self.task(hidden), self.subgoals(hidden), self.done(hidden)[:, 0]
        )


class VisionAuxHeads(nn.Module):
    """Predicts the labels of a pair of frames from the vision encoder's tokens, in two ways.

    From all tokens concatenated, where each position has weights of its own: that is learned soonest. And from
    their mean, which is what a language model's attention can use: it reads all positions with the same weights,
    so each token must carry what it is to find there.

    Args:
        hidden_size: Length of a token.
        tokens: Tokens of a pair.
        n_states: How many recorded numbers to predict.
        label_space: Tasks and subgoals to predict.
    """

    def __init__(self, hidden_size: int, tokens: int, n_states: int, label_space: AuxLabelSpace) -> None:
        super().__init__()
        self._shape = (tokens, hidden_size)
        self.concat = AuxHead(hidden_size * tokens, n_states, label_space)
        self.mean = AuxHead(hidden_size, n_states, label_space)

    @property
    def device(self) -> torch.device:
        """The device of its weights."""
        return self.mean.inner.weight.device

    def forward(self, tokens: Tensor) -> tuple[AuxPredictions, AuxPredictions]:
        """Return both predictions with one row a pair; tokens are (pairs, tokens x hidden_size)."""
        return self.concat(tokens), self.mean(tokens.reshape(len(tokens), *self._shape).mean(1))


class AuxTargets:
    """Labels of some frames, collected frame by frame.

    Args:
        label_space: Class and column numbers.
        scaling: Scaling of the recorded states.
    """

    def __init__(self, label_space: AuxLabelSpace, scaling: StateScaling) -> None:
        self._space, self._scaling = label_space, scaling
        self._states: list[FloatArray] = []
        self._tasks: list[int] = []
        self._subgoals: list[FloatArray] = []
        self._done: list[float] = []

    def add(self, video: LabelledVideo, frames: Sequence[int]) -> None:
        """Add frames of a video.

        Args:
            video: The video.
            frames: Indices of the frames.
        """
        start = self._space.first_subgoal[video.instruction]
        states = self._scaling.of(video)
        for at in frames:
            row = np.full(self._space.n_subgoals, np.nan)
            row[start : start + video.subgoals_true.shape[1]] = video.subgoals_true[at]
            self._states.append(states[at])
            self._tasks.append(self._space.task_ids[video.instruction])
            self._subgoals.append(row)
            self._done.append(float(video.success[at]))

    def losses(self, predictions: Sequence[AuxPredictions]) -> dict[str, Tensor]:
        """Return the losses by name, each a mean over all heads; what has no label has no loss."""
        device = predictions[0].states.device
        states = torch.from_numpy(np.stack(self._states)).float().to(device)
        tasks = torch.tensor(self._tasks, device=device)
        done = torch.tensor(self._done, dtype=torch.float32, device=device)
        subgoals = torch.from_numpy(np.stack(self._subgoals)).float().to(device)
        bce = F.binary_cross_entropy_with_logits
        losses = {}
        if (known := ~torch.isnan(states)).any():
            losses["states"] = [F.smooth_l1_loss(p.states[known], states[known]) for p in predictions]
        losses["tasks"] = [TASK_WEIGHT * F.cross_entropy(p.task, tasks) for p in predictions]
        if (known := ~torch.isnan(done)).any():
            losses["done"] = [DONE_WEIGHT * bce(p.done[known], done[known]) for p in predictions]
        if (known := ~torch.isnan(subgoals)).any():
            losses["subgoals"] = [bce(p.subgoals[known], subgoals[known]) for p in predictions]
        return {name: torch.stack(each).mean() for name, each in losses.items()}
