"""Messages between the owner of a run and its workers; all of them can be pickled."""

from __future__ import annotations

from typing import Any, NamedTuple

from stepscore.runs.episode_record import EpisodeOutcome, EpisodeTask


class Give(NamedTuple):
    """To a worker: judge these episodes together."""

    number: int
    tasks: tuple[EpisodeTask, ...]


class Reply(NamedTuple):
    """To a worker: the result of a question, or the error."""

    number: int
    result: Any


class Wait(NamedTuple):
    """To a worker: its question waits for another call."""

    number: int


class Ready(NamedTuple):
    """From a worker: it has loaded the judge."""


class Unable(NamedTuple):
    """From a worker: it cannot load the judge, and why."""

    why: str


class Tell(NamedTuple):
    """From a worker: a method of the account to call; ``number`` is 0 if no reply is wanted."""

    method: str
    arguments: tuple[Any, ...]
    number: int = 0


class Finished(NamedTuple):
    """From a worker: the outcomes of a group."""

    number: int
    outcomes: tuple[EpisodeOutcome, ...]


class Alive(NamedTuple):
    """From a worker, every few seconds: the number of the last group it received, and of those it holds."""

    received: int
    holding: tuple[int, ...]


ToWorker = Give | Reply | Wait
FromWorker = Ready | Unable | Tell | Finished | Alive
