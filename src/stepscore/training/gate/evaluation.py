"""How often a domain gate refuses: trained scenes under harmless perturbations, and other scenes by kind.

Every video counts by its first frame, as the judge uses the gate: a trained scene under its own instruction and
under a paraphrase that the gate was not trained with (the last of each line of the paraphrases), an
out-of-distribution one under trained instructions that are not its own, drawn at random. A good gate refuses few
of the first and nearly all of the second. ``python -m stepscore.training.embedded evaluate-gate`` runs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stepscore.episodes import Episode, open_episodes
from stepscore.episodes.perturbations import Darker, ImagePerturbation, Recompressed, Shifted, Zoomed
from stepscore.metrics.stats import wilson_interval
from stepscore.models.embedded import GATE_FILE, DomainGate, load_gate, torch_network
from stepscore.models.qwen3vl import image_features
from stepscore.training.embedded.tasks import PARAPHRASES_FILE, VIEW
from stepscore.training.gate.images import CORRUPTIONS
from stepscore.types import Frames

if TYPE_CHECKING:
    from stepscore.models.qwen3vl import Qwen3VLNetwork

IN_DISTRIBUTION, OUT_OF_DISTRIBUTION = "in distribution", "out of distribution"
PERTURBATIONS: Mapping[str, ImagePerturbation | None] = {
    "as recorded": None,
    "shifted 8 px right": Shifted(8, 0),
    "shifted 8 px left and up": Shifted(-8, -8),
    "zoomed 15 %": Zoomed(1.15),
    "darker, half": Darker(0.5),
    "darker, 0.7": Darker(0.7),
    "recompressed, quality 30": Recompressed(30),
}
"""Perturbations under which a trained scene stays one; pixels are those of the recording."""
EVALUATED_CORRUPTIONS = ("blank", "noise", "mirrored", "scrambled", "recoloured")
"""Corruptions, by their names in ``images.py``, whose results are counted as out of distribution."""
TEXTS_PER_OOD_FRAME = 5
"""Trained instructions an out-of-distribution frame is judged under."""


@dataclass(frozen=True, eq=False)
class GateQuery:
    """A first frame at its recorded size, and the texts it is judged under."""

    frame: Frames
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Refusals:
    """How many videos of one kind were refused.

    Attributes:
        side: ``"in distribution"``, to be accepted, or ``"out of distribution"``, to be refused.
        kind: The perturbation, or the source.
        refused: How many were refused.
        n: Of how many.
    """

    side: str
    kind: str
    refused: int
    n: int

    def row(self) -> dict[str, object]:
        """Return the counts with the share refused and its Wilson 95 % interval."""
        lo, hi = wilson_interval(self.refused, self.n)
        share = self.refused / self.n
        return {"side": self.side, "kind": self.kind, "refused": self.refused, "n": self.n} | {
            "share": share,
            "lo": lo,
            "hi": hi,
        }


def evaluate_checkpoint(
    checkpoint: Path,
    in_distribution: Sequence[str | Path],
    ood: Sequence[tuple[str, str]],
    *,
    view: str = VIEW,
    paraphrases: Path = PARAPHRASES_FILE,
    gate_file: Path | None = None,
) -> list[Refusals]:
    """Count the refusals of a checkpoint's gate on datasets.

    Args:
        checkpoint: Folder of the judge.
        in_distribution: Datasets of trained scenes that the gate was not trained on.
        ood: Sources of other videos, each after a name; sources of one name are counted together.
        view: Camera of the in-distribution datasets.
        paraphrases: A YAML file with paraphrases of the trained instructions.
        gate_file: The gate; by default that in the checkpoint's folder.
    """
    unseen = held_out_paraphrases(paraphrases)
    queries = []
    for source in in_distribution:
        episodes = open_episodes(source)
        for episode, frame in zip(episodes, first_frames(episodes, view), strict=True):
            own = episode.instruction
            queries.append(GateQuery(frame, (own, unseen[own]) if own in unseen else (own,)))
    others: dict[str, list[Frames]] = {}
    for name, source in ood:
        for kind, of_task in by_task(open_episodes(source), name).items():
            others.setdefault(kind, []).extend(first_frames(of_task))
    network = torch_network(checkpoint)
    gate = load_gate(gate_file or checkpoint / GATE_FILE)
    return evaluate_gate(gate, network, queries, others, sorted({query.texts[0] for query in queries}))


def evaluate_gate(
    gate: DomainGate,
    network: Qwen3VLNetwork,
    in_distribution: Sequence[GateQuery],
    ood: Mapping[str, Sequence[Frames]],
    instructions: Sequence[str],
    *,
    n_corrupted: int = 20,
    seed: int = 0,
) -> list[Refusals]:
    """Count refusals by perturbation and by kind, each side with the sum of all at its end.

    Args:
        gate: The gate.
        network: Its judge.
        in_distribution: First frames of trained scenes that the gate was not trained on, with their texts.
        ood: First frames of other videos, by source.
        instructions: Trained ones; each out-of-distribution frame is judged under some of them, at random.
        n_corrupted: Corrupted images of each kind to add.
        seed: Random seed of those, and of the instructions.
    """
    rng = np.random.default_rng(seed)
    frames = [query.frame for query in in_distribution]
    own = {
        name: [GateQuery(change.apply(q.frame) if change else q.frame, q.texts) for q in in_distribution]
        for name, change in PERTURBATIONS.items()
    }
    others: dict[str, Sequence[Frames]] = dict(ood)
    for name in EVALUATED_CORRUPTIONS if n_corrupted else ():
        pairs = rng.integers(0, len(frames), (n_corrupted, 2))
        corrupt = CORRUPTIONS[name]
        others[name] = [np.ascontiguousarray(corrupt(frames[a], frames[b], rng)) for a, b in pairs]
    count = min(TEXTS_PER_OOD_FRAME, len(instructions))
    strange = {
        name: [GateQuery(frame, tuple(rng.permutation(instructions)[:count].tolist())) for frame in group]
        for name, group in others.items()
    }
    return [
        *_count_refusals(gate, network, IN_DISTRIBUTION, own),
        *_count_refusals(gate, network, OUT_OF_DISTRIBUTION, strange),
    ]


def _count_refusals(
    gate: DomainGate, network: Qwen3VLNetwork, side: str, groups: Mapping[str, Sequence[GateQuery]]
) -> list[Refusals]:
    """Return a row for each group, and one for all of them."""
    rows = []
    for name, queries in groups.items():
        fits = gate.fits(image_features(network, [query.frame for query in queries]))
        passed = [
            bool(gate.passes(fits[number : number + 1], text)[0])
            for number, query in enumerate(queries)
            for text in query.texts
        ]
        rows.append(Refusals(side, name, passed.count(False), len(passed)))
    return [*rows, Refusals(side, "all", sum(row.refused for row in rows), sum(row.n for row in rows))]


def first_frames(episodes: Sequence[Episode], view: str | None = None) -> list[Frames]:
    """Return the first frame of each episode: of one view, or of all of them where none is named."""
    return [
        episode.clip(name, indices=[0]).frames[0]
        for episode in episodes
        for name in ([view] if view else episode.views)
    ]


def by_task(episodes: Sequence[Episode], name: str) -> dict[str, list[Episode]]:
    """Return the episodes of a source by ``NAME: TASK``, where it has several tasks."""
    groups: dict[str, list[Episode]] = {}
    for episode in episodes:
        groups.setdefault(f"{name}: {episode.task or episode.instruction}", []).append(episode)
    return groups if len(groups) > 1 else {name: list(episodes)}


def held_out_paraphrases(path: Path) -> dict[str, str]:
    """Read the paraphrase of each instruction that neither judge nor gate was trained on: the last of its line."""
    import yaml

    read = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {str(instruction): str(others[-1]) for instruction, others in read.items()}
