"""How often a domain gate refuses, crosswise: trained scenes under harmless changes, and foreign ones by kind.

::

    python -m stepscore.training.gate_evaluation CHECKPOINT --inside DATASET ... --foreign NAME=SOURCE ...

Every video counts once, by its first frame, as the judge asks. A good gate refuses few of the first and nearly
all of the second. Texts play no part: the gate sees pictures alone, so an unseen wording changes nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stepscore.episodes import Episode, open_episodes
from stepscore.episodes.picture_changes import Darker, PictureChange, Recompressed, Shifted, Zoomed
from stepscore.metrics.intervals import wilson
from stepscore.models.domain_gate import GATE_FILE, DomainGate, load_gate, picture_features
from stepscore.training.embedded_tasks import VIEW
from stepscore.training.gate_pictures import SPOILS
from stepscore.types import Frames

if TYPE_CHECKING:
    from stepscore.models.qwen3vl_network import Qwen3VLNetwork

CHANGES: Mapping[str, PictureChange | None] = {
    "as recorded": None,
    "shifted 8 px right": Shifted(8, 0),
    "shifted 8 px left and up": Shifted(-8, -8),
    "zoomed 15 %": Zoomed(1.15),
    "darker, half": Darker(0.5),
    "darker, 0.7": Darker(0.7),
    "recompressed, quality 30": Recompressed(30),
}
"""Changes under which a trained scene stays one; pixels are those of the recording."""
MADE = ("blank", "noise", "mirrored", "scrambled", "recoloured")
"""Foreign pictures that are made and not found; see ``gate_pictures``."""


@dataclass(frozen=True)
class Refusals:
    """How many videos of one kind were refused.

    Attributes:
        side: ``"inside"``, to be let through, or ``"foreign"``, to be refused.
        kind: The change, or where they are from.
        refused: How many were.
        n: Of how many.
    """

    side: str
    kind: str
    refused: int
    n: int

    def row(self) -> dict[str, object]:
        """With the share and its Wilson 95 % interval."""
        lo, hi = wilson(self.refused, self.n)
        share = self.refused / self.n
        return {"side": self.side, "kind": self.kind, "refused": self.refused, "n": self.n} | {
            "share": share,
            "lo": lo,
            "hi": hi,
        }


def evaluate_gate(
    gate: DomainGate,
    network: Qwen3VLNetwork,
    inside: Sequence[Frames],
    foreign: Mapping[str, Sequence[Frames]],
    *,
    made: int = 40,
    seed: int = 0,
) -> list[Refusals]:
    """Refusals by change and by kind, each side with the sum of all at its end.

    Args:
        gate: The gate.
        network: Its judge.
        inside: First frames of trained scenes that the gate has not seen, at their recorded size.
        foreign: First frames of other videos, by where they are from.
        made: Made pictures of each kind to add.
        seed: Of those.
    """
    rng = np.random.default_rng(seed)
    by_change = {
        name: [frame if change is None else change.apply(frame) for frame in inside]
        for name, change in CHANGES.items()
    }
    by_kind: dict[str, Sequence[Frames]] = dict(foreign)
    for name in MADE if made else ():
        drawn = rng.integers(0, len(inside), (made, 2))
        by_kind[name] = [np.ascontiguousarray(SPOILS[name](inside[a], inside[b], rng)) for a, b in drawn]
    found = []
    for side, groups in (("inside", by_change), ("foreign", by_kind)):
        counted = []
        for name, pictures in groups.items():
            refused = ~gate.passes(picture_features(network, list(pictures)))
            counted.append(Refusals(side, name, int(refused.sum()), len(pictures)))
        total = Refusals(side, "all", sum(c.refused for c in counted), sum(c.n for c in counted))
        found += [*counted, total]
    return found


def first_frames(episodes: Sequence[Episode], view: str | None = None) -> list[Frames]:
    """The first frame of each episode: of one view, or of all of them where none is named."""
    return [
        episode.clip(name, indices=[0]).frames[0]
        for episode in episodes
        for name in ([view] if view else episode.views)
    ]


def by_task(episodes: Sequence[Episode], name: str) -> dict[str, list[Episode]]:
    """Episodes of a source by ``NAME TASK``, where it has several tasks."""
    groups: dict[str, list[Episode]] = {}
    for episode in episodes:
        groups.setdefault(f"{name}: {episode.task or episode.instruction}", []).append(episode)
    return groups if len(groups) > 1 else {name: list(episodes)}


def main(arguments: Sequence[str] | None = None) -> None:
    """The command: print one line a kind."""
    from stepscore.models.embedded import EmbeddedModel

    parser = argparse.ArgumentParser(prog="python -m stepscore.training.gate_evaluation", description=__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--inside", nargs="+", required=True, metavar="DATASET")
    parser.add_argument("--foreign", nargs="*", default=[], metavar="NAME=SOURCE")
    parser.add_argument("--view", default=VIEW, help="the camera of --inside to look at")
    given = parser.parse_args(arguments)
    inside = [frame for source in given.inside for frame in first_frames(open_episodes(source), given.view)]
    foreign: dict[str, list[Frames]] = {}
    for pair in given.foreign:
        name, _, source = pair.partition("=")
        for kind, episodes in by_task(open_episodes(source), name).items():
            foreign.setdefault(kind, []).extend(first_frames(episodes))
    network = EmbeddedModel(checkpoint=str(given.checkpoint), gate=False).network
    gate = load_gate(given.checkpoint / GATE_FILE)
    print(f"log-odds from {gate.threshold:.2f}, distance up to {gate.farthest:.2f}")
    for found in evaluate_gate(gate, network, inside, foreign):
        row = found.row()
        print(
            f"{found.side:8s} {found.kind:55.55s} {found.refused:4d} of {found.n:4d} refused = "
            f"{row['share']:6.3f} [{row['lo']:.3f}, {row['hi']:.3f}]"
        )


if __name__ == "__main__":
    main()
