"""The parts of a domain gate, fitted to features: components, network, bank, scenes, words, thresholds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from stepscore.judges.common import load_prompt, prompt_names
from stepscore.models.embedded import DomainGate, Float32, words_of
from stepscore.training.gate.config import GateConfig
from stepscore.training.schedule import cosine_lr
from stepscore.types import FloatArray, IntArray

OUT_OF_DISTRIBUTION = -1
"""Number of the scene of an out-of-distribution image."""
MAX_PCA_TOKENS = 20_000
"""Principal components are computed from about this many tokens."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Features of images, with their scenes.

    Attributes:
        features: One row an image, (n, D).
        scenes: Number of the scene, or ``OUT_OF_DISTRIBUTION``, (n,).
        weights: Weight of each in the loss, (n,).
    """

    features: Float32
    scenes: IntArray
    weights: FloatArray

    def renumbered(self, scenes: Sequence[int]) -> Samples:
        """Return the samples with other scene numbers: ``scenes[old]`` is the new one."""
        ood = self.scenes == OUT_OF_DISTRIBUTION
        return replace(self, scenes=np.where(ood, OUT_OF_DISTRIBUTION, np.array(scenes)[self.scenes]))


def fit_components(features: Float32, width: int, components: int) -> DomainGate:
    """Return a gate with only components: of tokens, and of their spread over an image.

    Args:
        features: Of in-distribution images, (n, tokens * width).
        width: Length of a token.
        components: Principal components kept of a token.
    """
    tokens = features.reshape(-1, width)
    mean = tokens.mean(axis=0, dtype=np.float64)
    some = tokens[:: max(1, len(tokens) // MAX_PCA_TOKENS)] - mean.astype(np.float32)
    basis = np.linalg.eigh((some.T @ some).astype(np.float64))[1][:, ::-1][:, :components].astype(np.float32)
    flat = ((tokens - mean.astype(np.float32)) @ basis).reshape(len(features), -1)
    empty = np.zeros((1, 1), np.float32)
    return DomainGate(
        token_mean=mean.astype(np.float32),
        token_basis=basis,
        mean=flat.mean(axis=0),
        # No less than a hundredth of the largest: a component that never varies must not decide.
        scale=np.maximum(flat.std(axis=0), 1e-2 * flat.std(axis=0).max()),
        first=empty,
        first_bias=empty[0],
        last=empty,
        last_bias=empty[0],
        bank=empty,
        scenes=np.zeros(1, np.int64),
        thresholds=np.zeros(1),
    )


def fit_network(gate: DomainGate, samples: Samples, config: GateConfig) -> DomainGate:
    """Return the gate with its network trained to classify the scene, or none of them."""
    import torch
    from torch.nn.functional import cross_entropy, gelu

    torch.manual_seed(config.seed)
    count = int(samples.scenes.max()) + 1
    x = torch.from_numpy(gate.components(samples.features))
    targets = torch.from_numpy(np.where(samples.scenes == OUT_OF_DISTRIBUTION, count, samples.scenes))
    weights = torch.tensor(samples.weights, dtype=torch.float32)
    first = torch.nn.Linear(x.shape[1], config.hidden_dim)
    last = torch.nn.Linear(config.hidden_dim, count + 1)
    dropout = torch.nn.Dropout(config.dropout)
    parameters = [*first.parameters(), *last.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=config.lr, weight_decay=config.weight_decay)
    smoothing = config.label_smoothing
    for step in range(config.steps):
        optimizer.param_groups[0]["lr"] = cosine_lr(config.lr, step, config.steps)
        rows = torch.randint(len(x), (config.batch_size,))
        logits = last(dropout(gelu(first(dropout(x[rows])), approximate="tanh")))
        losses = cross_entropy(logits, targets[rows], reduction="none", label_smoothing=smoothing)
        optimizer.zero_grad()
        (losses * weights[rows]).mean().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return replace(
        gate,
        first=np.ascontiguousarray(first.weight.detach().numpy().T),
        first_bias=first.bias.detach().numpy(),
        last=np.ascontiguousarray(last.weight.detach().numpy().T),
        last_bias=last.bias.detach().numpy(),
    )


def with_bank(gate: DomainGate, samples: Samples, per_scene: int, rng: np.random.Generator) -> DomainGate:
    """Return the gate with a bank: hidden layers of at most ``per_scene`` in-distribution images a scene."""
    chosen: list[int] = []
    for scene in range(len(gate)):
        own = np.flatnonzero(samples.scenes == scene)
        chosen += sorted(rng.permutation(own)[:per_scene].tolist())
    hidden = gate.hidden(gate.components(samples.features[chosen]))
    length = np.maximum(np.linalg.norm(hidden, axis=1, keepdims=True), 1e-9)
    return replace(gate, bank=(hidden / length).astype(np.float32), scenes=samples.scenes[chosen])


def with_thresholds(gate: DomainGate, val: Samples, views: Sequence[str], refused: float) -> DomainGate:
    """Return the gate with thresholds that refuse a fraction of held-out images, camera by camera.

    Cameras have thresholds of their own: with few arrangements of objects to train on, new ones fit less well, and
    a common threshold would let out-of-distribution images of the other camera pass.

    Args:
        gate: A gate with network and bank.
        val: Held-out in-distribution images, by scene.
        views: The camera of each scene.
        refused: The fraction.
    """
    rows = np.arange(len(val.scenes))
    odds, near = (measure[rows, val.scenes] for measure in gate.measures(val.features))
    spread = max(float(odds.std()), 1e-3), max(float(near.std()), 1e-4)
    gate = replace(gate, usual=(float(odds.mean()), spread[0], float(near.mean()), spread[1]))
    own = gate.fits(val.features)[rows, val.scenes]
    by_camera = {}
    for view in set(views):
        of_view = own[np.array([views[scene] == view for scene in val.scenes])]
        # float16 on disk changes fits a little; the margin allows for it.
        by_camera[view] = float(np.quantile(of_view if len(of_view) else own, refused)) - 0.02
    return replace(gate, thresholds=np.array([by_camera[view] for view in views]))


def shared_scenes(gate: DomainGate, val: Samples, fraction: float) -> list[int]:
    """Return the scene's number of each task: the same for two whose held-out images are confused.

    Two tasks share a scene if each is the one that the other's images are most often taken for, and ``fraction``
    of them are, in the mean of both.

    Args:
        gate: A gate whose network classifies tasks, those of each camera apart.
        val: Held-out in-distribution images, by task.
        fraction: That fraction.
    """
    n = len(gate)
    logits = gate.hidden(gate.components(val.features)) @ gate.last + gate.last_bias
    predicted = np.eye(n)[logits[:, :n].argmax(axis=1)]
    counts = np.stack([predicted[val.scenes == task].sum(axis=0) for task in range(n)])
    confusion = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    np.fill_diagonal(confusion, 0.0)
    best = confusion.argmax(axis=1)
    scene = [
        min(task, int(other))
        if best[other] == task and (confusion[task, other] + confusion[other, task]) / 2 >= fraction
        else task
        for task, other in enumerate(best)
    ]
    return [sorted(set(scene)).index(number) for number in scene]


def scene_words(
    instructions: Sequence[str], paraphrases: Mapping[str, Sequence[str]], scenes: Sequence[int]
) -> dict[str, list[int]]:
    """Return the scenes of each word of their instructions; words of the judges' own prompts are left out.

    Args:
        instructions: One of each task.
        paraphrases: Paraphrases of them.
        scenes: Each task's scene.
    """
    common = {word for name in prompt_names() for word in words_of(load_prompt(name).text)}
    scenes_of: dict[str, set[int]] = {}
    for instruction, scene in zip(instructions, scenes, strict=True):
        for text in (instruction, *paraphrases.get(instruction, ())):
            for word in set(words_of(text)) - common:
                scenes_of.setdefault(word, set()).add(scene)
    return {word: sorted(numbers) for word, numbers in sorted(scenes_of.items())}
