"""The configurations that are trained: SARM and its variants, frame-index labels, and fewer demonstrations."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.sarm.splits import ELAPSED
from stepscore.episodes.labels.label_intervals import POTENTIAL
from stepscore.errors import OptionError
from stepscore.models.sarm.checkpoint import CONFIG_FILE, read_config
from stepscore.models.sarm.encoders import FrameEncoder, get_encoder
from stepscore.training.embedded.tasks import VIEW
from stepscore.training.sarm import SarmJob, SarmTrainConfig

SARM, CAUSAL, AUGMENTED = "SARM", "SARM, causal", "SARM, -T n-augmentations=1"
STAGES = "SARM, progress from stages alone"
INDEX, INDEX_SUCCESSES = "frame-index labels", "frame-index labels, successes alone"


@dataclass(frozen=True)
class Configuration:
    """One training run.

    Attributes:
        folder: Name of its folder.
        title: Its name in tables.
        demonstrations: Episodes per task that it is trained on.
        options: Options of ``SarmJob`` that it sets.
    """

    folder: str
    title: str
    demonstrations: int
    options: Mapping[str, Any] = field(default_factory=dict)


def configurations(sizes: Sequence[int]) -> tuple[Configuration, ...]:
    """Return all training runs: every variant on the most demonstrations, and SARM on fewer."""
    most, dense = sizes[-1], {"progress": POTENTIAL}
    variants = (
        Configuration("sarm", SARM, most, dense),
        Configuration("causal", CAUSAL, most, {**dense, "causal": True}),
        Configuration("copies", AUGMENTED, most, {**dense, "n_augmentations": 1}),
        Configuration("stages", STAGES, most, {"progress": "stages"}),
        Configuration("index", INDEX, most, {"progress": "linear", "mode": "single"}),
        Configuration("index-successes", INDEX_SUCCESSES, most, {"progress": ELAPSED, "mode": "single"}),
    )
    fewer = (Configuration(f"sarm-{n:02d}", f"SARM, {n} demonstrations a task", n, dense) for n in sizes[:-1])
    return (*variants, *fewer)


@dataclass(frozen=True)
class Training:
    """Options that all training runs share.

    Attributes:
        out: Folder of the checkpoints, one folder each.
        encoder: ``embedded`` or ``hf/PATH-OR-ID``.
        features_dir: Folder of encoded frames, shared by all.
        train_config: Steps, batch size and learning rate.
        threads: CPU threads.
    """

    out: Path
    encoder: str
    features_dir: Path
    train_config: SarmTrainConfig
    threads: int = 1

    @property
    def frame_encoder(self) -> FrameEncoder:
        """The encoder."""
        return get_encoder(self.encoder)

    def checkpoint(self, run: Configuration, datasets: Mapping[int, tuple[Path, ...]]) -> Path:
        """Train a configuration unless it is finished, and return its checkpoint.

        Raises:
            OptionError: The folder holds a checkpoint of another encoder.
        """
        folder = self.out / "arms" / run.folder
        if (folder / CONFIG_FILE).is_file():
            config = read_config(folder)
            if config.encoder != dict(self.frame_encoder.describe()):
                raise OptionError(f"{folder} was trained with another encoder. Choose another --out.")
            if config.facts["train_config"] == asdict(self.train_config) and self._finished(config.facts):
                return folder
        job = SarmJob(
            datasets[run.demonstrations],
            folder,
            encoder=self.encoder,
            views=(VIEW,),
            train_config=self.train_config,
            val_fraction=0.0,
            features_dir=self.features_dir,
            threads=self.threads,
            **run.options,
        )
        job.run(log=lambda text: print(f"{run.folder}: {text}", file=sys.stderr, flush=True))
        return folder

    def _finished(self, facts: Mapping[str, Any]) -> bool:
        return bool(facts["step"] == self.train_config.steps)
