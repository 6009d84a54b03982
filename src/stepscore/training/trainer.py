"""The loop, log and saved state of a training run that can be stopped and resumed.

The random numbers of an optimizer step depend only on the step's number and the seed, so an interrupted run
ends with the same weights as an uninterrupted run.
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
"""Longest time between saves in minutes, and so the most work lost if the process is killed."""


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
    """Number of optimizer steps, and the learning rate of each."""

    @property
    def total_steps(self) -> int:
        """Total number of optimizer steps."""

    @property
    def save_every(self) -> int:
        """Number of optimizer steps between saves."""

    def lr_at(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0."""


class Trainer(ABC):
    """The loop shared by all training runs. A subclass defines the loss of a step and the state to save.

    Attributes:
        train_config: Steps, learning rate and so on.
        folder: Folder for the state and the logs.
        step: Number of optimizer steps done.
        seconds: Total time of these steps.
        optimizer: The optimizer, set by the subclass.
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
        """Return the loss of the next step, and the terms of that loss by name."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return the settings that a resumed run must share, as JSON values under their stored names."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return the weights and all other learned state, for ``torch.save``."""

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
            max_minutes: Stop after this many minutes. The state is saved, and the next run resumes from there.
            on_step: Called with the number and loss of every step, after the step is logged and saved.
            stop: Called after every step; return True to stop as if the time were up.
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
        """Save the state atomically, so that a killed process leaves either the old state or the new one."""
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
        """Restore the state in the folder, if present; return whether a state was restored.

        Raises:
            OptionError: The state belongs to a run with other options or data.
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
        trainer: The training run.
        max_minutes: Stop after this many minutes; ``None`` to train to the last step.
        log: Called with lines of text: the step from which training resumes, and the metrics of each evaluation.
        on_step: Called after every step with the step's number, the total number of steps, and the loss.
        evaluate: Returns metrics on held-out episodes; called every ``save_every`` steps and after the last, and
            written to ``checks.jsonl``. ``None`` without held-out episodes.
        stop: Called after every step; return True to stop the run.

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
    """Yield the names, including nested ones, whose values differ."""
    for name, value in new.items():
        before = old.get(name)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            yield from _changed(before, value)
        elif before != value:
            yield name
