"""What can be told of every frame in numbers, and the heads that tell it; thrown away after training.

Numbers reach a network densely, everything at every frame; words tell one thing at a time. A tower, or a language
model, that has to tell these of a frame has them at hand when a sentence asks for one of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  # the usual name
from torch import Tensor, nn

from stepscore.training.vlm.data.dataset import LabelledFilm
from stepscore.types import FloatArray

TASK_SHARE, DONE_SHARE = 0.3, 0.5
"""Weights of the task's name and of its being done, beside the rest."""


@dataclass(frozen=True, eq=False)
class Facts:
    """What can be asked of a frame of any film, as columns.

    Attributes:
        tasks: Number of each instruction.
        first: Column of each instruction's first subgoal.
        subgoals: Columns in all.
    """

    tasks: Mapping[str, int]
    first: Mapping[str, int]
    subgoals: int


def facts_of(films: Sequence[LabelledFilm]) -> Facts:
    """Columns for the tasks and subgoals of these films."""
    counts = {film.instruction: len(film.subgoals) for film in films}
    tasks, first, at = {}, {}, 0
    for number, instruction in enumerate(sorted(counts)):
        tasks[instruction], first[instruction] = number, at
        at += counts[instruction]
    return Facts(tasks, first, at)


class Told(NamedTuple):
    """What heads tell of some frames: numbers, and logits of the task, of each subgoal, of the task being done.

    The last is one for all tasks: a single direction in which a network finds that whatever is to be done here
    is done.
    """

    states: Tensor
    task: Tensor
    subgoals: Tensor
    done: Tensor


class FactHeads(nn.Module):
    """Tell the facts of a pair of frames from what a network made of it.

    Args:
        width: Numbers a pair has become.
        states: Recorded numbers to be told.
        facts: Tasks and subgoals to be told.
    """

    def __init__(self, width: int, states: int, facts: Facts) -> None:
        super().__init__()
        self.inner = nn.Linear(width, 256)
        self.states = nn.Linear(256, states)
        self.task = nn.Linear(256, len(facts.tasks))
        self.subgoals = nn.Linear(256, facts.subgoals)
        self.done = nn.Linear(256, 1)

    def forward(self, seen: Tensor) -> Told:
        """What is told, each a row a pair."""
        hidden = F.gelu(self.inner(seen))
        return Told(self.states(hidden), self.task(hidden), self.subgoals(hidden), self.done(hidden)[:, 0])


class TowerHeads(nn.Module):
    """Tell the facts of a pair of frames from the vision tower's tokens, in two ways.

    From all tokens side by side, where each place has weights of its own: that is learned soonest. And from their
    mean, which is what a language model's attention can take up: it reads all places with the same weights, so
    what it is to find there, each token must carry.

    Args:
        hidden: Numbers of a token.
        tokens: Tokens of a pair.
        states: Recorded numbers to be told.
        facts: Tasks and subgoals to be told.
    """

    def __init__(self, hidden: int, tokens: int, states: int, facts: Facts) -> None:
        super().__init__()
        self._shape = (tokens, hidden)
        self.beside = FactHeads(hidden * tokens, states, facts)
        self.mean = FactHeads(hidden, states, facts)

    @property
    def device(self) -> torch.device:
        """Where its weights are."""
        return self.mean.inner.weight.device

    def forward(self, tokens: Tensor) -> tuple[Told, Told]:
        """What is told in either way, each a row a pair; tokens are (pairs, tokens x hidden)."""
        return self.beside(tokens), self.mean(tokens.reshape(len(tokens), *self._shape).mean(1))


class Known:
    """What is true of some frames, gathered frame by frame.

    Args:
        facts: The columns.
    """

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._states: list[FloatArray] = []
        self._tasks: list[int] = []
        self._truths: list[FloatArray] = []
        self._done: list[bool] = []

    def add(self, film: LabelledFilm, states: FloatArray, frames: Sequence[int]) -> None:
        """Frames of a film.

        Args:
            film: The film.
            states: Its normalised recorded numbers, a row a frame.
            frames: Which frames.
        """
        start = self._facts.first[film.instruction]
        for at in frames:
            row = np.full(self._facts.subgoals, np.nan)
            row[start : start + film.truths.shape[1]] = film.truths[at]
            self._states.append(states[at])
            self._tasks.append(self._facts.tasks[film.instruction])
            self._truths.append(row)
            self._done.append(bool(film.success[at]))

    def losses(self, told: Sequence[Told]) -> dict[str, Tensor]:
        """How wrong the heads are, a mean over all that tell."""
        device = told[0].states.device
        states = torch.from_numpy(np.stack(self._states)).float().to(device)
        tasks = torch.tensor(self._tasks, device=device)
        done = torch.tensor(self._done, dtype=torch.float32, device=device)
        truths = torch.from_numpy(np.stack(self._truths)).float().to(device)
        known = ~torch.isnan(truths)
        weigh = F.binary_cross_entropy_with_logits
        losses = {
            "states": [F.smooth_l1_loss(one.states, states) for one in told],
            "tasks": [TASK_SHARE * F.cross_entropy(one.task, tasks) for one in told],
            "done": [DONE_SHARE * weigh(one.done, done) for one in told],
        }
        if known.any():
            losses["subgoals"] = [weigh(one.subgoals[known], truths[known]) for one in told]
        return {name: torch.stack(each).mean() for name, each in losses.items()}
