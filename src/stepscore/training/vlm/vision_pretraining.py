"""Vision pretraining: train only the vision encoder, to predict the labels of one pair of frames.

It learns this several times faster from numbers than through the text of a language model that knows nothing yet.
The heads are dropped afterwards; the encoder's weights stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from stepscore.models.qwen3vl import Geometry, patches
from stepscore.training.augment import augmented
from stepscore.training.vlm.aux_heads import AuxLabelSpace, AuxTargets, StateScaling, VisionAuxHeads
from stepscore.training.vlm.data.dataset import LabelledVideo
from stepscore.training.vlm.vision_forward import BatchedVisionEncoder

SECOND_HALF_FRACTION = 0.4
"""Fraction of pairs drawn only from the second half of a video."""
FRAME_GAPS, GAP_PROBS = (0, 1, 2, 4, 8), (0.35, 0.35, 0.1, 0.1, 0.1)
"""Frames between the two of a pair, and how likely each is: questions with single images show one frame twice, and
clips sample at several rates."""


@dataclass(frozen=True, eq=False)
class VisionPretraining:
    """Draws pairs of frames and computes the loss of the heads on the vision encoder.

    Attributes:
        videos: The training videos.
        label_space: Tasks and subgoals to predict.
        heads: The heads that predict them.
        scaling: Scaling of the recorded states.
        vision: The vision encoder.
        geometry: Its patch sizes.
        batch_size: Pairs of frames in a step.
    """

    videos: Sequence[LabelledVideo]
    label_space: AuxLabelSpace
    heads: VisionAuxHeads
    scaling: StateScaling
    vision: BatchedVisionEncoder
    geometry: Geometry
    batch_size: int = 64

    def loss(self, rng: np.random.Generator) -> tuple[Tensor, Mapping[str, float]]:
        """Return the loss of one step, and its parts by name.

        Args:
            rng: Random generator.
        """
        images, targets = [], AuxTargets(self.label_space, self.scaling)
        for number in rng.integers(len(self.videos), size=self.batch_size).tolist():
            video = self.videos[number]
            # Done and nearly done look alike, and both are found near the end.
            first = len(video) // 2 if rng.random() < SECOND_HALF_FRACTION else 0
            at = int(rng.integers(first, len(video)))
            views = list(video.views)
            gap = int(rng.choice(FRAME_GAPS, p=GAP_PROBS))
            frames = video.views[views[int(rng.integers(len(views)))]][[max(0, at - gap), at]]
            images.append(augmented(frames, rng, share=0.4))
            targets.add(video, [at])
        pixels = torch.from_numpy(patches(np.concatenate(images), self.geometry))
        tokens, deep = self.vision(pixels.to(self.heads.device))
        # The language model reads the deepstack layers too; each must predict the labels.
        predictions = [p for layer in (tokens, *deep) for p in self.heads(layer.reshape(self.batch_size, -1))]
        parts = targets.losses(predictions)
        return torch.stack(list(parts.values())).sum(), {k: float(v.detach()) for k, v in parts.items()}
