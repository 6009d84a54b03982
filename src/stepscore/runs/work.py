"""The interface between a run and its engine: an engine gets the work of a run and finishes its episodes."""

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
"""Episodes in flight at a model in process: it scores one while the frames of the next are decoded."""

MAX_WORKERS = 4096
"""Most episodes in flight in one process, and most processes."""


def check_workers(workers: int) -> None:
    """Raise OptionError for an invalid number of workers."""
    if not 1 <= workers <= MAX_WORKERS:
        raise OptionError(f"workers must be an integer from 1 to {MAX_WORKERS}, got {workers}.")


@dataclass(frozen=True, slots=True)
class FinishedEpisode:
    """A finished episode: whether its judgement was in the journal, why it has none, and the usage of its calls."""

    episode_id: str
    reused: bool
    error: str | None
    usage: Usage | None = None


@dataclass(frozen=True)
class Work:
    """The work of one start of a run.

    ``episodes`` may be a lazy listing of ``count``. ``entries`` is the journal's content at the start. ``chain``
    answers requests in this process, and ``options`` are for the chains of workers. ``on_done`` is called after each
    episode, in the calling thread.
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
    """Does the work of a run in this process, in several, or on a cluster, with the same results."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def workers(self) -> int | None:
        """Episodes in flight, or processes that judge; ``None`` if a cluster decides. Kept in ``run.json``."""

    def run(self, work: Work) -> None:
        """Judge the episodes that are not in the journal.

        Raises:
            BudgetError: The budget is spent. Episodes in flight were finished if they had their answers.
        """
