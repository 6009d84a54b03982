"""The training config of a vision-language judge: steps, learning-rate schedule, what batches are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from stepscore.errors import OptionError
from stepscore.training.schedule import cosine_lr

TrainDtype = Literal["float32", "bfloat16"]

CLIPS_PER_BATCH: Mapping[int, int] = {1: 40, 2: 20, 4: 10, 8: 5, 12: 3, 19: 2}
"""Blocks of a clip, and how many such clips make a batch: about forty blocks. Short ones show many scenes at once;
from long ones it is learned that the last block counts."""
CLIP_LENGTH_PROBS = (0.25, 0.1, 0.15, 0.25, 0.15, 0.1)
"""Probability of each length of ``CLIPS_PER_BATCH``."""
ADAM_BETAS = (0.9, 0.98)
FINAL_LR_FRACTION = 0.03
"""Learning rate at the end of a cosine, as a fraction of its peak."""
FROZEN_VISION_LR_FRACTION = 0.7
"""Peak learning rate once the vision encoder is frozen, as a fraction of the peak before."""


@dataclass(frozen=True)
class VlmTrainConfig:
    """The training config of a vision-language judge.

    Attributes:
        vision_pretrain_steps: First steps, which train only the vision encoder; see
            ``vision_pretraining.py``.
        align_steps: Steps after them, in which the language model learns to predict the labels of frames from the
            vision encoder's tokens; no question is asked in words yet.
        steps: Steps after these, with statements and questions.
        frozen_vision_steps: How many of these, at the end, freeze the vision encoder: the language model learns
            last, and such a step costs half.
        lr: Peak learning rate; after warm-up it falls by a cosine: in vision pretraining, in the steps after it, and
            again once the vision encoder is frozen.
        warmup_steps: Steps in which it rises.
        weight_decay: Weight decay of matrices.
        image_question_fraction: Fraction of steps with the questions of judges that show single images.
        image_questions_from: Fraction of the steps after which these begin: text is learned late, once the vision
            encoder is trained.
        max_prefixes: Most prefixes of a clip with statements.
        save_every: Steps between saves.
        dtype: Type of matrix products; weights and losses are float32. ``"bfloat16"`` is several times faster on
            CPUs with AVX-512 BF16.
        seed: Random seed of weights and batches.
    """

    vision_pretrain_steps: int = 0
    align_steps: int = 0
    steps: int = 6000
    frozen_vision_steps: int = 0
    lr: float = 1e-3
    warmup_steps: int = 100
    weight_decay: float = 0.05
    image_question_fraction: float = 0.2
    image_questions_from: float = 0.4
    max_prefixes: int = 8
    save_every: int = 500
    dtype: TrainDtype = "float32"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.steps < 1 or self.save_every < 1:
            raise OptionError(
                f"steps is {self.steps} and save_every {self.save_every}; each must be at least 1."
            )

    @property
    def total_steps(self) -> int:
        """Optimizer steps in all, those of every phase."""
        return self.vision_pretrain_steps + self.align_steps + self.steps

    def lr_at(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0."""
        if step < self.vision_pretrain_steps:
            return self._cosine(self.lr, step, self.vision_pretrain_steps)
        step -= self.vision_pretrain_steps
        if step < self.align_steps:
            return self.lr * min(1.0, (step + 1) / self.warmup_steps)
        step -= self.align_steps
        phase_steps, peak = self.steps - self.frozen_vision_steps, self.lr
        if step >= phase_steps:
            step -= phase_steps
            phase_steps, peak = self.frozen_vision_steps, self.lr * FROZEN_VISION_LR_FRACTION
        return self._cosine(peak, step, phase_steps)

    def _cosine(self, peak: float, step: int, steps: int) -> float:
        return cosine_lr(peak, step, steps, warmup_steps=self.warmup_steps, final_fraction=FINAL_LR_FRACTION)
