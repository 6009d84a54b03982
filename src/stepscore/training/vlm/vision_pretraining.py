"""The first lessons, for the eyes alone: what is where, what is true, told from one pair of frames.

A vision tower learns this several times faster from numbers than through the words of a language model that
knows nothing yet. The heads are thrown away; what the tower has learned to see stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from stepscore.models.qwen3vl import Geometry, patches
from stepscore.training.augment import augmented
from stepscore.training.vlm.aux_heads import Facts, Known, TowerHeads
from stepscore.training.vlm.data.dataset import LabelledFilm
from stepscore.training.vlm.vision_forward import VisionPass
from stepscore.types import FloatArray

LATE_SHARE = 0.4
"""Share of pairs from the second half of a film alone."""


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
    heads: TowerHeads
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
        pictures, known = [], Known(self.facts)
        for number in rng.integers(len(self.films), size=self.pairs).tolist():
            film = self.films[number]
            # Done and nearly done look alike, and both are found near the end.
            first = len(film) // 2 if rng.random() < LATE_SHARE else 0
            at = int(rng.integers(first, len(film)))
            views = list(film.views)
            frames = film.views[views[int(rng.integers(len(views)))]][[max(0, at - 1), at]]
            pictures.append(augmented(frames, rng, share=0.4))
            known.add(film, numbers[number], [at])
        pixels = torch.from_numpy(patches(np.concatenate(pictures), self.geometry))
        tokens, deep = self.vision(pixels.to(self.heads.device))
        # The layers below are read by the language model too; each must make sense by itself.
        parts = known.losses(
            [told for t in (tokens, *deep) for told in self.heads(t.reshape(self.pairs, -1))]
        )
        return torch.stack(list(parts.values())).sum(), {k: float(v.detach()) for k, v in parts.items()}
