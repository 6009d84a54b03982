"""Questions of the judges that show single pictures (stepeval, procvlm, hop), as batches to learn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from stepscore.judges import Judge
from stepscore.models import FrameRef
from stepscore.models.qwen3vl import Geometry, Layout, patches
from stepscore.training.augment import augmented
from stepscore.training.vlm.aux_heads import Facts, Known
from stepscore.training.vlm.data.clips import SURE
from stepscore.training.vlm.data.dataset import LabelledFilm
from stepscore.training.vlm.data.judge_questions import Lesson, moment_lessons
from stepscore.training.vlm.data.prompt_tree import Batch, Question, Tree, batch, picture_tree
from stepscore.types import FloatArray, Frames


@dataclass(frozen=True, eq=False)
class PictureLessons:
    """Draws batches of questions.

    Attributes:
        judges: Whose questions, with the options they are to be learned in.
        films: What they are asked about.
        layout: How the model's prompts are put together.
        geometry: How it cuts pictures up.
        facts: What is told of pictures in numbers, besides.
        blocks: Pictures of a batch, about.
    """

    judges: Sequence[Judge]
    films: Sequence[LabelledFilm]
    layout: Layout
    geometry: Geometry
    facts: Facts
    blocks: int = 48

    def draw(
        self, rng: np.random.Generator, numbers: Sequence[FloatArray]
    ) -> tuple[Batch, Tensor, Known | None]:
        """A batch of one judge's questions, the patches of its pictures, and what is true of each picture.

        Args:
            rng: What draws.
            numbers: Normalised recorded numbers of every film, a row a frame; empty where there are none.
        """
        judge = self.judges[int(rng.integers(len(self.judges)))]
        trees: list[Tree] = []
        pictures: list[Frames] = []
        known = Known(self.facts)
        while sum(map(len, pictures)) < 2 * self.blocks:
            number = int(rng.integers(len(self.films)))
            film = self.films[number]
            views = list(film.views)
            episode = film.episode.with_views([views[int(rng.integers(len(views)))]])
            found = moment_lessons(judge, episode, rng)
            if not found:
                continue
            questions = [question_of(lesson) for lesson in found]
            # Those with the pictures of the first: nearly all.
            trees.append(picture_tree(self.layout, [q for q in questions if q.before == questions[0].before]))
            stills = _stills(found[0])
            shown = np.stack([film.views[still.view][still.index] for still in stills])
            # A picture shown alone fills both frames of its block.
            pictures.append(np.repeat(augmented(shown, rng), 2, axis=0))
            if numbers:
                known.add(film, numbers[number], [still.index for still in stills])
        pixels = torch.from_numpy(patches(np.concatenate(pictures), self.geometry))
        return batch(trees, self.layout.tokens.end), pixels, known if numbers else None


def question_of(lesson: Lesson) -> Question:
    """The lesson as texts and places for pictures, in ChatML."""
    parts: list[str | None] = []
    last = len(lesson.prompt.turns) - 1
    for number, turn in enumerate(lesson.prompt.turns):
        parts.append(f"<|im_start|>{turn.role}\n")
        parts += [part if isinstance(part, str) else None for part in turn.parts]
        if not (lesson.prompt.continued and number == last):
            parts.append("<|im_end|>\n")
    if not lesson.prompt.continued:
        parts.append("<|im_start|>assistant\n")
    if not lesson.candidates:
        return Question(tuple(parts), lesson.answer)
    yes, no = lesson.candidates
    return Question(tuple(parts), "", (yes, no), SURE if lesson.answer == yes else -SURE)


def _stills(lesson: Lesson) -> list[FrameRef]:
    return [part for turn in lesson.prompt.turns for part in turn.parts if isinstance(part, FrameRef)]
