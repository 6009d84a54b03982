"""What is trained: SARM in its forms, the same network on frame-index labels, and SARM on fewer demonstrations."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.sarm.splits import ELAPSED
from stepscore.episodes.labels.label_intervals import POTENTIAL
from stepscore.errors import OptionError
from stepscore.models.sarm.checkpoint import CONFIG_FILE, read_config
from stepscore.models.sarm.encoders import FrameEncoder, get_encoder
from stepscore.training.embedded.tasks import VIEW
from stepscore.training.sarm.job import SarmJob

SARM, CAUSAL, COPIES = "SARM", "SARM, causal", "SARM, --copies 1"
STAGES = "SARM, progress from stages alone"
INDEX, INDEX_SUCCESSES = "frame-index labels", "frame-index labels, successes alone"


@dataclass(frozen=True)
class Arm:
    """One training run.

    Attributes:
        folder: Name of its folder.
        title: What it is called in tables.
        demonstrations: Episodes a task it learns from.
        options: What of ``SarmJob`` it sets.
    """

    folder: str
    title: str
    demonstrations: int
    options: Mapping[str, Any] = field(default_factory=dict)


def arms_of(sizes: Sequence[int]) -> tuple[Arm, ...]:
    """All training runs: the forms on the most demonstrations, and SARM on fewer."""
    most, dense = sizes[-1], {"progress": POTENTIAL}
    forms = (
        Arm("sarm", SARM, most, dense),
        Arm("causal", CAUSAL, most, {**dense, "causal": True}),
        Arm("copies", COPIES, most, {**dense, "copies": 1}),
        Arm("stages", STAGES, most, {"progress": "stages"}),
        Arm("index", INDEX, most, {"progress": "linear", "mode": "single"}),
        Arm("index-successes", INDEX_SUCCESSES, most, {"progress": ELAPSED, "mode": "single"}),
    )
    fewer = (Arm(f"sarm-{n:02d}", f"SARM, {n} demonstrations a task", n, dense) for n in sizes[:-1])
    return (*forms, *fewer)


@dataclass(frozen=True)
class Training:
    """How all arms are trained.

    Attributes:
        out: Where the checkpoints are kept, in a folder of each arm.
        encoder: ``embedded`` or ``hf/PATH-OR-ID``.
        cache: Where encoded frames are kept, shared by all.
        recipe: Steps, batch and rate of each.
        threads: Processor threads.
    """

    out: Path
    encoder: str
    cache: Path
    recipe: Mapping[str, Any]
    threads: int = 1

    @property
    def eyes(self) -> FrameEncoder:
        """The encoder."""
        return get_encoder(self.encoder)

    def checkpoint(self, arm: Arm, sets: Mapping[int, tuple[Path, ...]]) -> Path:
        """The arm's checkpoint; one that is finished is not trained again.

        Raises:
            OptionError: What is there was trained with another encoder or recipe.
        """
        folder = self.out / "arms" / arm.folder
        if (folder / CONFIG_FILE).is_file():
            config = read_config(folder)
            if config.encoder != dict(self.eyes.describe()):
                raise OptionError(f"{folder} was trained with another encoder. Choose another --out.")
            kept = config.facts["recipe"]
            same = all(kept[name] == value for name, value in self.recipe.items())
            if same and config.facts["step"] == self.recipe["steps"]:
                return folder
        job = SarmJob(
            sets[arm.demonstrations],
            folder,
            encoder=self.encoder,
            views=(VIEW,),
            recipe=dict(self.recipe),
            hold=0.0,
            cache=self.cache,
            threads=self.threads,
            **arm.options,
        )
        job.run(log=lambda text: print(f"{arm.folder}: {text}", file=sys.stderr, flush=True))
        return folder
