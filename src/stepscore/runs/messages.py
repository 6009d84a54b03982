"""Messages between the owner of a run and its workers; all of them can be pickled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stepscore.runs.episode_record import EpisodeOutcome, EpisodeTask


@dataclass(frozen=True, slots=True)
class Give:
    """To a worker: judge these episodes together."""

    number: int
    tasks: tuple[EpisodeTask, ...]


@dataclass(frozen=True, slots=True)
class Reply:
    """To a worker: the result of a question, or the error."""

    number: int
    result: Any


@dataclass(frozen=True, slots=True)
class Wait:
    """To a worker: its question waits for another call."""

    number: int


@dataclass(frozen=True, slots=True)
class Ready:
    """From a worker: it has loaded the judge."""


@dataclass(frozen=True, slots=True)
class Unable:
    """From a worker: it cannot load the judge, and why."""

    why: str


@dataclass(frozen=True, slots=True)
class Tell:
    """From a worker: a method of the account to call; ``number`` is 0 if no reply is wanted."""

    method: str
    arguments: tuple[Any, ...]
    number: int = 0


@dataclass(frozen=True, slots=True)
class Finished:
    """From a worker: the outcomes of a group."""

    number: int
    outcomes: tuple[EpisodeOutcome, ...]


@dataclass(frozen=True, slots=True)
class Alive:
    """From a worker, every few seconds: the number of the last group it received, and of those it holds."""

    received: int
    holding: tuple[int, ...]


ToWorker = Give | Reply | Wait
FromWorker = Ready | Unable | Tell | Finished | Alive
