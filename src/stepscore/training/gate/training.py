"""Makes the domain gate of a small judge: the scenes it was trained on, told from each other and all else.

::

    python -m stepscore.training.gate.training CHECKPOINT --inside DATASET ... --outside DATASET ...

``--inside`` are datasets the judge was trained on, ``--outside`` scenes it was not: they are shown to the gate
alone. Views that the judge was not trained with are foreign in both. See
``stepscore.models.embedded.domain_gate`` for what the gate computes; the judge's own weights stay as they are.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stepscore.episodes import Episode, open_episodes, resize_frames
from stepscore.errors import OptionError
from stepscore.models.embedded import GATE_FILE, IMAGE_SIDE, DomainGate, image_features, save_gate
from stepscore.training.embedded.tasks import SECOND_VIEW, VIEW
from stepscore.training.gate.fit import (
    NONE,
    Samples,
    fit_components,
    fit_network,
    scene_words,
    shared_scenes,
    with_bank,
    with_thresholds,
)
from stepscore.training.gate.images import spoiled, varied
from stepscore.types import Frames

if TYPE_CHECKING:
    from stepscore.models.qwen3vl import Qwen3VLNetwork

REFUSED = 0.04
"""Share of trained pictures kept apart that the gate refuses: it sets the thresholds. Later moments and changed
copies are among them; of first frames it refuses fewer."""
HELD = 0.25
"""Share of scenes kept apart."""
SHARED = 0.03
"""Two tasks share a scene if this share of their pictures kept apart is taken for the other's."""
WORDINGS = Path(__file__).parents[1] / "embedded" / "wordings.yaml"


@dataclass(frozen=True)
class GateConfig:
    """How a gate is made.

    Attributes:
        views: Cameras the judge was trained with.
        moments: Pictures of each episode: the first frame, and others at random.
        copies: Varied copies of each trained picture, besides itself.
        foreign_copies: Varied copies of each foreign picture.
        spoils: Foreign pictures made of each trained one.
        most: Most trained and most foreign pictures taken, before copies.
        components: Principal components kept of a token.
        hidden: Width of the network.
        steps: Steps it is taught in, of 256 pictures each.
        per_scene: Trained pictures of a scene that are remembered to compare with.
        seed: What all choices grow from.
    """

    views: tuple[str, ...] = (VIEW, SECOND_VIEW)
    moments: int = 3
    copies: int = 2
    foreign_copies: int = 3
    spoils: int = 1
    most: int = 3000
    components: int = 48
    hidden: int = 160
    steps: int = 1200
    per_scene: int = 160
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Picture:
    """A picture of an episode: its pixels, (IMAGE_SIDE, IMAGE_SIDE, 3), what it is of, and the camera.

    ``place`` tells one arrangement of a task's objects from another.
    """

    pixels: Frames
    instruction: str
    place: str
    view: str

    @property
    def task(self) -> tuple[str, str]:
        """What the gate tells apart at first: the instruction and the camera."""
        return self.instruction, self.view


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
    place = f"{episode.instruction}/{episode.pair or episode.id}"
    found = []
    for view in episode.views:
        last = len(episode.views[view].timestamps()) - 1
        at = sorted({0, *(int(v) for v in rng.integers(0, last + 1, moments - 1))})
        frames = resize_frames(episode.clip(view, indices=at).frames, (IMAGE_SIDE, IMAGE_SIDE))
        found += [Picture(frame, episode.instruction, place, view) for frame in frames]
    return found


def make_gate(
    network: Qwen3VLNetwork,
    inside: Sequence[Picture],
    outside: Sequence[Picture],
    recipe: GateConfig | None = None,
    wordings: Mapping[str, Sequence[str]] | None = None,
) -> DomainGate:
    """A gate for a judge.

    Args:
        network: The judge.
        inside: Pictures of scenes and cameras it was trained on.
        outside: Pictures of others.
        recipe: How.
        wordings: Other words for the trained instructions.

    Returns:
        The gate; its facts say how many pictures it was made of and how many it refuses.
    """
    recipe = recipe or GateConfig()
    rng = np.random.default_rng(recipe.seed)
    places = sorted({picture.place for picture in inside})
    if len(places) < 4 or not outside:
        raise OptionError(
            f"A gate needs pictures of at least 4 scenes and foreign ones; here are {len(places)}."
        )
    held = set(rng.permutation(places)[: max(1, round(HELD * len(places)))].tolist())
    taught = [picture for picture in inside if picture.place not in held]
    tasks = sorted({picture.task for picture in taught})
    kept = [p for p in inside if p.place in held and p.task in tasks]
    samples = _samples(network, taught, outside, tasks, recipe, rng)
    tried = _own(network, kept, tasks, recipe, rng)
    plain = fit_components(samples.features[samples.scenes != NONE], _width(network), recipe.components)
    return finished(plain, samples, tried, tasks, recipe, wordings or {})


