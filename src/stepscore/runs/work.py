"""The interface between a run and its engine, which receives the work and finishes the episodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from stepscore.episodes import Episode
from stepscore.errors import OptionError
from stepscore.judges import Judge
from stepscore.models.calls import CallChain, CallOptions, RunAccount
from stepscore.runs.journal import Entry, Journal
from stepscore.types import Usage

IN_FLIGHT = 2
"""Episodes in flight with an in-process model, which scores one while the next is decoded."""

MAX_WORKERS = 4096
"""Largest number of episodes in flight in one process, and of processes."""


def check_workers(workers: int) -> None:
    """Raise OptionError for an invalid number of workers."""
    if not 1 <= workers <= MAX_WORKERS:
        raise OptionError(f"workers must be an integer from 1 to {MAX_WORKERS}, got {workers}.")


@dataclass(frozen=True, slots=True)
class FinishedEpisode:
    """A finished episode: whether the journal already had its judgement, its error if any, and its usage."""

    episode_id: str
    reused: bool
    error: str | None
    usage: Usage | None = None


@dataclass(frozen=True)
class Work:
    """The work of one start of a run.

    ``episodes`` may be a lazy listing of ``count`` episodes. ``entries`` is the journal's content at the
    start. ``chain`` answers requests in this process; workers build their chains from ``options``.
    ``on_done`` is called after each episode, in the calling thread.
    """

    episodes: Iterable[Episode]
    count: int
    judge: Judge
    journal: Journal
    entries: Mapping[str, Entry]
    views: Sequence[str] | None
    account: RunAccount
    chain: CallChain
    options: CallOptions
    on_done: Callable[[FinishedEpisode], None]


class Engine(Protocol):
    """Executes a run in this process, in several processes or on a cluster, with identical results."""

    @property
    def name(self) -> str:
        """The engine's name."""

    @property
    def workers(self) -> int | None:
        """Number of episodes in flight or of processes; ``None`` if a cluster decides. Stored in ``run.json``."""

    def run(self, work: Work) -> None:
        """Judge the episodes that are not in the journal.

        Raises:
            BudgetError: The budget is exhausted. Episodes in flight were finished if all their answers had arrived.
        """
