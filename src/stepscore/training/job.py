"""A training job: options in, a checkpoint out. What ``stepscore train`` runs, whichever judge is trained.

This module imports no torch, so that a job can be made, and its options checked, without it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscore._extras import check_extra

if TYPE_CHECKING:
    from stepscore.training.trainer import Trainer

Log = Callable[[str], None]


@dataclass(frozen=True)
class PreparedRun:
    """A training run whose data and network are loaded.

    Attributes:
        trainer: Runs the optimizer steps.
        evaluate: Returns metrics on held-out episodes; ``None`` where nothing is held out.
        write_checkpoint: Writes the checkpoint; called once the trainer has stopped.
    """

    trainer: Trainer
    evaluate: Callable[[], Mapping[str, float]] | None
    write_checkpoint: Callable[[], None]


class TrainingJob(ABC):
    """A training run by its options; a dataclass with these fields and its own.

    Attributes:
        folder: Where the checkpoint, the state and the logs are kept.
        threads: CPU threads.
    """

    folder: Path
    threads: int

    @property
    def extra(self) -> str:
        """The extra that it needs."""
        return "local"

    @abstractmethod
    def prepare(self, log: Log) -> PreparedRun:
        """Read the data and build the network.

        Args:
            log: Called with a line of text now and then.
        """

    def run(
        self,
        max_minutes: float | None = None,
        *,
        log: Log = lambda text: None,
        on_step: Callable[[int, int, float], None] = lambda step, total, loss: None,
    ) -> dict[str, Any]:
        """Train, or resume training, for some minutes or to the end, and write the checkpoint.

        Args:
            max_minutes: Stop after this long; ``None`` to train to the last step.
            log: Called with a line of text now and then.
            on_step: Called after every step with its number, the number of steps in all, and its loss.

        Returns:
            ``step``, ``seconds``, ``finished``, and the metrics of the last evaluation.
        """
        check_extra(self.extra, "Training")
        import torch

        from stepscore.training.trainer import resume_and_run

        torch.set_num_threads(self.threads)
        self.folder.mkdir(parents=True, exist_ok=True)
        prepared = self.prepare(log)
        result = resume_and_run(prepared.trainer, max_minutes, log, on_step, prepared.evaluate)
        prepared.write_checkpoint()
        return result