def finished(
    plain: DomainGate,
    samples: Samples,
    kept: Samples,
    tasks: Sequence[tuple[str, str]],
    recipe: GateConfig,
    wordings: Mapping[str, Sequence[str]],
) -> DomainGate:
    """The gate of components and of pictures numbered by task: first the scenes that tasks share are found."""
    fit = partial(fit_network, plain, hidden=recipe.hidden, steps=recipe.steps, seed=recipe.seed)
    scenes = shared_scenes(fit(samples), kept, SHARED)
    samples, kept = samples.of(scenes), kept.of(scenes)
    gate = fit(samples)
    gate = with_bank(gate, samples, recipe.per_scene, np.random.default_rng([recipe.seed, 2]))
    gate = with_thresholds(gate, kept, [tasks[scenes.index(s)][1] for s in range(len(gate))], REFUSED)
    gate = replace(gate, words=scene_words([said for said, _ in tasks], wordings, scenes))
    own = gate.fits(kept.features)[np.arange(len(kept.scenes)), kept.scenes]
    foreign = gate.fits(samples.features[samples.scenes == NONE]) >= gate.thresholds
    facts = {
        "pictures": len(samples.scenes),
        "kept_apart": len(kept.scenes),
        "refused_of_kept_apart": float(np.mean(own < gate.thresholds[kept.scenes])),
        "foreign_taught_that_fit_any_scene": float(np.mean(foreign.any(axis=1))),
        "foreign_taught_that_fit_a_scene_drawn": float(np.mean(foreign)),
        "scenes": [
            [f"{t}, {v}" for (t, v), s in zip(tasks, scenes, strict=True) if s == n] for n in range(len(gate))
        ],
        "seed": recipe.seed,
    }
    return replace(gate, facts=facts)


def _width(network: Qwen3VLNetwork) -> int:
    """Numbers in a token: the tower's, and those of its deepstack layers."""
    vision = network.model.config.vision_config
    return int(vision.out_hidden_size) * (1 + len(vision.deepstack_visual_indexes))


def _own(
    network: Qwen3VLNetwork,
    pictures: Sequence[Picture],
    tasks: Sequence[tuple[str, str]],
    recipe: GateConfig,
    rng: np.random.Generator,
) -> Samples:
    """Trained pictures and copies of them, by task."""
    shown = [p.pixels for p in pictures]
    shown += [varied(p.pixels, rng) for _ in range(recipe.copies) for p in pictures]
    number = np.tile([tasks.index(p.task) for p in pictures], 1 + recipe.copies)
    return Samples(image_features(network, shown), number, np.full(len(shown), 1 / len(shown)))


def _samples(
    network: Qwen3VLNetwork,
    taught: Sequence[Picture],
    outside: Sequence[Picture],
    tasks: Sequence[tuple[str, str]],
    recipe: GateConfig,
    rng: np.random.Generator,
) -> Samples:
    """Trained pictures and copies of them; foreign ones, found and made. Half of the weight is trained."""
    own = _own(network, taught, tasks, recipe, rng)
    found = [p.pixels for p in outside]
    found += [varied(p.pixels, rng) for p in outside for _ in range(recipe.foreign_copies)]
    made = []
    for picture in taught:
        for _ in range(recipe.spoils):
            other = taught[int(rng.integers(len(taught)))]
            made.append(varied(spoiled(picture.pixels, other.pixels, rng), rng))
    sizes = (len(own.scenes), len(found), len(made))
    seen = [own.features, *(image_features(network, pictures) for pictures in (found, made))]
    weights = np.repeat(np.array([0.5, 0.25, 0.25]) / sizes, sizes) * sum(sizes)
    scenes = np.concatenate([own.scenes, np.full(len(found) + len(made), NONE)])
    return Samples(np.concatenate(seen), scenes, weights)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command: read the datasets, make the gate, write it, say what it refuses."""
    from stepscore.models.embedded import EmbeddedModel
    from stepscore.training.vlm.setup import read_wordings

    parser = argparse.ArgumentParser(prog="python -m stepscore.training.gate.training", description=__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--inside", nargs="+", required=True, metavar="DATASET")
    parser.add_argument("--outside", nargs="+", required=True, metavar="DATASET")
    parser.add_argument(
        "--views", default=",".join(GateConfig.views), help="cameras the judge was trained with"
    )
    parser.add_argument("--wordings", type=Path, default=WORDINGS, help="other words for the instructions")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--out", type=Path, help=f"default: CHECKPOINT/{GATE_FILE}")
    given = parser.parse_args(arguments)
    recipe = GateConfig(views=tuple(given.views.split(",")), seed=given.seed)
    rng = np.random.default_rng([recipe.seed, 1])
    inside: list[Picture] = []
    outside: list[Picture] = []
    for source in given.inside:
        for picture in read_pictures(source, recipe.moments, recipe.most // len(given.inside), rng):
            (inside if picture.view in recipe.views else outside).append(picture)
    for source in given.outside:
        outside += read_pictures(source, recipe.moments, recipe.most // len(given.outside), rng)
    network = EmbeddedModel(checkpoint=str(given.checkpoint), gate=False).network
    gate = make_gate(network, inside, outside, recipe, read_wordings(given.wordings))
    path = given.out or given.checkpoint / GATE_FILE
    save_gate(gate, path)
    print(f"{path}: " + ", ".join(f"{name} {value}" for name, value in gate.facts.items()))


if __name__ == "__main__":
    main()
