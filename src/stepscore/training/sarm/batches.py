"""Windows drawn for a step of training: frames, their targets, and the two ways in which a window is made to lie.

Rewind: after the moment the film is played backwards for a few frames. Targets are looked up by the same frame
numbers as the pictures, so they cannot come apart. Wrong language: the text of another task, or words without
sense; then nothing of what is said has been done. Both are drawn for each window by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from stepscore.episodes import frame_at
from stepscore.models.sarm import Flags, Float32, SarmConfig, Window, Windows
from stepscore.training.sarm.dataset import SarmFilm
from stepscore.types import FloatArray, IntArray

VERBS = ("fold", "pour", "wipe", "stack", "open", "close", "throw", "count", "paint", "hang")
NOUNS = (
    "shirt",
    "cup",
    "table",
    "book",
    "window",
    "rope",
    "shoe",
    "bottle",
    "leaf",
    "wheel",
    "lamp",
    "bread",
)
NONSENSE = 48
"""Texts without sense that are at hand."""


@dataclass(frozen=True)
class Lies:
    """How often a window is made to lie.

    Attributes:
        rewind: Share of windows that are played backwards at the end.
        wrong_text: Share of windows with the text of something else.
    """

    rewind: float = 0.8
    wrong_text: float = 0.2


@dataclass(frozen=True, eq=False)
class Drawn:
    """One window.

    Attributes:
        film: Number of the film.
        frames: Frame in each slot, (T,).
        valid: Which slots are no padding, (T,).
        text: What is said of it.
        task: The task whose stages the text is about.
        lied: Whether the text is of something else.
    """

    film: int
    frames: IntArray
    valid: Flags
    text: str
    task: str
    lied: bool


@dataclass(frozen=True, eq=False)
class Batch:
    """Windows with their targets: stage -1 and share NaN where a slot is padding or its label unknown, (B, T)."""

    windows: Windows
    stages: Mapping[str, Tensor]
    shares: Mapping[str, Tensor]


def nonsense(seed: int) -> list[str]:
    """Sentences that are no task: a verb and a few things."""
    rng = np.random.default_rng([seed, 77])
    return [
        " ".join([str(rng.choice(VERBS)), "the", *rng.choice(NOUNS, int(rng.integers(1, 4)), replace=False)])
        for _ in range(NONSENSE)
    ]


def draw(
    number: int,
    film: SarmFilm,
    window: Window,
    lies: Lies,
    texts: Mapping[str, Sequence[str]],
    senseless: Sequence[str],
    rng: np.random.Generator,
) -> Drawn:
    """A window of a film around a random frame.

    Args:
        number: The film's number.
        film: The film.
        window: Which frames it shows.
        lies: How often it lies.
        texts: Instructions of each task.
        senseless: Texts of no task.
        rng: Where the choices come from.
    """
    moment = rng.integers(len(film.times), size=1)
    seen, inside = window.look(film.times, moment)
    back = (
        rewound(film.times, int(seen[0][inside[0]].max()), window, rng)
        if rng.random() < lies.rewind
        else seen[0][:0]
    )
    frames, valid = np.zeros(window.slots, dtype=np.int64), np.zeros(window.slots, dtype=np.bool_)
    frames[: len(seen[0])], valid[: len(inside[0])] = seen[0], inside[0]
    start = 1 + window.frames
    frames[start : start + len(back)], valid[start : start + len(back)] = back, True
    own, text, lied = film.labelled.task, film.instruction, rng.random() < lies.wrong_text
    task = own
    if lied:
        others = [other for other in texts if other != own]
        if others and rng.random() < 0.7:
            task = str(rng.choice(others))
            text = str(rng.choice(list(texts[task])))
        else:
            text = str(rng.choice(list(senseless)))
    return Drawn(number, frames, valid, text, task, lied)


def rewound(times: FloatArray, last: int, window: Window, rng: np.random.Generator) -> IntArray:
    """Frames of a film played backwards from its frame ``last``, at the window's gap: 1 to ``rewind`` of them."""
    most = min(window.rewind, int((times[last] - times[0]) / window.gap_s + 1e-6))
    if most < 1:
        return np.zeros(0, dtype=np.int64)
    wanted = times[last] - window.gap_s * np.arange(1, int(rng.integers(1, most + 1)) + 1)
    return frame_at(times, wanted)


def targets(drawn: Drawn, film: SarmFilm, head: str) -> tuple[IntArray, FloatArray]:
    """Stage and share in each slot, by the frame it shows; unknown in padding, and none done under a lie."""
    own = film.targets[head]
    if drawn.lied:
        stage, share = np.zeros(len(drawn.frames), dtype=np.int64), np.zeros(len(drawn.frames))
    else:
        stage, share = own.stage[drawn.frames], own.share[drawn.frames]
    return np.where(drawn.valid, stage, -1), np.where(drawn.valid, share, np.nan)


def make_batch(
    drawn: Sequence[Drawn],
    films: Sequence[SarmFilm],
    config: SarmConfig,
    read: Mapping[str, Float32],
    rng: np.random.Generator,
) -> Batch:
    """The windows as tensors; each shows its film as it is or, where there are any, one of its changed copies."""
    seen, states = [], []
    for one in drawn:
        film = films[one.film]
        seen.append(film.features[int(rng.integers(len(film.features)))][one.frames].astype(np.float32))
        states.append(film.state[one.frames].astype(np.float32))
    found = {head: [targets(one, films[one.film], head) for one in drawn] for head in config.procedures}
    counts = {
        head: torch.tensor([len(tasks[one.task].stages) for one in drawn])
        for head, tasks in config.procedures.items()
    }
    windows = Windows(
        torch.from_numpy(np.stack(seen)),
        torch.from_numpy(np.stack([read[one.text] for one in drawn])),
        torch.from_numpy(np.stack(states)) if config.state else None,
        torch.from_numpy(np.stack([one.valid for one in drawn])),
        counts,
    )
    stages = {head: torch.from_numpy(np.stack([s for s, _ in pairs])) for head, pairs in found.items()}
    shares = {
        head: torch.from_numpy(np.stack([t for _, t in pairs])).float() for head, pairs in found.items()
    }
    return Batch(windows, stages, shares)
