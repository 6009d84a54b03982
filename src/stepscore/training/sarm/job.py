"""From datasets to a SARM checkpoint: what ``stepscore train sarm`` does."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from stepscore.training.job import Log, PreparedRun, TrainingJob
from stepscore.training.sarm.config import SarmJobConfig

if TYPE_CHECKING:
    from stepscore.models.sarm import SarmConfig
    from stepscore.training.sarm.trainer import SarmTrainer


@dataclass(frozen=True)
class SarmJob(SarmJobConfig, TrainingJob):
    """A training run of SARM; its options are those of :class:`SarmJobConfig`."""

    def prepare(self, log: Log) -> PreparedRun:
        """Encode the episodes and build the network."""
        from stepscore.models.sarm import save_checkpoint
        from stepscore.training.sarm.evaluation import evaluate
        from stepscore.training.sarm.setup import set_up

        trainer, held_out = set_up(self, log)

        def evaluate_held_out() -> Mapping[str, float]:
            return evaluate(trainer.network, trainer.model_config, held_out, trainer.text_features)

        def write_checkpoint() -> None:
            save_checkpoint(self.folder, _with_facts(trainer, self), trainer.network)

        return PreparedRun(trainer, evaluate_held_out if held_out else None, write_checkpoint)


def _with_facts(trainer: SarmTrainer, job: SarmJob) -> SarmConfig:
    facts = {
        "episodes": len(trainer.episodes),
        "frames": sum(len(episode.times) for episode in trainer.episodes),
        "step": trainer.step,
        "train_config": asdict(trainer.train_config),
        "copies": job.n_augmentations,
    }
    return dataclasses.replace(trainer.model_config, facts=facts)
