"""From datasets to a SARM checkpoint: what ``stepscore train sarm`` does."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stepscore.errors import MissingExtraError
from stepscore.training.sarm.config import SarmJobConfig

if TYPE_CHECKING:
    from stepscore.models.sarm import SarmConfig
    from stepscore.training.sarm.training import SarmTraining

Say = Callable[[str], None]


@dataclass(frozen=True)
class SarmJob(SarmJobConfig):
    """A training run of SARM."""

    def run(
        self,
        minutes: float | None = None,
        *,
        say: Say = lambda text: None,
        on_step: Callable[[int, int, float], None] = lambda step, last, loss: None,
    ) -> dict[str, Any]:
        """Train, or go on training, for some minutes or to the end.

        Args:
            minutes: Time for this stage; ``None`` to go to the last step.
            say: Told a line now and then.
            on_step: Told of every step: its number, the last one's number, its loss.

        Returns:
            ``step``, ``seconds``, ``finished``, and the figures of the last check.
        """
        try:
            import torch

            from stepscore.models.sarm import save_checkpoint
            from stepscore.training.sarm.evaluation import check
            from stepscore.training.sarm.setup import set_up
            from stepscore.training.trainer import resume_and_run
        except ImportError as error:
            raise MissingExtraError("Training", "local") from error
        torch.set_num_threads(self.threads)
        self.folder.mkdir(parents=True, exist_ok=True)
        training, held_out = set_up(self, say)

        def checked() -> Mapping[str, float]:
            return check(training.network, training.config, held_out, training.read)

        done = resume_and_run(training, minutes, say, on_step, checked if held_out else None)
        save_checkpoint(self.folder, _with_facts(training, self), training.network)
        return done


def _with_facts(training: SarmTraining, job: SarmJob) -> SarmConfig:
    facts = {
        "episodes": len(training.films),
        "frames": sum(len(film.times) for film in training.films),
        "step": training.step,
        "recipe": dataclasses.asdict(training.recipe),
        "copies": job.copies,
    }
    return dataclasses.replace(training.config, facts=facts)
