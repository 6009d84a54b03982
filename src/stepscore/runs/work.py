"""The seam between a run and what carries it out: an engine gets the work of a run and finishes its episodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from stepscore.episodes import Episode
from stepscore.judges import Judge
from stepscore.models.calls import CallChain, CallOptions, RunAccount
from stepscore.runs.journal import Entry, Journal
from stepscore.types import Usage

IN_FLIGHT = 2
"""Episodes in flight at a model in process: the frames of the next are decoded while it scores one."""

MAX_WORKERS = 4096
"""Most episodes in flight in one process, and most processes."""


@dataclass(frozen=True, slots=True)
class FinishedEpisode:
    """An episode that is finished.

    Attributes:
        episode_id: Its id.
        reused: Whether it was found in the journal rather than judged now.
        error: Why there is no judgement; ``None`` when there is one.
        usage: What judging it took; ``None`` where it was reused.
    """

    episode_id: str
    reused: bool
    error: str | None
    usage: Usage | None = None


@dataclass(frozen=True)
class Work:
    """The work of one start of a run.

    Attributes:
        episodes: The episodes; taken one by one, so that a lazy listing stays lazy.
        count: How many they are.
        judge: The judge.
        journal: The open journal to which each finished episode is written, by this process alone.
        entries: What the journal held at the start.
        views: Give the judge only these views; ``None`` for all.
        account: The account of all calls.
        chain: Answers requests in this process.
        options: Prices, connections and patience, for the chains of workers.
        on_done: Called after each episode, in the calling thread.
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
    """Carries out the work of a run: in this process, in several, or on a cluster. Results are the same."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def workers(self) -> int | None:
        """Episodes in flight, or processes that judge; ``None`` where a cluster decides. ``run.json`` keeps it."""

    def run(self, work: Work) -> None:
        """Judge what the journal does not hold yet.

        Raises:
            BudgetError: The budget was spent. Episodes that had their answers are written, no more are begun.
        """
