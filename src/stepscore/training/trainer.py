"""A training run that can be stopped and taken up again: its loop, its log, and its state on disk.

Every step draws from its own number and the seed, so that a run in three pieces ends with the weights of a run
in one.
"""

from __future__ import annotations

import json
import math
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from stepscore.errors import OptionError

STATE_FILE, LOG_FILE, CHECKS_FILE = "training.pt", "training.jsonl", "checks.jsonl"
LOG_EVERY = 50
OnStep = Callable[[int, int, float], None]
CLIP = 1.0
"""Largest norm of a step's gradient."""
SAVE_MINUTES = 5.0
"""The state is kept at least so often, however long a step takes: no more than this is lost by a kill."""


def adamw(
    weights: Iterable[Tensor], rate: float, decay: float, betas: tuple[float, float]
) -> torch.optim.AdamW:
    """AdamW over these weights, with decay for matrices alone."""
    kept = list(weights)
    groups = [
        {"params": [p for p in kept if p.ndim >= 2], "weight_decay": decay},
        {"params": [p for p in kept if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=rate, betas=betas)


class Schedule(Protocol):
    """How many steps there are, and how fast each learns."""

    @property
    def last(self) -> int:
        """Steps in all."""

    @property
    def save_every(self) -> int:
        """Steps between saves."""

    def rate_at(self, step: int) -> float:
        """The learning rate of a step."""


class Trainer(ABC):
    """What all training runs share. A kind of run says what a step's loss is and what belongs to its state.

    Attributes:
        recipe: How it goes.
        folder: Where its state and log are kept.
        step: Steps done.
        seconds: Time they took.
        optimizer: What moves the weights; set by the kind of run.
    """

    recipe: Schedule
    folder: Path
    step: int = 0
    seconds: float = 0.0
    optimizer: torch.optim.AdamW

    @abstractmethod
    def loss(self) -> tuple[Tensor, Mapping[str, float]]:
        """The loss of the step that is due, and its parts by name."""

    @abstractmethod
    def setting(self) -> dict[str, Any]:
        """What must be the same for a run to go on; as JSON would have it."""

    @abstractmethod
    def weights(self) -> dict[str, Any]:
        """What has been learned, for ``torch.save``."""

    @abstractmethod
    def take(self, weights: Mapping[str, Any]) -> None:
        """Put what was learned back."""

    def run(self, minutes: float = math.inf, on_step: Callable[[int, float], None] | None = None) -> bool:
        """Go on until the last step or until the time is up; whether the last step was reached.

        Args:
            minutes: Time for this stage. The state is kept, and the next run goes on from it.
            on_step: Told of every step and its loss, once it is logged and saved.
        """
        began, before = time.monotonic(), self.seconds
        saved = began
        sums: dict[str, list[float]] = {}
        while self.step < self.recipe.last and time.monotonic() - began < 60 * minutes:
            loss = self._learn(sums)
            self.step += 1
            self.seconds = before + time.monotonic() - began
            if self.step % LOG_EVERY == 0 or self.step == self.recipe.last:
                self._log(sums)
            if self.step % self.recipe.save_every == 0 or time.monotonic() - saved > 60 * SAVE_MINUTES:
                self.save()
                saved = time.monotonic()
            if on_step is not None:
                on_step(self.step, loss)
        self.save()
        return self.step >= self.recipe.last

    def _learn(self, sums: dict[str, list[float]]) -> float:
        for group in self.optimizer.param_groups:
            group["lr"] = self.recipe.rate_at(self.step)
        loss, parts = self.loss()
        torch.autograd.backward(loss)
        moved = [p for group in self.optimizer.param_groups for p in group["params"]]
        torch.nn.utils.clip_grad_norm_(moved, CLIP)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        for name, value in parts.items():
            sums.setdefault(name, []).append(value)
        return float(loss.detach())

    def _log(self, sums: dict[str, list[float]]) -> None:
        line = {"step": self.step, "seconds": round(self.seconds, 1), "rate": self.recipe.rate_at(self.step)}
        means = {name: round(float(np.mean(values)), 6) for name, values in sums.items()}
        sums.clear()
        with (self.folder / LOG_FILE).open("a", encoding="utf-8") as log:
            log.write(json.dumps({**line, **means}) + "\n")

    def save(self) -> None:
        """Keep all that is needed to go on, at once: a killed process finds the state before or after."""
        self.folder.mkdir(parents=True, exist_ok=True)
        state = {
            "step": self.step,
            "seconds": self.seconds,
            "setting": self.setting(),
            "optimizer": self.optimizer.state_dict(),
            **self.weights(),
        }
        temporary = self.folder / f".{STATE_FILE}.tmp"
        torch.save(state, temporary)
        os.replace(temporary, self.folder / STATE_FILE)

    def resume(self) -> bool:
        """Go on from the state in the folder, if there is one; whether there was.

        Raises:
            OptionError: It is the state of a run with other options or data.
        """
        path = self.folder / STATE_FILE
        if not path.is_file():
            return False
        state = torch.load(path, map_location="cpu", weights_only=True)
        changed = list(_changed(state["setting"], self.setting()))
        if changed:
            raise OptionError(
                f"{self.folder} holds a training run with another recipe, other options or other data "
                f"({', '.join(changed)}). Go on with the same, or choose another folder."
            )
        self.take(state)
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.seconds = int(state["step"]), float(state["seconds"])
        return True


def resume_and_run(
    course: Trainer,
    minutes: float | None,
    say: Callable[[str], None],
    on_step: OnStep,
    check: Callable[[], Mapping[str, float]] | None,
) -> dict[str, Any]:
    """Take a run up where it stands, and tell what becomes of it.

    Args:
        course: The run.
        minutes: Time for this stage; ``None`` to go to the last step.
        say: Told where it goes on from, and the figures of every check.
        on_step: Told of every step: its number, the last one's number, its loss.
        check: Figures on what is held out, asked for every ``save_every`` steps and written to
            ``checks.jsonl``; ``None`` where nothing is.

    Returns:
        ``step``, ``seconds``, ``finished``, and the figures of the last check.
    """
    if course.resume():
        say(f"Going on from step {course.step}.")
    figures: dict[str, float] = {}

    def told(step: int, loss: float) -> None:
        on_step(step, course.recipe.last, loss)
        if check is None or not (step == course.recipe.last or step % course.recipe.save_every == 0):
            return
        figures.update(check())
        if figures:
            say(f"held out: {figures}")
            line = {"step": step, "seconds": round(course.seconds, 1), **figures}
            known = {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in line.items()}
            with (course.folder / CHECKS_FILE).open("a", encoding="utf-8") as checks:
                checks.write(json.dumps(known) + "\n")

    finished = course.run(math.inf if minutes is None else minutes, told)
    return {"step": course.step, "seconds": course.seconds, "finished": finished, **figures}


def _changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterable[str]:
    """Names whose values differ, those inside of others too."""
    for name, value in new.items():
        before = old.get(name)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            yield from _changed(before, value)
        elif before != value:
            yield name
