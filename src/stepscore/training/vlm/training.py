"""Training a vision-language judge on labelled films: from nothing, or from a checkpoint, whole or by LoRA."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from stepscore.errors import OptionError
from stepscore.models.qwen3vl import Geometry, Layout, patches
from stepscore.training.augment import augmented
from stepscore.training.trainer import Trainer, adamw
from stepscore.training.vlm.aux_heads import Facts, Known
from stepscore.training.vlm.data.clips import Texts, show, statements
from stepscore.training.vlm.data.dataset import LabelledFilm
from stepscore.training.vlm.data.image_batches import PictureLessons
from stepscore.training.vlm.data.prompt_tree import batch, film_tree
from stepscore.training.vlm.loss import Teacher
from stepscore.training.vlm.vision_pretraining import Looking
from stepscore.types import FloatArray

CLIPS = {1: 40, 2: 20, 4: 10, 8: 5, 12: 3, 19: 2}
"""Blocks of a clip, and how many such clips make a step: about forty blocks. Short ones show many scenes at once,
long ones teach that the last block counts."""
CHANCES = (0.25, 0.1, 0.15, 0.25, 0.15, 0.1)
SETTLED_RATE = 0.7
"""The highest rate once the vision tower has settled, as a share of the one before."""
USER = "<|im_start|>user\n"
WORDS = (" True", " False")


@dataclass(frozen=True)
class TrainConfig:
    """How training goes.

    Attributes:
        look: First steps, in which the vision tower learns alone; see ``looking.py``.
        read: Steps after them, in which the language model learns to tell from the tower's tokens what the tower
            has learned to see, and nothing is asked in words yet.
        steps: Steps after these, with statements and questions.
        settled: How many of these, at the end, leave the vision tower as it is: the language model is what learns
            last, and such a step costs half.
        rate: Highest learning rate; after the first steps it falls to a thirtieth by a cosine, and again once
            the tower has settled.
        warmup: Steps in which it rises.
        decay: Weight decay of matrices.
        frozen: Share of clips that stand still.
        reversed: Share of clips that run backwards.
        pictures: Share of steps with the other judges' questions, from ``pictures_from`` on.
        pictures_from: Share of the steps after which they begin: words are learned late, once eyes see.
        most: Prefixes of a clip that are spoken of.
        save_every: Steps between checkpoints.
        seed: Of weights, order and choices.
    """

    look: int = 0
    read: int = 0
    steps: int = 6000
    settled: int = 0
    rate: float = 1e-3
    warmup: int = 100
    decay: float = 0.05
    frozen: float = 0.12
    reversed: float = 0.1
    pictures: float = 0.2
    pictures_from: float = 0.4
    most: int = 8
    save_every: int = 500
    seed: int = 0

    def __post_init__(self) -> None:
        if self.steps < 1 or self.save_every < 1 or not 0 <= self.frozen + self.reversed <= 1:
            raise OptionError(
                f"steps is {self.steps} and save_every {self.save_every}, allowed from 1; frozen and reversed "
                f"are {self.frozen} and {self.reversed}, together at most 1."
            )

    def lr_at(self, step: int) -> float:
        """The learning rate of a step."""
        for alone in (self.look, self.read):
            if step < alone:
                return self.rate * min(1.0, (step + 1) / self.warmup)
            step -= alone
        whole, highest = self.steps - self.settled, self.rate
        if step >= whole:
            step, whole, highest = step - whole, self.settled, self.rate * SETTLED_RATE
        risen = min(1.0, (step + 1) / self.warmup)
        return highest * risen * (0.03 + 0.97 * 0.5 * (1 + math.cos(math.pi * step / max(1, whole))))

    @property
    def total_steps(self) -> int:
        """Steps in all."""
        return self.look + self.read + self.steps


@dataclass
class Training(Trainer):
    """A training run that can be stopped and taken up again.

    Attributes:
        teacher: The network and its loss.
        layout: How its prompts are put together.
        geometry: How it cuts pictures up.
        films: What it learns from.
        texts: What is said of films.
        facts: What is told of frames in numbers, while it learns.
        lessons: Questions of the other judges; ``None`` for statements alone.
        looking: The first lessons; ``None`` without.
        train_config: Steps, learning rate and so on.
        folder: Where its state and log are kept.
    """

    teacher: Teacher
    layout: Layout
    geometry: Geometry
    films: Sequence[LabelledFilm]
    texts: Texts
    facts: Facts
    lessons: PictureLessons | None
    looking: Looking | None
    train_config: TrainConfig
    folder: Path
    step: int = 0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        known = [film.states for film in self.films if film.states.shape[1]]
        self._mean: FloatArray = np.zeros(0)
        self._scale: FloatArray = np.ones(0)
        if known and self.teacher.heads is not None:
            every = np.concatenate([_numbers(film) for film in self.films if film.states.shape[1]])
            self._mean, self._scale = every.mean(0), every.std(0) + 1e-3
        self._rows = [(_numbers(film) - self._mean) / self._scale for film in self.films if len(self._mean)]
        heads = self.teacher.heads
        every_weight = [*self.teacher.network.parameters(), *([] if heads is None else heads.parameters())]
        trained = [p for p in every_weight if p.requires_grad]
        self.optimizer = adamw(trained, self.train_config.rate, self.train_config.decay, (0.9, 0.98))

    def loss(self) -> tuple[torch.Tensor, Mapping[str, float]]:
        """The loss of the step that is due: of looking, of the other judges' questions, or of statements."""
        self.teacher.network.train()
        rng = np.random.default_rng([self.train_config.seed, self.step])
        drawn = rng.random() < self.train_config.pictures
        asked = self.step - self.train_config.look - self.train_config.read
        late = asked >= self.train_config.pictures_from * self.train_config.steps
        if self.looking is not None and self.step < self.train_config.look:
            return self.looking.loss(rng, self._rows)
        if self._rows and asked < 0:
            return self._clips(rng, reading=True)
        if self.lessons is not None and drawn and late:
            return self.teacher.loss(*self.lessons.draw(rng, self._rows), settled=self._settled)
        return self._clips(rng)

    @property
    def _settled(self) -> bool:
        return self.step >= self.train_config.total_steps - self.train_config.settled

    def _clips(
        self, rng: np.random.Generator, *, reading: bool = False
    ) -> tuple[torch.Tensor, Mapping[str, float]]:
        recipe = self.train_config
        blocks = int(rng.choice(list(CLIPS), p=CHANCES))
        controls = {"frozen": recipe.frozen, "reversed": recipe.reversed}
        trees, pictures, known = [], [], Known(self.facts)
        for number in rng.integers(len(self.films), size=CLIPS[blocks]):
            shown = show(self.films[number], blocks, rng, controls)
            said = [] if reading else statements(shown, self.texts, rng, most=recipe.most)
            trees.append(film_tree(self.layout, shown.times, said, WORDS))
            pictures.append(augmented(shown.frames, rng, share=0.5))
            if self._rows:
                known.add(shown.film, self._rows[number], shown.source[1::2].tolist())
        made = batch(trees, self.layout.tokens.end)
        pixels = torch.from_numpy(patches(np.concatenate(pictures), self.geometry))
        settled = reading or self._settled
        return self.teacher.loss(made, pixels, known if self._rows else None, settled=settled)

    def settings(self) -> dict[str, Any]:
        """What must be the same for a run to go on: the recipe. The films may be others."""
        return asdict(self.train_config)

    def state(self) -> dict[str, Any]:
        """The network, what exists in training alone, and how recorded numbers were scaled."""
        return {
            "network": self.teacher.network.state_dict(),
            "heads": {} if self.teacher.heads is None else self.teacher.heads.state_dict(),
            "scaling": torch.from_numpy(np.stack([self._mean, self._scale])),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Put what was learned back."""
        self.teacher.network.load_state_dict(state["network"])
        if self.teacher.heads is not None:
            self.teacher.heads.load_state_dict(state["heads"])
        # As it was when the heads began to learn, though the films may be others now.
        self._mean, self._scale = state["scaling"].numpy()
        self._rows = [(_numbers(film) - self._mean) / self._scale for film in self.films if len(self._mean)]


def _numbers(film: LabelledFilm) -> FloatArray:
    """Recorded numbers of each frame, and its progress."""
    return np.column_stack([film.states, film.potential])
