"""Batches of questions that show single images: those of stepeval, procvlm, hop, gvl and annotate."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from stepscore.episodes import Episode
from stepscore.errors import EpisodeError, SourceError
from stepscore.judges import Judge
from stepscore.judges.common import STATED_TIME
from stepscore.models import FrameRef, chatml_parts
from stepscore.models.qwen3vl import Geometry, PromptLayout, patches
from stepscore.training.augment import augmented
from stepscore.training.vlm.aux_heads import AuxLabelSpace, AuxTargets, StateScaling
from stepscore.training.vlm.data.clips import CERTAIN_LOG_ODDS, Texts
from stepscore.training.vlm.data.dataset import LabelledVideo
from stepscore.training.vlm.data.judge_questions import TrainingExample, sample_examples
from stepscore.training.vlm.data.prompt_tree import Question, Tree, TreeBatch, batch_trees, image_tree
from stepscore.training.vlm.data.stage_questions import StageQuestions
from stepscore.training.vlm.data.variants import vary
from stepscore.types import Frames

QuestionSource = Judge | StageQuestions
MAX_UNANSWERED = 1000
"""Frames in a row without a right answer to a judge's questions; from then on the labels count as lacking it."""


OTHER_TIMES_PROB = 0.45
"""Probability that the timestamps beside images are later, stretched or left out, each as likely."""
TIME_KEY = re.compile(r'"(when|start)": ')
"""Key of a time in an answer."""


@dataclass(frozen=True, eq=False)
class ImageBatches:
    """Draws batches of the judges' questions.

    Attributes:
        sources: The judges that ask, with the options to be trained, and annotate's questions.
        videos: The labelled videos they ask about.
        layout: The model's prompt layout.
        geometry: Patch sizes of the model's vision encoder.
        label_space: Tasks and subgoals that the auxiliary heads predict.
        texts: Other words for instructions.
        min_images: A batch is full from this many images on.
        number_ids: Tokens of 0 to 100, where the tokenizer has one for each.
    """

    sources: Sequence[QuestionSource]
    videos: Sequence[LabelledVideo]
    layout: PromptLayout
    geometry: Geometry
    label_space: AuxLabelSpace
    texts: Texts
    min_images: int = 48
    number_ids: Sequence[int] = ()

    def draw(
        self, rng: np.random.Generator, scaling: StateScaling | None
    ) -> tuple[TreeBatch, Tensor, AuxTargets | None]:
        """Return a batch of one source's questions, the patches of its images, and the labels of each image.

        Args:
            rng: Random generator.
            scaling: Scaling of the recorded states; ``None`` where there are none.

        Raises:
            SourceError: No label answers the source's questions.
        """
        source = self.sources[int(rng.integers(len(self.sources)))]
        trees: list[Tree] = []
        images: list[Frames] = []
        targets = None if scaling is None else AuxTargets(self.label_space, scaling)
        unanswered = 0
        while sum(map(len, images)) < 2 * self.min_images:
            video = vary(self.videos[int(rng.integers(len(self.videos)))], rng)
            views = list(video.views)
            episode = video.episode.with_views([views[int(rng.integers(len(views)))]])
            words = self.texts.paraphrase(video.instruction, rng)
            episode = replace(episode, instruction=words, task=episode.task or video.instruction)
            try:
                examples = sample_questions(source, episode, rng)
            except EpisodeError as error:
                examples, why = [], str(error)
            else:
                why = "At no frame tried do the labels state what is right."
            unanswered = 0 if examples else unanswered + 1
            if unanswered == MAX_UNANSWERED:
                raise SourceError(
                    f"The labels answer none of the questions of {source.name}. {why} "
                    "Or train without such questions: -T image-question-fraction=0"
                )
            if not examples:
                continue
            questions = _at_other_times([to_question(example) for example in examples], rng)
            # Those with the images of the first: nearly all.
            alike = [q for q in questions if q.before == questions[0].before]
            trees.append(image_tree(self.layout, alike, number_ids=self.number_ids))
            refs = _frame_refs(examples[0])
            frames = np.stack([video.views[ref.view][ref.index] for ref in refs])
            # A single image fills both frames of its block.
            images.append(np.repeat(augmented(frames, rng), 2, axis=0))
            if targets is not None:
                targets.add(video, [ref.index for ref in refs])
        pixels = torch.from_numpy(patches(np.concatenate(images), self.geometry))
        return batch_trees(trees, self.layout.tokens.end), pixels, targets


def sample_questions(
    source: QuestionSource, episode: Episode, rng: np.random.Generator
) -> list[TrainingExample]:
    """Return questions of a source about an episode, with the right answers; see :func:`sample_examples`."""
    if isinstance(source, StageQuestions):
        return source.examples(episode)
    return sample_examples(source, episode, rng)


def _at_other_times(questions: Sequence[Question], rng: np.random.Generator) -> list[Question]:
    """Return questions whose timestamps are sometimes later, stretched or left out, all in the same way.

    What a frame shows decides an answer, not when it was recorded. Where an answer names a time, they stay.
    """
    draw = rng.random()
    if draw >= OTHER_TIMES_PROB or any(TIME_KEY.search(question.answer) for question in questions):
        return list(questions)
    if draw < OTHER_TIMES_PROB / 3:
        return [_with_times(question, lambda seconds: None) for question in questions]
    late, pace = (
        (rng.uniform(0, 30), 1.0) if draw < 2 * OTHER_TIMES_PROB / 3 else (0.0, rng.uniform(0.4, 2.5))
    )
    return [_with_times(question, lambda seconds: late + pace * seconds) for question in questions]


def _with_times(question: Question, change: Callable[[float], float | None]) -> Question:
    def changed(match: re.Match[str]) -> str:
        seconds = change(float(match[1]))
        return "" if seconds is None else f", {seconds:.2f} s"

    parts = [part if part is None else STATED_TIME.sub(changed, part) for part in question.parts]
    return replace(question, parts=tuple(parts))


def to_question(example: TrainingExample) -> Question:
    """Return the example as texts and places for images, in ChatML."""
    parts = [part if isinstance(part, str) else None for part in chatml_parts(example.prompt)]
    if not example.candidates:
        return Question(tuple(parts), example.answer, values=example.values)
    yes, no = example.candidates
    log_odds = CERTAIN_LOG_ODDS if example.answer == yes else -CERTAIN_LOG_ODDS
    return Question(tuple(parts), "", (yes, no), log_odds)


def _frame_refs(example: TrainingExample) -> list[FrameRef]:
    return [part for turn in example.prompt.turns for part in turn.parts if isinstance(part, FrameRef)]
