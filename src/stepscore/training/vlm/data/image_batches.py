"""Batches of questions by the judges that show single images (stepeval, procvlm, hop)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from stepscore.judges import Judge
from stepscore.models import FrameRef, chatml_parts
from stepscore.models.qwen3vl import Geometry, PromptLayout, patches
from stepscore.training.augment import augmented
from stepscore.training.vlm.aux_heads import AuxLabelSpace, AuxTargets
from stepscore.training.vlm.data.clips import CERTAIN_LOG_ODDS
from stepscore.training.vlm.data.dataset import LabelledVideo
from stepscore.training.vlm.data.judge_questions import TrainingExample, sample_examples
from stepscore.training.vlm.data.prompt_tree import Question, Tree, TreeBatch, batch_trees, image_tree
from stepscore.types import FloatArray, Frames


@dataclass(frozen=True, eq=False)
class ImageBatches:
    """Draws batches of the judges' questions.

    Attributes:
        judges: The judges that ask, with the options to be trained.
        videos: The labelled videos they ask about.
        layout: The model's prompt layout.
        geometry: Patch sizes of the model's vision encoder.
        label_space: Tasks and subgoals that the auxiliary heads predict.
        min_images: A batch is full from this many images on.
    """

    judges: Sequence[Judge]
    videos: Sequence[LabelledVideo]
    layout: PromptLayout
    geometry: Geometry
    label_space: AuxLabelSpace
    min_images: int = 48

    def draw(
        self, rng: np.random.Generator, states: Sequence[FloatArray]
    ) -> tuple[TreeBatch, Tensor, AuxTargets | None]:
        """Return a batch of one judge's questions, the patches of its images, and the labels of each image.

        Args:
            rng: Random generator.
            states: Normalized recorded states of every video, (n, S); empty where there are none.
        """
        judge = self.judges[int(rng.integers(len(self.judges)))]
        trees: list[Tree] = []
        images: list[Frames] = []
        targets = AuxTargets(self.label_space)
        while sum(map(len, images)) < 2 * self.min_images:
            number = int(rng.integers(len(self.videos)))
            video = self.videos[number]
            views = list(video.views)
            episode = video.episode.with_views([views[int(rng.integers(len(views)))]])
            examples = sample_examples(judge, episode, rng)
            if not examples:
                continue
            questions = [to_question(example) for example in examples]
            # Those with the images of the first: nearly all.
            trees.append(image_tree(self.layout, [q for q in questions if q.before == questions[0].before]))
            refs = _frame_refs(examples[0])
            frames = np.stack([video.views[ref.view][ref.index] for ref in refs])
            # A single image fills both frames of its block.
            images.append(np.repeat(augmented(frames, rng), 2, axis=0))
            if states:
                targets.add(video, states[number], [ref.index for ref in refs])
        pixels = torch.from_numpy(patches(np.concatenate(images), self.geometry))
        return batch_trees(trees, self.layout.tokens.end), pixels, targets if states else None


def to_question(example: TrainingExample) -> Question:
    """Return the example as texts and places for images, in ChatML."""
    parts = [part if isinstance(part, str) else None for part in chatml_parts(example.prompt)]
    if not example.candidates:
        return Question(tuple(parts), example.answer)
    yes, no = example.candidates
    log_odds = CERTAIN_LOG_ODDS if example.answer == yes else -CERTAIN_LOG_ODDS
    return Question(tuple(parts), "", (yes, no), log_odds)


def _frame_refs(example: TrainingExample) -> list[FrameRef]:
    return [part for turn in example.prompt.turns for part in turn.parts if isinstance(part, FrameRef)]
