"""The progress bar of commands that judge episodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscore.cli.tables import err

if TYPE_CHECKING:
    from stepscore.runs import FinishedEpisode


class EpisodesBar:
    """A progress bar on stderr, with the time left and the failures so far."""

    def __init__(self, total: int, title: str) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[failed]}"),
            console=err(),
        )
        self._task = self._progress.add_task(title, total=total, failed="")
        self._failed = 0
        self._cost = 0.0

    def __enter__(self) -> EpisodesBar:
        self._progress.__enter__()
        return self

    def __exit__(self, *details: object) -> None:
        self._progress.__exit__(None, None, None)

    def advance(self, done: FinishedEpisode) -> None:
        """Count a finished episode, with its failure and its cost."""
        self._failed += done.error is not None
        self._cost += (done.usage.cost or 0.0) if done.usage else 0.0
        notes = [f"{self._failed} failed"] if self._failed else []
        if self._cost:
            finished = self._progress.tasks[0].completed + 1
            total = self._cost * (self._progress.tasks[0].total or finished) / finished
            notes.append(f"cost {self._cost:.2f} of about {total:.2f}")
        self._progress.update(self._task, advance=1, failed=", ".join(notes))
