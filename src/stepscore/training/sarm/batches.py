"""Windows sampled for an optimizer step: frames, their targets, and the two perturbations of a window.

Rewind: the window ends with a few frames played backwards. Targets are looked up by the same frame indices as the
features, so they cannot come apart. Language perturbation: the instruction of another task, or a random one; all
targets are then 0. Both are drawn independently for each window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from stepscore.episodes import frame_at
from stepscore.models.sarm import Flags, Float32, SarmConfig, Window, Windows
from stepscore.training.sarm.dataset import TrainingEpisode
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
N_RANDOM_INSTRUCTIONS = 48
OTHER_TASK_PROB = 0.7
"""Share of perturbed instructions that are those of another task, where there is one."""


@dataclass(frozen=True)
class PerturbationConfig:
    """How often a window is perturbed.

    Attributes:
        rewind_prob: Share of windows that end with frames played backwards.
        language_perturbation_prob: Share of windows with an instruction that is not their own.
    """

    rewind_prob: float = 0.8
    language_perturbation_prob: float = 0.2


@dataclass(frozen=True, eq=False)
class SampledWindow:
    """One window of an episode.

    Attributes:
        episode: Index of the episode.
        frames: Frame index in each slot, (T,).
        valid: Slots that are not padding, (T,).
        text: Its instruction, perturbed or not.
        task: The task whose stages the instruction is about.
        perturbed: Whether the instruction is not the episode's own.
    """

    episode: int
    frames: IntArray
    valid: Flags
    text: str
    task: str
    perturbed: bool


@dataclass(frozen=True, eq=False)
class Batch:
    """Windows with their targets: stage -1 and share NaN where a slot is padding or its label unknown, (B, T)."""

    windows: Windows
    stages: Mapping[str, Tensor]
    shares: Mapping[str, Tensor]


def random_instructions(seed: int) -> list[str]:
    """Return instructions of no task: a verb and one to three objects each."""
    rng = np.random.default_rng([seed, 77])
    return [
        " ".join([str(rng.choice(VERBS)), "the", *rng.choice(NOUNS, int(rng.integers(1, 4)), replace=False)])
        for _ in range(N_RANDOM_INSTRUCTIONS)
    ]


def sample_window(
    number: int,
    episode: TrainingEpisode,
    window: Window,
    perturbation: PerturbationConfig,
    instructions: Mapping[str, Sequence[str]],
    random_texts: Sequence[str],
    rng: np.random.Generator,
) -> SampledWindow:
    """Sample a window of an episode around a random frame.

    Args:
        number: Index of the episode.
        episode: The episode.
        window: Slots of a window, and the seconds between them.
        perturbation: How often it is perturbed.
        instructions: Instructions of each task.
        random_texts: Instructions of no task.
        rng: Random generator; the order of draws is part of what makes a resumed run the same.
    """
    at = rng.integers(len(episode.times), size=1)
    shown, inside = window.frames_at(episode.times, at)
    backwards = (
        rewind_frames(episode.times, int(shown[0][inside[0]].max()), window, rng)
        if rng.random() < perturbation.rewind_prob
        else shown[0][:0]
    )
    frames, valid = np.zeros(window.slots, dtype=np.int64), np.zeros(window.slots, dtype=np.bool_)
    frames[: len(shown[0])], valid[: len(inside[0])] = shown[0], inside[0]
    start = 1 + window.frames
    frames[start : start + len(backwards)], valid[start : start + len(backwards)] = backwards, True
    own, text = episode.labelled.task, episode.instruction
    perturbed = rng.random() < perturbation.language_perturbation_prob
    task = own
    if perturbed:
        others = [other for other in instructions if other != own]
        if others and rng.random() < OTHER_TASK_PROB:
            task = str(rng.choice(others))
            text = str(rng.choice(list(instructions[task])))
        else:
            text = str(rng.choice(list(random_texts)))
    return SampledWindow(number, frames, valid, text, task, perturbed)


def rewind_frames(times: FloatArray, last: int, window: Window, rng: np.random.Generator) -> IntArray:
    """Return 1 to ``window.rewind`` frames backwards in time from frame ``last``, a frame gap apart."""
    most = min(window.rewind, int((times[last] - times[0]) / window.gap_s + 1e-6))
    if most < 1:
        return np.zeros(0, dtype=np.int64)
    wanted = times[last] - window.gap_s * np.arange(1, int(rng.integers(1, most + 1)) + 1)
    return frame_at(times, wanted)


def window_targets(window: SampledWindow, episode: TrainingEpisode, head: str) -> tuple[IntArray, FloatArray]:
    """Return stage and share in each slot by the frame it shows: unknown in padding, 0 if perturbed."""
    own = episode.targets[head]
    if window.perturbed:
        stage, share = np.zeros(len(window.frames), dtype=np.int64), np.zeros(len(window.frames))
    else:
        stage, share = own.stage[window.frames], own.share[window.frames]
    return np.where(window.valid, stage, -1), np.where(window.valid, share, np.nan)


def make_batch(
    sampled: Sequence[SampledWindow],
    episodes: Sequence[TrainingEpisode],
    config: SarmConfig,
    text_features: Mapping[str, Float32],
    rng: np.random.Generator,
) -> Batch:
    """Return the windows as tensors; each takes its episode's own features or those of an augmented copy."""
    features, states = [], []
    for window in sampled:
        episode = episodes[window.episode]
        copy = int(rng.integers(len(episode.features)))
        features.append(episode.features[copy][window.frames].astype(np.float32))
        states.append(episode.state[window.frames].astype(np.float32))
    targets = {
        head: [window_targets(window, episodes[window.episode], head) for window in sampled]
        for head in config.procedures
    }
    counts = {
        head: torch.tensor([len(tasks[window.task].stages) for window in sampled])
        for head, tasks in config.procedures.items()
    }
    windows = Windows(
        torch.from_numpy(np.stack(features)),
        torch.from_numpy(np.stack([text_features[window.text] for window in sampled])),
        torch.from_numpy(np.stack(states)) if config.state else None,
        torch.from_numpy(np.stack([window.valid for window in sampled])),
        counts,
    )
    stages = {head: torch.from_numpy(np.stack([s for s, _ in pairs])) for head, pairs in targets.items()}
    shares = {
        head: torch.from_numpy(np.stack([t for _, t in pairs])).float() for head, pairs in targets.items()
    }
    return Batch(windows, stages, shares)
