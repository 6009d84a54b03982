"""From datasets to a SARM checkpoint: what ``stepscore train sarm`` does."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepscore.training.job import Log, PreparedRun, TrainingJob
from stepscore.training.sarm.config import SarmJobConfig

if TYPE_CHECKING:
    from stepscore.models.sarm import SarmConfig
    from stepscore.training.sarm.training import SarmTraining


@dataclass(frozen=True)
class SarmJob(SarmJobConfig, TrainingJob):
    """A training run of SARM; its options are those of :class:`SarmJobConfig`."""

    def prepare(self, log: Log) -> PreparedRun:
        """Encode the episodes and build the network."""
        from stepscore.models.sarm import save_checkpoint
        from stepscore.training.sarm.evaluation import check
        from stepscore.training.sarm.setup import set_up

        training, held_out = set_up(self, log)

        def evaluate() -> Mapping[str, float]:
            return check(training.network, training.config, held_out, training.read)

        def write_checkpoint() -> None:
            save_checkpoint(self.folder, _with_facts(training, self), training.network)

        return PreparedRun(training, evaluate if held_out else None, write_checkpoint)


def _with_facts(training: SarmTraining, job: SarmJob) -> SarmConfig:
    facts = {
        "episodes": len(training.films),
        "frames": sum(len(film.times) for film in training.films),
        "step": training.step,
        "recipe": dataclasses.asdict(training.train_config),
        "copies": job.copies,
    }
    return dataclasses.replace(training.config, facts=facts)
