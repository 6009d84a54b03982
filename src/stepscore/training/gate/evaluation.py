"""How often a domain gate refuses, crosswise: trained scenes under harmless changes, and foreign ones by kind.

::

    python -m stepscore.training.gate.evaluation CHECKPOINT --inside DATASET ... --foreign NAME=SOURCE ...

Every video counts by its first frame, as the judge asks: a trained scene under its own instruction and under
wordings that the gate has not seen (the last of each line of ``--wordings``), a foreign one under trained
instructions that are not its own, drawn at random. A good gate refuses few of the first and nearly all of the
second.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stepscore.episodes import Episode, open_episodes
from stepscore.episodes.perturbations import Darker, ImagePerturbation, Recompressed, Shifted, Zoomed
from stepscore.metrics.stats import wilson
from stepscore.models.embedded import GATE_FILE, DomainGate, image_features, load_gate
from stepscore.training.embedded.tasks import VIEW
from stepscore.training.gate.images import SPOILS
from stepscore.training.gate.training import WORDINGS
from stepscore.types import Frames

if TYPE_CHECKING:
    from stepscore.models.qwen3vl import Qwen3VLNetwork

CHANGES: Mapping[str, ImagePerturbation | None] = {
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
TEXTS = 5
"""Instructions a foreign video is judged under."""


@dataclass(frozen=True, eq=False)
class Told:
    """A first frame at its recorded size, and texts it is judged under."""

    frame: Frames
    texts: tuple[str, ...]


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
    inside: Sequence[Told],
    foreign: Mapping[str, Sequence[Frames]],
    instructions: Sequence[str],
    *,
    made: int = 20,
    seed: int = 0,
) -> list[Refusals]:
    """Refusals by change and by kind, each side with the sum of all at its end.

    Args:
        gate: The gate.
        network: Its judge.
        inside: First frames of trained scenes that the gate has not seen, with their texts.
        foreign: First frames of other videos, by where they are from.
        instructions: Trained ones; each foreign frame is judged under ``TEXTS`` of them, drawn.
        made: Made pictures of each kind to add.
        seed: Of those, and of what is drawn.
    """
    rng = np.random.default_rng(seed)
    frames = [told.frame for told in inside]
    own = {
        name: [Told(change.apply(one.frame) if change else one.frame, one.texts) for one in inside]
        for name, change in CHANGES.items()
    }
    strange: dict[str, Sequence[Frames]] = dict(foreign)
    for name in MADE if made else ():
        drawn = rng.integers(0, len(frames), (made, 2))
        strange[name] = [np.ascontiguousarray(SPOILS[name](frames[a], frames[b], rng)) for a, b in drawn]
    some = min(TEXTS, len(instructions))
    others = {
        name: [Told(frame, tuple(rng.permutation(instructions)[:some].tolist())) for frame in shown]
        for name, shown in strange.items()
    }
    return [*_counted(gate, network, "inside", own), *_counted(gate, network, "foreign", others)]


def _counted(
    gate: DomainGate, network: Qwen3VLNetwork, side: str, groups: Mapping[str, Sequence[Told]]
) -> list[Refusals]:
    """A line for each group, and one for all of them."""
    found = []
    for name, shown in groups.items():
        fits = gate.fits(image_features(network, [told.frame for told in shown]))
        passed = [
            bool(gate.passes(fits[number : number + 1], text)[0])
            for number, told in enumerate(shown)
            for text in told.texts
        ]
        found.append(Refusals(side, name, passed.count(False), len(passed)))
    return [*found, Refusals(side, "all", sum(f.refused for f in found), sum(f.n for f in found))]


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


def kept_wordings(path: Path) -> dict[str, str]:
    """The wording of each instruction that neither judge nor gate was taught: the last of its line."""
    import yaml

    read = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {str(said): str(others[-1]) for said, others in read.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """The command: print one line a kind."""
    from stepscore.models.embedded import EmbeddedModel

    parser = argparse.ArgumentParser(prog="python -m stepscore.training.gate.evaluation", description=__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--inside", nargs="+", required=True, metavar="DATASET")
    parser.add_argument("--foreign", nargs="*", default=[], metavar="NAME=SOURCE")
    parser.add_argument("--view", default=VIEW, help="the camera of --inside to look at")
    parser.add_argument("--wordings", type=Path, default=WORDINGS, help="other words for the instructions")
    parser.add_argument("--gate", type=Path, help=f"default: CHECKPOINT/{GATE_FILE}")
    given = parser.parse_args(arguments)
    unseen = kept_wordings(given.wordings)
    inside = []
    for source in given.inside:
        episodes = open_episodes(source)
        for episode, frame in zip(episodes, first_frames(episodes, given.view), strict=True):
            said = episode.instruction
            inside.append(Told(frame, (said, unseen[said]) if said in unseen else (said,)))
    foreign: dict[str, list[Frames]] = {}
    for pair in given.foreign:
        name, _, source = pair.partition("=")
        for kind, episodes_of in by_task(open_episodes(source), name).items():
            foreign.setdefault(kind, []).extend(first_frames(episodes_of))
    network = EmbeddedModel(checkpoint=str(given.checkpoint), gate=False).network
    gate = load_gate(given.gate or given.checkpoint / GATE_FILE)
    for found in evaluate_gate(gate, network, inside, foreign, sorted({t.texts[0] for t in inside})):
        row = found.row()
        print(
            f"{found.side:8s} {found.kind:55.55s} {found.refused:4d} of {found.n:4d} refused = "
            f"{row['share']:6.3f} [{row['lo']:.3f}, {row['hi']:.3f}]"
        )


if __name__ == "__main__":
    main()
