"""A training job: options in, a checkpoint out. What ``stepscore train`` runs, whichever judge is trained.

This module imports no torch, so that a job can be made, and its options checked, without it.
"""

from __future__ import annotations

import os
import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscore._imports import check_extra
from stepscore.errors import OptionError

if TYPE_CHECKING:
    from stepscore.training.trainer import Trainer

Log = Callable[[str], None]
SMALL_MACHINE_CPUS = 4
"""Up to this many CPUs a training run takes one thread."""


def default_threads() -> int:
    """Return the CPU threads of a training run: one on a small machine, else half of its CPUs.

    On two CPUs with other work beside it, a step with two threads takes ten times as long as with one: the threads
    wait for each other.
    """
    cpus = os.cpu_count() or 1
    return 1 if cpus <= SMALL_MACHINE_CPUS else cpus // 2


@contextmanager
def deferred_interrupt() -> Iterator[Callable[[], bool]]:
    """Hold back the first Ctrl-C until the block ends; yields a function that returns whether it came.

    A second Ctrl-C is not held back. In other threads than the main one, which get no signals, nothing changes.
    """
    interrupted = False
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield lambda: False
        return

    def note(number: int, frame: Any) -> None:
        nonlocal interrupted
        if interrupted:
            before(number, frame)
        interrupted = True

    signal.signal(signal.SIGINT, note)
    try:
        yield lambda: interrupted
    finally:
        signal.signal(signal.SIGINT, before)


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


def check_single_source(labels: Path | None, subgoals: Path | None, n_sources: int) -> None:
    """Raise if a labels or subgoals file is given for several datasets, which bring their own."""
    for flag, file in (("--labels", labels), ("--subgoals", subgoals)):
        if file is not None and n_sources != 1:
            raise OptionError(
                f"{flag} belongs to one dataset; several bring their own files next to the data."
            )


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

        Ctrl-C ends it after the step under way, with its state saved and its checkpoint written.

        Args:
            max_minutes: Stop after this long; ``None`` to train to the last step.
            log: Called with a line of text now and then.
            on_step: Called after every step with its number, the number of steps in all, and its loss.

        Returns:
            ``step``, ``seconds``, ``finished``, and the metrics of the last evaluation.
        """
        check_extra(self.extra, "Training")
        import torch

        from stepscore.training.trainer import LOG_FILE, resume_and_run

        torch.set_num_threads(self.threads)
        self.folder.mkdir(parents=True, exist_ok=True)
        (
            self.folder / LOG_FILE
        ).touch()  # known as a training run at once, so that the same command resumes it
        prepared = self.prepare(log)
        with deferred_interrupt() as interrupted:
            result = resume_and_run(
                prepared.trainer, max_minutes, log, on_step, prepared.evaluate, stop=interrupted
            )
            prepared.write_checkpoint()
        if interrupted() and not result["finished"]:
            raise KeyboardInterrupt(
                f"step {result['step']} is saved, with a checkpoint in {self.folder}; the same command resumes."
            )
        return result
