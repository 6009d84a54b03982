"""A progress bar for work that takes more than two seconds, and none for work that does not."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from stepscore.cli.tables import err

if TYPE_CHECKING:
    from rich.progress import Progress

T = TypeVar("T")

PATIENCE_S = 2.0
"""Seconds after which a bar is shown."""

_REFRESHES_PER_ITEMS = 200


class Watch:
    """Counts what a command works through; from :func:`watched`.

    Called with items, a title and their number, it returns the items, as :func:`rich.progress.track` does.
    """

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._progress: Progress | None = None

    def __call__(self, items: Iterable[T], title: str, total: int) -> Iterator[T]:
        """Return the items, counting each one that was worked on."""
        every = max(1, total // _REFRESHES_PER_ITEMS)
        task = None
        for number, item in enumerate(items):
            yield item
            if number % every == 0 and time.monotonic() - self._started > PATIENCE_S:
                progress = self._shown()
                task = progress.add_task(title, total=total) if task is None else task
                progress.update(task, completed=number + 1)
        if task is not None:
            self._shown().remove_task(task)

    def _shown(self) -> Progress:
        if self._progress is None:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
            )
            self._progress = Progress(*columns, console=err(), transient=True)
            self._progress.start()
        return self._progress

    def close(self) -> None:
        """Take the bar away."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


@contextmanager
def watched() -> Iterator[Watch]:
    """Show a bar on stderr while what is done inside takes more than two seconds; it goes away at the end."""
    watch = Watch()
    try:
        yield watch
    finally:
        watch.close()
