"""Makes the domain gate of a small judge: what it was trained on, told from everything else.

::

    python -m stepscore.training.domain_gate CHECKPOINT --inside DATASET ... --outside DATASET ...

``--inside`` are datasets the judge was trained on, ``--outside`` scenes it was not: they are shown to the gate
alone. Views that the judge was not trained with are foreign in both. See ``stepscore.models.domain_gate`` for what
the gate computes; the judge's own weights stay as they are.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stepscore.episodes import Episode, open_episodes
from stepscore.errors import OptionError
from stepscore.models.domain_gate import (
    CLIP,
    GATE_FILE,
    SIDE,
    DomainGate,
    Float32,
    picture_features,
    save_gate,
)
from stepscore.models.qwen3vl_inputs import resized
from stepscore.training.embedded_tasks import SECOND_VIEW, VIEW
from stepscore.training.gate_pictures import spoiled, varied
from stepscore.types import FloatArray, Frames

if TYPE_CHECKING:
    from stepscore.models.qwen3vl_network import Qwen3VLNetwork

REFUSED = 0.02
"""Most trained pictures the gate may refuse, of those kept apart to set its thresholds."""
FAR_SHARE = 0.25
"""Of these refusals, the share that the distance may make; the log-odds make the rest."""
HELD = 0.25
"""Share of scenes kept apart."""


@dataclass(frozen=True)
class Recipe:
    """How a gate is made.

    Attributes:
        views: Cameras the judge was trained with.
        moments: Pictures of each episode: the first frame, and others at random.
        copies: Varied copies of each trained picture, besides itself.
        foreign_copies: Varied copies of each foreign picture.
        spoils: Foreign pictures made of each trained one.
        most: Most trained and most foreign pictures taken, before copies.
        components: Principal components kept.
        hidden: Width of the network.
        epochs: Times it sees every picture.
        seed: What all choices grow from.
    """

    views: tuple[str, ...] = (VIEW, SECOND_VIEW)
    moments: int = 3
    copies: int = 2
    foreign_copies: int = 3
    spoils: int = 2
    most: int = 2500
    components: int = 256
    hidden: int = 128
    epochs: int = 30
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Picture:
    """A picture of an episode: its pixels, (SIDE, SIDE, 3), the scene it is of, and the camera."""

    pixels: Frames
    scene: str
    view: str


def read_pictures(source: str | Path, moments: int, most: int, rng: np.random.Generator) -> list[Picture]:
    """Pictures of a dataset's episodes, every view; of some episodes where there would be too many.

    Args:
        source: The dataset.
        moments: Of each episode and view: the first frame, and others drawn.
        most: Pictures in all, about.
        rng: Draws the episodes and the moments.
    """
    episodes = open_episodes(source)
    if not len(episodes):
        raise OptionError(f"{source} has no episodes.")
    wanted = max(1, round(most / (moments * max(1, len(episodes[0].views)))))
    # Drawn, not every n-th: policies take turns in a dataset, and a step could meet one of them alone.
    drawn = sorted(rng.permutation(len(episodes))[:wanted].tolist())
    return [picture for number in drawn for picture in _moments(episodes[number], moments, rng)]


def _moments(episode: Episode, moments: int, rng: np.random.Generator) -> list[Picture]:
    scene = f"{episode.task or episode.instruction}/{episode.pair or episode.id}"
    found = []
    for view in episode.views:
        last = len(episode.views[view].timestamps()) - 1
        at = sorted({0, *(int(v) for v in rng.integers(0, last + 1, moments - 1))})
        frames = resized(episode.clip(view, indices=at).frames, (SIDE, SIDE))
        found += [Picture(frame, scene, view) for frame in frames]
    return found


@dataclass(frozen=True, eq=False)
class Samples:
    """Features to learn from, with what they are of.

    Attributes:
        features: One row a picture, (n, D).
        inside: Whether it is a trained picture, (n,).
        weights: How much it counts: both sides the same in sum, and so the kinds of foreign ones, (n,).
    """

    features: Float32
    inside: FloatArray
    weights: FloatArray


def make_gate(
    network: Qwen3VLNetwork,
    inside: Sequence[Picture],
    outside: Sequence[Picture],
    recipe: Recipe | None = None,
) -> DomainGate:
    """A gate for a judge.

    Args:
        network: The judge.
        inside: Pictures of scenes and cameras it was trained on.
        outside: Pictures of others.
        recipe: How.

    Returns:
        The gate; its facts say how many pictures it was made of and how many kept apart it refuses.
    """
    recipe = recipe or Recipe()
    rng = np.random.default_rng(recipe.seed)
    scenes = sorted({picture.scene for picture in inside})
    if len(scenes) < 4 or not outside:
        raise OptionError(
            f"A gate needs pictures of at least 4 scenes and foreign ones; here are {len(scenes)}."
        )
    held = set(rng.permutation(scenes)[: max(1, round(HELD * len(scenes)))].tolist())
    taught = [picture for picture in inside if picture.scene not in held]
    kept = [picture for picture in inside if picture.scene in held]
    samples = _samples(network, taught, outside, recipe, rng)
    gate = _taught(_whitening(samples.features[samples.inside == 1], recipe.components), samples, recipe)
    tried = [picture.pixels for picture in kept]
    tried += [varied(pixels, rng) for pixels in tried for _ in range(recipe.copies)]
    seen = picture_features(network, tried)
    gate = _with_thresholds(gate, seen)
    facts = {
        "inside": len(inside),
        "outside": len(outside),
        "scenes": len(scenes),
        "kept_apart": len(tried),
        "refused_of_kept_apart": float(1 - gate.passes(seen).mean()),
        "refused_of_foreign_taught": float(1 - gate.passes(samples.features[samples.inside == 0]).mean()),
        "seed": recipe.seed,
        "views": list(recipe.views),
    }
    return replace(gate, facts=facts)


def _samples(
    network: Qwen3VLNetwork,
    taught: Sequence[Picture],
    outside: Sequence[Picture],
    recipe: Recipe,
    rng: np.random.Generator,
) -> Samples:
    """Trained pictures and copies of them; foreign ones, found and made."""
    own = [p.pixels for p in taught]
    own += [varied(p.pixels, rng) for p in taught for _ in range(recipe.copies)]
    found = [p.pixels for p in outside]
    found += [varied(p.pixels, rng) for p in outside for _ in range(recipe.foreign_copies)]
    made = []
    for picture in taught:
        for _ in range(recipe.spoils):
            other = taught[int(rng.integers(len(taught)))]
            made.append(varied(spoiled(picture.pixels, other.pixels, rng), rng))
    sizes = (len(own), len(found), len(made))
    features = np.concatenate([picture_features(network, pictures) for pictures in (own, found, made)])
    weights = np.repeat(np.array([0.5, 0.25, 0.25]) / sizes, sizes) * sum(sizes)
    return Samples(features, np.repeat([1.0, 0.0, 0.0], sizes), weights)


def _whitening(features: Float32, components: int) -> DomainGate:
    """A gate that lets everything through: mean, principal components, and what they leave."""
    import torch

    mean = features.mean(axis=0)
    centred = torch.from_numpy(features - mean)
    # Fewer than pictures, so that the components leave something of each to measure by.
    kept = min(components, max(1, len(features) // 3), features.shape[1] - 1)
    torch.manual_seed(0)
    _, sizes, axes = torch.svd_lowrank(centred, q=min(kept + 16, *centred.shape), niter=3)
    scale = sizes[:kept] / np.sqrt(len(features) - 1)
    scale = scale.clamp_min(1e-3 * float(scale[0]))
    left = (float((centred**2).sum()) - float((sizes[:kept] ** 2).sum())) / len(features)
    one = np.zeros(1, np.float32)
    return DomainGate(
        mean=mean,
        basis=(axes[:, :kept] / scale).numpy(),
        scale=scale.numpy(),
        first=np.zeros((kept + 1, 1), np.float32),
        first_bias=one,
        last=one[None],
        last_bias=one,
        left=max(left, 1e-6),
        threshold=-np.inf,
        farthest=np.inf,
    )


def _taught(gate: DomainGate, samples: Samples, recipe: Recipe) -> DomainGate:
    """The gate with its network trained."""
    import torch
    from torch.nn.functional import binary_cross_entropy_with_logits

    torch.manual_seed(recipe.seed)
    z = torch.from_numpy(np.clip(gate.coordinates(samples.features), -CLIP, CLIP))
    wanted, weights = (torch.tensor(v, dtype=torch.float32) for v in (samples.inside, samples.weights))
    first, last = torch.nn.Linear(z.shape[1], recipe.hidden), torch.nn.Linear(recipe.hidden, 1)
    drop = torch.nn.Dropout(0.3)
    optimizer = torch.optim.AdamW([*first.parameters(), *last.parameters()], lr=1e-3, weight_decay=0.05)
    steps = recipe.epochs * -(-len(z) // 256)
    slower = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(recipe.epochs):
        order = torch.randperm(len(z))
        for start in range(0, len(z), 256):
            rows = order[start : start + 256]
            hidden = torch.nn.functional.gelu(first(drop(z[rows])), approximate="tanh")
            odds = last(drop(hidden))[:, 0]
            loss = (
                binary_cross_entropy_with_logits(odds, wanted[rows], reduction="none") * weights[rows]
            ).mean()
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            slower.step()
    return replace(
        gate,
        first=np.ascontiguousarray(first.weight.detach().numpy().T),
        first_bias=first.bias.detach().numpy(),
        last=np.ascontiguousarray(last.weight.detach().numpy().T),
        last_bias=last.bias.detach().numpy(),
    )


def _with_thresholds(gate: DomainGate, kept: Float32) -> DomainGate:
    """The gate with the thresholds at which it refuses at most ``REFUSED`` of the pictures kept apart."""
    at = gate.coordinates(kept)
    near = float(np.quantile(gate.distances(at), 1 - FAR_SHARE * REFUSED))
    least = float(np.quantile(gate.log_odds(at), (1 - FAR_SHARE) * REFUSED))
    # float16 on disk moves both a little; the margin keeps the promise.
    return replace(gate, threshold=least - 0.02, farthest=near * 1.01)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command: read the datasets, make the gate, write it, say what it refuses."""
    from stepscore.models.embedded import EmbeddedModel

    parser = argparse.ArgumentParser(prog="python -m stepscore.training.domain_gate", description=__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--inside", nargs="+", required=True, metavar="DATASET")
    parser.add_argument("--outside", nargs="+", required=True, metavar="DATASET")
    parser.add_argument("--views", default=",".join(Recipe.views), help="cameras the judge was trained with")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--out", type=Path, help=f"default: CHECKPOINT/{GATE_FILE}")
    given = parser.parse_args(arguments)
    recipe = Recipe(views=tuple(given.views.split(",")), seed=given.seed)
    rng = np.random.default_rng([recipe.seed, 1])
    inside: list[Picture] = []
    outside: list[Picture] = []
    for source in given.inside:
        for picture in read_pictures(source, recipe.moments, recipe.most // len(given.inside), rng):
            (inside if picture.view in recipe.views else outside).append(picture)
    for source in given.outside:
        outside += read_pictures(source, recipe.moments, recipe.most // len(given.outside), rng)
    network = EmbeddedModel(checkpoint=str(given.checkpoint), gate=False).network
    gate = make_gate(network, inside, outside, recipe)
    path = given.out or given.checkpoint / GATE_FILE
    save_gate(gate, path)
    print(f"{path}: " + ", ".join(f"{name} {value}" for name, value in gate.facts.items()))


if __name__ == "__main__":
    main()
