"""The parts of a domain gate, fitted to features: components, network, bank, scenes, words, threshold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from stepscore.models.embedded import DomainGate, Float32, words_of
from stepscore.types import FloatArray

Ints = NDArray[np.int64]
NONE = -1
"""Stands for a foreign picture where the scene's number is asked."""
ENOUGH = 20_000
"""Tokens that the principal components are found from."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Features to learn from, with what they are of.

    Attributes:
        features: One row a picture, (n, D).
        scenes: Number of the scene, or ``NONE``, (n,).
        weights: How much each counts, (n,).
    """

    features: Float32
    scenes: Ints
    weights: FloatArray

    def of(self, scenes: Sequence[int]) -> Samples:
        """The same with other numbers for its scenes: ``scenes[old]`` is the new one."""
        return replace(self, scenes=np.where(self.scenes == NONE, NONE, np.array(scenes)[self.scenes]))


def fit_components(features: Float32, width: int, components: int) -> DomainGate:
    """A gate that has components alone: of tokens, and how those are spread over a picture.

    Args:
        features: Of trained pictures, (n, tokens * width).
        width: Numbers in a token.
        components: Principal components kept of a token.
    """
    tokens = features.reshape(-1, width)
    mean = tokens.mean(axis=0, dtype=np.float64)
    some = tokens[:: max(1, len(tokens) // ENOUGH)] - mean.astype(np.float32)
    basis = np.linalg.eigh((some.T @ some).astype(np.float64))[1][:, ::-1][:, :components].astype(np.float32)
    flat = ((tokens - mean.astype(np.float32)) @ basis).reshape(len(features), -1)
    one = np.zeros((1, 1), np.float32)
    return DomainGate(
        token_mean=mean.astype(np.float32),
        token_basis=basis,
        mean=flat.mean(axis=0),
        # No less than a hundredth of the largest: a component that never varies must not decide.
        scale=np.maximum(flat.std(axis=0), 1e-2 * flat.std(axis=0).max()),
        first=one,
        first_bias=one[0],
        last=one,
        last_bias=one[0],
        bank=one,
        scenes=np.zeros(1, np.int64),
        thresholds=np.zeros(1),
    )


def fit_network(gate: DomainGate, samples: Samples, *, hidden: int, steps: int, seed: int) -> DomainGate:
    """The gate with its network taught, in so many steps of 256 pictures, to name the scene or none of them."""
    import torch
    from torch.nn.functional import cross_entropy, gelu

    torch.manual_seed(seed)
    count = int(samples.scenes.max()) + 1
    x = torch.from_numpy(gate.components(samples.features))
    wanted = torch.from_numpy(np.where(samples.scenes == NONE, count, samples.scenes))
    weights = torch.tensor(samples.weights, dtype=torch.float32)
    first, last = torch.nn.Linear(x.shape[1], hidden), torch.nn.Linear(hidden, count + 1)
    drop = torch.nn.Dropout(0.3)
    optimizer = torch.optim.AdamW([*first.parameters(), *last.parameters()], lr=2e-3, weight_decay=0.05)
    slower = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        rows = torch.randint(len(x), (256,))
        logits = last(drop(gelu(first(drop(x[rows])), approximate="tanh")))
        each = cross_entropy(logits, wanted[rows], reduction="none", label_smoothing=0.02)
        optimizer.zero_grad()
        (each * weights[rows]).mean().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        slower.step()
    return replace(
        gate,
        first=np.ascontiguousarray(first.weight.detach().numpy().T),
        first_bias=first.bias.detach().numpy(),
        last=np.ascontiguousarray(last.weight.detach().numpy().T),
        last_bias=last.bias.detach().numpy(),
    )


def with_bank(gate: DomainGate, samples: Samples, per_scene: int, rng: np.random.Generator) -> DomainGate:
    """The gate with hidden layers of at most so many trained pictures a scene."""
    chosen: list[int] = []
    for scene in range(len(gate)):
        own = np.flatnonzero(samples.scenes == scene)
        chosen += sorted(rng.permutation(own)[:per_scene].tolist())
    hidden = gate.hidden(gate.components(samples.features[chosen]))
    length = np.maximum(np.linalg.norm(hidden, axis=1, keepdims=True), 1e-9)
    return replace(gate, bank=(hidden / length).astype(np.float32), scenes=samples.scenes[chosen])


def with_thresholds(gate: DomainGate, kept: Samples, views: Sequence[str], refused: float) -> DomainGate:
    """The gate with what is usual for pictures kept apart, and refusing this share of them, camera by camera.

    Cameras have thresholds of their own, because of one with few arrangements of objects to learn from new ones
    fit less well, and would let foreign pictures of the other through.

    Args:
        gate: With network and bank.
        kept: Trained pictures it has not seen, by scene.
        views: The camera of each scene.
        refused: The share.
    """
    rows = np.arange(len(kept.scenes))
    odds, near = (found[rows, kept.scenes] for found in gate.measures(kept.features))
    spread = max(float(odds.std()), 1e-3), max(float(near.std()), 1e-4)
    gate = replace(gate, usual=(float(odds.mean()), spread[0], float(near.mean()), spread[1]))
    own = gate.fits(kept.features)[rows, kept.scenes]
    by_camera = {}
    for view in set(views):
        seen = own[np.array([views[scene] == view for scene in kept.scenes])]
        # float16 on disk moves fits a little; the margin keeps the promise.
        by_camera[view] = float(np.quantile(seen if len(seen) else own, refused)) - 0.02
    return replace(gate, thresholds=np.array([by_camera[view] for view in views]))


def shared_scenes(gate: DomainGate, kept: Samples, share: float) -> list[int]:
    """The scene's number of each task: the same for two whose pictures kept apart are taken for each other.

    Two tasks share a scene if each is the one that the other's pictures are most often taken for, and ``share``
    of them are, in the mean of both.

    Args:
        gate: Its network was taught to name tasks, those of each camera apart.
        kept: Trained pictures that it has not seen, by task.
        share: That share.
    """
    n = len(gate)
    logits = gate.hidden(gate.components(kept.features)) @ gate.last + gate.last_bias
    named = np.eye(n)[logits[:, :n].argmax(axis=1)]
    counts = np.stack([named[kept.scenes == task].sum(axis=0) for task in range(n)])
    taken = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    np.fill_diagonal(taken, 0.0)
    best = taken.argmax(axis=1)
    scene = [
        min(task, int(other))
        if best[other] == task and (taken[task, other] + taken[other, task]) / 2 >= share
        else task
        for task, other in enumerate(best)
    ]
    return [sorted(set(scene)).index(number) for number in scene]


def scene_words(
    instructions: Sequence[str], wordings: Mapping[str, Sequence[str]], scenes: Sequence[int]
) -> dict[str, list[int]]:
    """Scenes that each word of their instructions speaks of; without the words of the judges' own prompts.

    Args:
        instructions: One of each task.
        wordings: Other words for them.
        scenes: Each task's scene.
    """
    prompts = files("stepscore.judges").joinpath("prompts").iterdir()
    plain = {word for text in prompts for word in words_of(text.read_text(encoding="utf-8"))}
    spoken: dict[str, set[int]] = {}
    for said, scene in zip(instructions, scenes, strict=True):
        for text in (said, *wordings.get(said, ())):
            for word in set(words_of(text)) - plain:
                spoken.setdefault(word, set()).add(scene)
    return {word: sorted(of) for word, of in sorted(spoken.items())}
