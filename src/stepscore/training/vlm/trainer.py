"""The training run of a vision-language judge on labelled videos."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from stepscore.judges.common import video_prompt
from stepscore.models import split_at_video
from stepscore.models.qwen3vl import Geometry, PromptLayout, patches
from stepscore.training.augment import augmented
from stepscore.training.trainer import Trainer, adamw
from stepscore.training.vlm.aux_heads import AuxLabelSpace, AuxTargets, StateScaling
from stepscore.training.vlm.config import ADAM_BETAS, CLIP_LENGTH_PROBS, CLIPS_PER_BATCH, VlmTrainConfig
from stepscore.training.vlm.data.clips import Texts, sample_clip, sample_statements
from stepscore.training.vlm.data.dataset import LabelledVideo
from stepscore.training.vlm.data.image_batches import ImageBatches
from stepscore.training.vlm.data.prompt_tree import batch_trees, video_tree
from stepscore.training.vlm.data.variants import vary
from stepscore.training.vlm.loss import LossComputer
from stepscore.training.vlm.vision_pretraining import VisionPretraining

HEAD = split_at_video(video_prompt("", template="open"))[0]
"""Text before the video in TOPReward's statements, markup included."""
WORDS = (" True", " False")


@dataclass
class VlmTrainer(Trainer):
    """A training run of a vision-language judge that can be stopped and resumed.

    Attributes:
        loss_computer: The network and its losses.
        layout: The network's prompt layout.
        geometry: Patch sizes of its vision encoder.
        videos: The training videos.
        texts: Texts of statements about them.
        label_space: Tasks and subgoals that the auxiliary heads predict.
        image_batches: Questions of judges that show single images; ``None`` for only statements.
        vision_pretraining: Losses of the first steps; ``None`` without such steps.
        scaling: Scaling of the recorded states; ``None`` without auxiliary heads.
        train_config: Steps, learning rate and so on.
        folder: Where the state and the logs are kept.
    """

    loss_computer: LossComputer
    layout: PromptLayout
    geometry: Geometry
    videos: Sequence[LabelledVideo]
    texts: Texts
    label_space: AuxLabelSpace
    image_batches: ImageBatches | None
    vision_pretraining: VisionPretraining | None
    scaling: StateScaling | None
    train_config: VlmTrainConfig
    folder: Path
    step: int = 0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        heads = self.loss_computer.heads
        parameters = [
            *self.loss_computer.network.parameters(),
            *([] if heads is None else heads.parameters()),
        ]
        trained = [p for p in parameters if p.requires_grad]
        self.optimizer = adamw(trained, self.train_config.lr, self.train_config.weight_decay, ADAM_BETAS)

    def loss(self) -> tuple[torch.Tensor, Mapping[str, float]]:
        """Return the loss of the next step: of vision pretraining, image questions, or statements about clips."""
        self.loss_computer.network.train()
        config = self.train_config
        rng = np.random.default_rng([config.seed, self.step])
        image_step = rng.random() < config.image_question_fraction
        main_step = self.step - config.vision_pretrain_steps - config.align_steps
        if self.vision_pretraining is not None and self.step < config.vision_pretrain_steps:
            return self.vision_pretraining.loss(rng)
        if self.scaling is not None and main_step < 0:
            return self._clip_loss(rng, aligning=True)
        late = main_step >= config.image_questions_from * config.steps
        if self.image_batches is not None and image_step and late:
            batch, pixels, targets = self.image_batches.draw(rng, self.scaling)
            return self.loss_computer.loss(batch, pixels, targets, freeze_vision=self._vision_frozen)
        return self._clip_loss(rng)

    @property
    def _vision_frozen(self) -> bool:
        return self.step >= self.train_config.total_steps - self.train_config.frozen_vision_steps

    def _clip_loss(
        self, rng: np.random.Generator, *, aligning: bool = False
    ) -> tuple[torch.Tensor, Mapping[str, float]]:
        config = self.train_config
        blocks = int(rng.choice(list(CLIPS_PER_BATCH), p=CLIP_LENGTH_PROBS))
        trees, images = [], []
        targets = None if self.scaling is None else AuxTargets(self.label_space, self.scaling)
        for number in rng.integers(len(self.videos), size=CLIPS_PER_BATCH[blocks]):
            clip = sample_clip(vary(self.videos[number], rng), blocks, rng)
            statements = (
                [] if aligning else sample_statements(clip, self.texts, rng, max_prefixes=config.max_prefixes)
            )
            trees.append(video_tree(self.layout, clip.times, statements, WORDS))
            images.append(augmented(clip.frames, rng, share=0.5))
            if targets is not None:
                targets.add(clip.video, clip.source[1::2].tolist())
        batch = batch_trees(trees, self.layout.tokens.end)
        pixels = torch.from_numpy(patches(np.concatenate(images), self.geometry))
        freeze = aligning or self._vision_frozen
        return self.loss_computer.loss(batch, pixels, targets, freeze_vision=freeze)

    def settings(self) -> dict[str, Any]:
        """Return what must be the same for a run to resume: the training config. The videos may be others."""
        return asdict(self.train_config)

    def state(self) -> dict[str, Any]:
        """Return the network, the auxiliary heads, and how recorded states were normalized."""
        heads = self.loss_computer.heads
        return {
            "network": self.loss_computer.network.state_dict(),
            "heads": {} if heads is None else heads.state_dict(),
            "scaling": None
            if self.scaling is None
            else torch.from_numpy(np.stack([self.scaling.mean, self.scaling.scale])),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`state` returned."""
        self.loss_computer.network.load_state_dict(state["network"])
        if self.loss_computer.heads is not None:
            self.loss_computer.heads.load_state_dict(state["heads"])
        if self.scaling is not None:
            # As it was when training of the heads began, though the videos may be others now.
            self.scaling.mean[:], self.scaling.scale[:] = state["scaling"].numpy()
