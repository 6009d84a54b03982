"""A training run that can be stopped and resumed: its loop, its log, and its state on disk.

Every optimizer step draws from its own number and the seed, so that a run in three pieces ends with the weights of
a run in one.
"""

from __future__ import annotations

import json
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from stepscore._files import atomic_path
from stepscore.errors import OptionError

STATE_FILE, LOG_FILE, EVAL_FILE = "training.pt", "training.jsonl", "checks.jsonl"
LOG_EVERY_STEPS = 50
MAX_GRAD_NORM = 1.0
"""Gradients are clipped to this norm."""
SAVE_MINUTES = 5.0
"""The state is saved at least this often, however long a step takes: no more than this is lost by a kill."""


def adamw(
    parameters: Iterable[Tensor], lr: float, weight_decay: float, betas: tuple[float, float]
) -> torch.optim.AdamW:
    """Return AdamW over these parameters, with weight decay only for matrices."""
    every = list(parameters)
    groups = [
        {"params": [p for p in every if p.ndim >= 2], "weight_decay": weight_decay},
        {"params": [p for p in every if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=lr, betas=betas)


class Schedule(Protocol):
    """How many optimizer steps there are, and the learning rate of each."""

    @property
    def total_steps(self) -> int:
        """Optimizer steps in all."""

    @property
    def save_every(self) -> int:
        """Optimizer steps between saves."""

    def lr_at(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0."""


class Trainer(ABC):
    """The loop shared by all training runs. A subclass gives the loss of a step and what belongs to its state.

    Attributes:
        train_config: Steps, learning rate and so on.
        folder: Where the state and the logs are kept.
        step: Optimizer steps done.
        seconds: Time they took.
        optimizer: Updates the weights; set by the subclass.
    """

    train_config: Schedule
    folder: Path
    step: int = 0
    seconds: float = 0.0
    optimizer: torch.optim.AdamW

    @property
    def finished(self) -> bool:
        """Whether the last step is done."""
        return self.step >= self.train_config.total_steps

    @abstractmethod
    def loss(self) -> tuple[Tensor, Mapping[str, float]]:
        """Return the loss of the next step, and its parts by name."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return what must be the same for a run to resume, as JSON values under the names they are stored by."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return the weights and whatever else was learned, for ``torch.save``."""

    @abstractmethod
    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`state` returned."""

    def run(
        self,
        max_minutes: float = math.inf,
        on_step: Callable[[int, float], None] | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Train until the last step or until the time is up; return whether the last step was reached.

        Args:
            max_minutes: Stop after this long. The state is saved, and the next run resumes from it.
            on_step: Called after every step with its number and loss, once it is logged and saved.
            stop: Asked after every step; True stops as the end of the time does.
        """
        started, before = time.monotonic(), self.seconds
        saved = started
        sums: dict[str, list[float]] = {}
        while not (self.finished or stop() or time.monotonic() - started >= 60 * max_minutes):
            loss = self._optimizer_step(sums)
            self.step += 1
            self.seconds = before + time.monotonic() - started
            if self.step % LOG_EVERY_STEPS == 0 or self.step == self.train_config.total_steps:
                self._log(sums)
            if self.step % self.train_config.save_every == 0 or time.monotonic() - saved > 60 * SAVE_MINUTES:
                self.save()
                saved = time.monotonic()
            if on_step is not None:
                on_step(self.step, loss)
        self.save()
        return self.finished

    def _optimizer_step(self, sums: dict[str, list[float]]) -> float:
        for group in self.optimizer.param_groups:
            group["lr"] = self.train_config.lr_at(self.step)
        loss, parts = self.loss()
        torch.autograd.backward(loss)
        trained = [p for group in self.optimizer.param_groups for p in group["params"]]
        torch.nn.utils.clip_grad_norm_(trained, MAX_GRAD_NORM)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        for name, value in parts.items():
            sums.setdefault(name, []).append(value)
        return float(loss.detach())

    def _log(self, sums: dict[str, list[float]]) -> None:
        lr = self.train_config.lr_at(self.step)
        line = {"step": self.step, "seconds": round(self.seconds, 1), "rate": lr}
        means = {name: round(float(np.mean(values)), 6) for name, values in sums.items()}
        sums.clear()
        with (self.folder / LOG_FILE).open("a", encoding="utf-8") as log:
            log.write(json.dumps({**line, **means}) + "\n")

    def save(self) -> None:
        """Write all that is needed to resume; a killed process leaves the state before or after, never a part."""
        self.folder.mkdir(parents=True, exist_ok=True)
        state = {
            "step": self.step,
            "seconds": self.seconds,
            "setting": self.settings(),
            "optimizer": self.optimizer.state_dict(),
            **self.state(),
        }
        with atomic_path(self.folder / STATE_FILE) as temporary:
            torch.save(state, temporary)

    def resume(self) -> bool:
        """Restore the state in the folder, if there is one; return whether there was.

        Raises:
            OptionError: It is the state of a run with other options or data.
        """
        path = self.folder / STATE_FILE
        if not path.is_file():
            return False
        state = torch.load(path, map_location="cpu", weights_only=True)
        changed = list(_changed(state["setting"], self.settings()))
        if changed:
            raise OptionError(
                f"{self.folder} holds a training run with other options or other data ({', '.join(changed)}). "
                "Resume it with the same ones, or choose another folder."
            )
        self.load_state(state)
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.seconds = int(state["step"]), float(state["seconds"])
        return True


def resume_and_run(
    trainer: Trainer,
    max_minutes: float | None,
    log: Callable[[str], None],
    on_step: Callable[[int, int, float], None],
    evaluate: Callable[[], Mapping[str, float]] | None,
    stop: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Resume a training run from its saved state, if there is one, and train.

    Args:
        trainer: The run.
        max_minutes: Stop after this long; ``None`` to train to the last step.
        log: Called with a line of text: the step it resumes from, and the metrics of every evaluation.
        on_step: Called after every step with its number, the number of steps in all, and its loss.
        evaluate: Returns metrics on held-out episodes; called every ``save_every`` steps and after the last, and
            written to ``checks.jsonl``. ``None`` where nothing is held out.
        stop: Asked after every step; True stops the run.

    Returns:
        ``step``, ``seconds``, ``finished``, and the metrics of the last evaluation.
    """
    if trainer.resume():
        log(f"Resuming from step {trainer.step}.")
    metrics: dict[str, float] = {}
    total, every = trainer.train_config.total_steps, trainer.train_config.save_every

    def after_step(step: int, loss: float) -> None:
        on_step(step, total, loss)
        if evaluate is None or not (step == total or step % every == 0):
            return
        metrics.update(evaluate())
        if metrics:
            log(f"held out: {metrics}")
            line = {"step": step, "seconds": round(trainer.seconds, 1), **metrics}
            known = {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in line.items()}
            with (trainer.folder / EVAL_FILE).open("a", encoding="utf-8") as file:
                file.write(json.dumps(known) + "\n")

    finished = trainer.run(math.inf if max_minutes is None else max_minutes, after_step, stop)
    return {"step": trainer.step, "seconds": trainer.seconds, "finished": finished, **metrics}


def _changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterable[str]:
    """Yield the names whose values differ, nested ones too."""
    for name, value in new.items():
        before = old.get(name)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            yield from _changed(before, value)
        elif before != value:
            yield name
