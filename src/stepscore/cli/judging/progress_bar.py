"""The progress bar of commands that judge episodes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from stepscore.cli import progress
from stepscore.cli.tables import err

if TYPE_CHECKING:
    from rich.progress import TaskID

    from stepscore.runs import FinishedEpisode

T = TypeVar("T")


class EpisodesBar:
    """A progress bar on stderr, with the time left, the rate and the failures so far.

    Args:
        total: Number of episodes.
        title: The text before the bar.
        tokens: Whether to show the tokens that a model read so far, and about how many it will have read in all.
    """

    def __init__(self, total: int, title: str, *, tokens: bool = False) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[rate]}"),
            TextColumn("{task.fields[failed]}"),
            console=err(),
        )
        self._task = self._progress.add_task(title, total=total, rate="", failed="")
        self._after: TaskID | None = None
        self._quiet_since = time.monotonic()
        self._failed = 0
        self._cost, self._shows_tokens = 0.0, tokens
        self._tokens = self._judged = 0

    def __enter__(self) -> EpisodesBar:
        self._progress.__enter__()
        return self

    def __exit__(self, *details: object) -> None:
        if self._after is not None:
            self._progress.remove_task(self._after)
            self._after = None
        self._progress.__exit__(None, None, None)

    def advance(self, done: FinishedEpisode) -> None:
        """Count a finished episode, with its failure, tokens and cost."""
        self._quiet_since = time.monotonic()
        self._failed += done.error is not None
        if done.usage is not None:
            self._cost += done.usage.cost or 0.0
            self._tokens += done.usage.tokens_in
            self._judged += 1
        notes = [f"{self._failed} failed"] if self._failed else []
        # What those judged now really took is the estimate of the others; one that was there already took nothing.
        task = self._progress.tasks[0]
        share = 1 + max(0.0, (task.total or 0.0) - task.completed - 1) / max(1, self._judged)
        if self._shows_tokens and self._tokens:
            notes.append(f"tokens in {self._tokens:,} of about {round(self._tokens * share):,}")
        if self._cost:
            notes.append(f"cost {self._cost:.2f} of about {self._cost * share:.2f}")
        self._progress.update(self._task, advance=1, failed=", ".join(notes), rate=_rate(task.speed))

    def track(self, items: Iterable[T], title: str, total: int | None) -> Iterator[T]:
        """Return the items; from two seconds after the last episode on they have a row of their own below the bar."""
        row, shown = None, 0.0
        try:
            for number, item in enumerate(items):
                yield item
                now = time.monotonic()
                if now - self._quiet_since > progress.PATIENCE_S and now - shown > progress.REFRESH_S:
                    if row is None:
                        row = self._progress.add_task(title, total=total, rate="", failed="")
                    self._progress.update(row, completed=number + 1)
                    shown = now
        finally:
            if row is not None:
                self._progress.remove_task(row)

    @property
    def full(self) -> bool:
        """Whether every episode is counted."""
        return self._progress.tasks[0].finished

    def go_on_when_full(self, title: str) -> None:
        """Show that something is still done once every episode is counted: a row with the time it takes."""
        if self._after is None and self.full:
            self._after = self._progress.add_task(title, total=None, rate=_TimeTaken(), failed="")


class _TimeTaken:
    """A text that says how long ago it was made, whenever it is shown."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def __str__(self) -> str:
        return progress.minutes(time.monotonic() - self._began)


def _rate(speed: float | None) -> str:
    """Return a rate of episodes as a person reads it; empty where it is not known yet."""
    if not speed:
        return ""
    return f"{speed:.1f} a second" if speed >= 1 else f"{60 * speed:.1f} a minute"


class RunBars:
    """A progress bar for each of several runs, one after another."""

    def __init__(self) -> None:
        self._bar: EpisodesBar | None = None

    def __enter__(self) -> RunBars:
        return self

    def __exit__(self, *details: object) -> None:
        if self._bar is not None:
            self._bar.__exit__(*details)

    def start(self, title: str, total: int) -> None:
        """Begin the bar of a run."""
        self.__exit__()
        self._bar = EpisodesBar(total, title)
        self._bar.__enter__()

    def advance(self, done: FinishedEpisode) -> None:
        """Count a finished episode."""
        if self._bar is not None:
            self._bar.advance(done)
            self._bar.go_on_when_full("Writing tables, measuring")
