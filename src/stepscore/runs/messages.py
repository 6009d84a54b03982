"""What the owner of a run and its workers tell each other. All of it can be pickled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stepscore.runs.episode_record import EpisodeTask, Outcome


@dataclass(frozen=True, slots=True)
class Give:
    """To a worker: judge these episodes together."""

    number: int
    tasks: tuple[EpisodeTask, ...]


@dataclass(frozen=True, slots=True)
class Reply:
    """To a worker: the result of what it asked, or the error."""

    number: int
    result: Any


@dataclass(frozen=True, slots=True)
class Wait:
    """To a worker: what it asked waits for another call."""

    number: int


@dataclass(frozen=True, slots=True)
class Ready:
    """From a worker: it has the judge."""


@dataclass(frozen=True, slots=True)
class Unable:
    """From a worker: the judge cannot be loaded there, and why."""

    why: str


@dataclass(frozen=True, slots=True)
class Tell:
    """From a worker: something for the account, by the name of its method; ``number`` is 0 where no reply is due."""

    method: str
    arguments: tuple[Any, ...]
    number: int = 0


@dataclass(frozen=True, slots=True)
class Finished:
    """From a worker: the outcomes of a group."""

    number: int
    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True, slots=True)
class Alive:
    """From a worker, every few seconds: the number of the last group that it got, and those that it holds."""

    received: int
    holding: tuple[int, ...]


ToWorker = Give | Reply | Wait
FromWorker = Ready | Unable | Tell | Finished | Alive
