"""A progress bar for work that takes more than two seconds, and none for work that does not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from stepscore._progress import tracked_by
from stepscore.cli.tables import err

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

P = ParamSpec("P")
T = TypeVar("T")

PATIENCE_S = 2.0
"""Seconds after which a bar is shown."""

REFRESH_S = 0.2
"""Seconds between two looks at how far it is."""

# What a command imports takes a second or more on a busy machine: a person has waited for that as well.
_LOADED = time.monotonic()


@dataclass(eq=False)
class Phase:
    """What is being done: its title, how many items it has if that is known, how many are done, and since when."""

    title: str
    total: int | None = None
    done: int = 0
    began: float = field(default_factory=time.monotonic)


class PhasesBar:
    """A bar of the phases that a command announces; from :func:`show_progress`.

    A thread draws the phases, so that a single step of many seconds is seen too, and counting costs next to nothing.

    Args:
        title: What is shown while nothing has been announced.
    """

    def __init__(self, title: str) -> None:
        self._phases = [Phase(title)]
        self._ended = Event()
        self._thread: Thread | None = None
        self._patience_s = PATIENCE_S

    def track(self, items: Iterable[T], title: str, total: int | None) -> Iterator[T]:
        """Return the items unchanged, and count each one that was worked on."""
        phase = Phase(title, total)
        self._phases.append(phase)
        try:
            for phase.done, item in enumerate(items):
                yield item
        finally:
            self._phases.remove(phase)

    def shown(self) -> list[Phase]:
        """Return what is to be seen now, the outermost first."""
        first, *announced = self._phases.copy()
        return announced or [first]

    def start(self) -> None:
        """Begin to wait; where stderr is not a terminal nothing will be drawn."""
        console = err()
        if console.is_terminal and not console.is_dumb_terminal:
            starting = time.monotonic() - _LOADED
            self._patience_s = PATIENCE_S - (min(starting, PATIENCE_S) if starting < 2 * PATIENCE_S else 0.0)
            self._thread = Thread(target=self._draw, name="progress bar", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Take the bar away."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _draw(self) -> None:
        if self._ended.wait(self._patience_s):
            return
        tasks: dict[Phase, TaskID] = {}
        with bar() as progress:
            while True:
                draw_phases(progress, self.shown(), tasks)
                progress.refresh()
                if self._ended.wait(REFRESH_S):
                    return


def bar() -> Progress:
    """Return a bar for phases that goes away at its end."""
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[count]}"),
        TextColumn("{task.fields[time]}"),
    )
    # What is printed to stdout meanwhile stays there.
    return Progress(*columns, console=err(), transient=True, auto_refresh=False, redirect_stdout=False)


def draw_phases(progress: Progress, phases: list[Phase], tasks: dict[Phase, TaskID]) -> None:
    """Give every phase a row of the bar, with its count, the time it has taken and the time left.

    Args:
        progress: The bar.
        phases: What is to be seen.
        tasks: The rows that there are, which is updated.
    """
    for phase in [phase for phase in tasks if phase not in phases]:
        progress.remove_task(tasks.pop(phase))
    for phase in phases:
        if phase not in tasks:
            tasks[phase] = progress.add_task(phase.title, total=phase.total, count="", time="")
        done, total = phase.done, phase.total
        progress.update(tasks[phase], completed=done, count=_count(done, total), time=_time(phase))


def _count(done: int, total: int | None) -> str:
    if total is None:
        return f"{done:,}" if done else ""
    return f"{done:,}/{total:,}"


def _time(phase: Phase) -> str:
    """Return the time taken, and where there is a rate, the time left at the rate so far."""
    taken = time.monotonic() - phase.began
    if phase.total is None or not phase.done:
        return minutes(taken)
    return f"{minutes(taken)}, {minutes(taken * (phase.total - phase.done) / phase.done)} left"


def minutes(seconds: float) -> str:
    """Return a time as minutes and seconds."""
    whole, rest = divmod(round(max(0.0, seconds)), 60)
    return f"{whole}:{rest:02d}"


@contextmanager
def show_progress(title: str = "Reading") -> Iterator[PhasesBar]:
    """Show a bar on stderr if the work inside takes more than two seconds; remove it at the end.

    Args:
        title: What is shown while nothing has been announced.
    """
    shown = PhasesBar(title)
    shown.start()
    try:
        with tracked_by(shown.track):
            yield shown
    finally:
        shown.close()


def with_bar(call: Callable[P, T], title: str) -> Callable[P, T]:
    """Return the function with a bar that is shown if a call takes more than two seconds.

    Args:
        call: The function.
        title: What it does.
    """

    def waited(*args: P.args, **kwargs: P.kwargs) -> T:
        with show_progress(title):
            return call(*args, **kwargs)

    return waited
