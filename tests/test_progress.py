"""Progress is reported to the tracker of the calling thread, and to nobody from Python."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from threading import Thread
from typing import Any

from stepscore._progress import doing, track, tracked_by


class Noted:
    """A tracker that notes what it was told."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int | None]] = []

    def __call__(self, items: Iterable[Any], title: str, total: int | None) -> Iterator[Any]:
        self.seen.append((title, total))
        yield from items


def test_without_a_tracker_the_items_themselves_come_back() -> None:
    items = [1, 2]
    assert track(items, "Reading", 2) is items
    with doing("Thinking"):
        pass


def test_a_tracker_is_told_what_is_done_inside_and_nothing_after() -> None:
    noted = Noted()
    with tracked_by(noted):
        assert list(track("ab", "Reading", 2)) == ["a", "b"]
        with doing("Thinking"):
            pass
    assert list(track("ab", "Later", 2)) == ["a", "b"]
    assert noted.seen == [("Reading", 2), ("Thinking", None)]


def test_an_inner_tracker_replaces_the_outer_one_until_it_ends() -> None:
    outer, inner = Noted(), Noted()
    with tracked_by(outer):
        with tracked_by(inner):
            list(track("a", "Inside", 1))
        list(track("a", "Outside", 1))
    assert (outer.seen, inner.seen) == ([("Outside", 1)], [("Inside", 1)])


def test_a_thread_reports_nothing_to_the_tracker_of_the_thread_that_started_it() -> None:
    noted = Noted()
    with tracked_by(noted):
        thread = Thread(target=lambda: list(track("ab", "Elsewhere", 2)))
        thread.start()
        thread.join()
    assert noted.seen == []
