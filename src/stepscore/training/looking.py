"""The first lessons, for the eyes alone: what is where, what is true, told from one pair of frames.

A vision tower learns this several times faster from numbers than through the words of a language model that
knows nothing yet. The heads are thrown away; what the tower has learned to see stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  # the usual name
from torch import Tensor, nn

from stepscore.models.qwen3vl_inputs import Geometry, patches
from stepscore.training.augment import augmented
from stepscore.training.films import LabelledFilm
from stepscore.training.vision_pass import VisionPass
from stepscore.types import FloatArray

TASK_SHARE, LATE_SHARE = 0.3, 0.4
"""Weight of the task's name beside the rest, and share of pairs from the second half of a film alone."""


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


class LookHeads(nn.Module):
    """Answers about one pair of frames from its tokens.

    Args:
        width: Numbers of a pair's tokens together.
        states: Recorded numbers to be told.
        facts: Tasks and subgoals to be told.
    """

    def __init__(self, width: int, states: int, facts: Facts) -> None:
        super().__init__()
        self.inner = nn.Linear(width, 256)
        self.states = nn.Linear(256, states)
        self.task = nn.Linear(256, len(facts.tasks))
        self.subgoals = nn.Linear(256, facts.subgoals)

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Numbers, task and subgoals, each a row a pair."""
        hidden = F.gelu(self.inner(tokens))
        return self.states(hidden), self.task(hidden), self.subgoals(hidden)


@dataclass(frozen=True, eq=False)
class Looking:
    """Lessons about single pairs of frames.

    Attributes:
        films: What is looked at.
        facts: What is asked.
        heads: What answers.
        vision: The tower.
        geometry: How pictures are cut up.
        pairs: Pairs of a step.
    """

    films: Sequence[LabelledFilm]
    facts: Facts
    heads: LookHeads
    vision: VisionPass
    geometry: Geometry
    pairs: int = 64

    def loss(
        self, rng: np.random.Generator, numbers: Sequence[FloatArray]
    ) -> tuple[Tensor, Mapping[str, float]]:
        """The loss of one step, and its parts.

        Args:
            rng: What draws.
            numbers: Normalised recorded numbers of every film, a row a frame.
        """
        device = self.heads.inner.weight.device
        pictures, states, tasks = [], [], []
        truths = np.full((self.pairs, self.facts.subgoals), np.nan, dtype=np.float32)
        for row, number in enumerate(rng.integers(len(self.films), size=self.pairs)):
            film = self.films[number]
            # Done and nearly done look alike, and both are found near the end.
            first = len(film) // 2 if rng.random() < LATE_SHARE else 0
            at = int(rng.integers(first, len(film)))
            views = list(film.views)
            frames = film.views[views[int(rng.integers(len(views)))]][[max(0, at - 1), at]]
            pictures.append(augmented(frames, rng, share=0.4))
            states.append(numbers[number][at])
            tasks.append(self.facts.tasks[film.instruction])
            start = self.facts.first[film.instruction]
            truths[row, start : start + film.truths.shape[1]] = film.truths[at]
        pixels = torch.from_numpy(patches(np.concatenate(pictures), self.geometry)).to(device)
        tokens, deep = self.vision(pixels)
        # The layers below are read by the language model too; each must make sense by itself.
        told = [self.heads(t.reshape(self.pairs, -1)) for t in (tokens, *deep)]
        wanted = torch.from_numpy(np.stack(states)).float().to(device)
        true = torch.from_numpy(truths).to(device)
        known = ~torch.isnan(true)
        named = torch.tensor(tasks, device=device)
        parts = {
            "states": torch.stack([F.smooth_l1_loss(s, wanted) for s, _, _ in told]).mean(),
            "tasks": TASK_SHARE * torch.stack([F.cross_entropy(t, named) for _, t, _ in told]).mean(),
            "subgoals": torch.stack(
                [F.binary_cross_entropy_with_logits(g[known], true[known]) for _, _, g in told]
            ).mean(),
        }
        return torch.stack(list(parts.values())).sum(), {k: float(v.detach()) for k, v in parts.items()}
