"""The scheduler loses no episode and doubles none, whatever its workers do."""

from __future__ import annotations

from collections import Counter

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from stepscore.runs.schedule import Group, Scheduler


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def grouped(n: int, size: int = 1) -> list[list[tuple[str, int]]]:
    items = [(f"e{i:03d}", i) for i in range(n)]
    return [items[start : start + size] for start in range(0, n, size)]


def given(scheduler: Scheduler[int], worker: int) -> list[Group[int]]:
    groups = []
    while (group := scheduler.take(worker)) is not None:
        groups.append(group)
    return groups


def test_a_worker_holds_what_it_works_on_and_one_group_more() -> None:
    scheduler = Scheduler(grouped(10), at_a_time=2, ahead=1)
    scheduler.join(1)
    assert [list(group.items) for group in given(scheduler, 1)] == [["e000"], ["e001"], ["e002"]]
    assert scheduler.take(2) is None, "it is not known"
    assert scheduler.finish(1, 1, ["e000"]) == {"e000"}
    assert [list(group.items) for group in given(scheduler, 1)] == [["e003"]]


def test_the_listing_is_taken_only_as_far_as_it_is_handed_out() -> None:
    taken = []

    def listing():
        for group in grouped(1000):
            taken.append(group)
            yield group

    scheduler = Scheduler(listing())
    scheduler.join(1)
    given(scheduler, 1)
    assert len(taken) <= 3


def test_what_a_dead_worker_held_goes_to_others_in_its_order_and_groups_stay_whole() -> None:
    scheduler = Scheduler(grouped(6, size=2))
    scheduler.join(1)
    scheduler.join(2)
    assert [list(group.items) for group in given(scheduler, 1)] == [["e000", "e001"], ["e002", "e003"]]
    assert scheduler.leave(1) == []
    assert [list(group.items) for group in given(scheduler, 2)] == [["e000", "e001"], ["e002", "e003"]]


def test_of_two_results_the_first_counts_also_from_a_worker_that_was_given_up() -> None:
    scheduler = Scheduler(grouped(1))
    scheduler.join(1)
    (first,) = given(scheduler, 1)
    scheduler.leave(1)
    scheduler.join(2)
    (second,) = given(scheduler, 2)
    assert scheduler.finish(1, first.number, ["e000"]) == {"e000"}
    assert not scheduler.done, "the other worker still has it"
    assert scheduler.finish(2, second.number, ["e000"]) == set()
    assert scheduler.done


def test_a_late_result_saves_an_episode_that_waits_for_another_worker() -> None:
    scheduler = Scheduler(grouped(1))
    scheduler.join(1)
    (first,) = given(scheduler, 1)
    scheduler.leave(1)
    assert scheduler.waiting
    assert scheduler.finish(1, first.number, ["e000"]) == {"e000"}
    assert scheduler.done


def test_an_episode_that_ends_workers_is_given_up_and_those_behind_it_are_not_blamed() -> None:
    scheduler = Scheduler(grouped(3), max_deaths=3)
    for worker in range(2):
        scheduler.join(worker)
        assert next(iter(given(scheduler, worker)[0].items)) == "e000"
        assert scheduler.leave(worker) == []
    scheduler.join(9)
    assert len(given(scheduler, 9)) == 2
    assert scheduler.leave(9) == [0]
    scheduler.join(10)
    assert [list(group.items) for group in given(scheduler, 10)] == [["e001"], ["e002"]]


def test_where_several_are_under_way_those_of_a_worker_that_died_are_judged_by_themselves() -> None:
    scheduler = Scheduler(grouped(6), at_a_time=2, ahead=1)
    scheduler.join(1)
    assert [list(group.items) for group in given(scheduler, 1)] == [["e000"], ["e001"], ["e002"]]
    scheduler.join(2)
    busy = given(scheduler, 2)
    assert [list(group.items) for group in busy] == [["e003"], ["e004"], ["e005"]]
    assert scheduler.leave(1) == []
    scheduler.finish(2, busy[0].number, ["e003"])
    assert [list(group.items) for group in given(scheduler, 2)] == [["e002"]], "which was not begun"
    for deaths in range(2):
        scheduler.join(10 + deaths)
        assert [list(group.items) for group in given(scheduler, 10 + deaths)] == [["e000"]], (
            "and nothing else"
        )
        assert scheduler.leave(10 + deaths) == ([] if deaths == 0 else [0])
    scheduler.join(20)
    (last,) = given(scheduler, 20)
    assert list(last.items) == ["e001"]
    assert scheduler.finish(20, last.number, ["e001"]) == {"e001"}


def test_a_group_that_ended_two_workers_is_handed_out_one_by_one() -> None:
    scheduler = Scheduler(grouped(3, size=3), ahead=0)
    for worker in range(2):
        scheduler.join(worker)
        assert [list(group.items) for group in given(scheduler, worker)] == [["e000", "e001", "e002"]]
        scheduler.leave(worker)
    scheduler.join(2)
    assert [list(group.items) for group in given(scheduler, 2)] == [["e000"]]
    assert scheduler.leave(2) == [0], "alone it answers for itself"
    scheduler.join(3)
    assert [list(group.items) for group in given(scheduler, 3)] == [["e001"]]


def test_a_result_that_was_lost_on_the_way_is_noticed_and_one_not_yet_received_is_not_taken_for_lost() -> (
    None
):
    scheduler = Scheduler(grouped(3), ahead=1)
    scheduler.join(1)
    first, second = given(scheduler, 1)
    scheduler.heard(1, received=first.number, holding=())
    assert scheduler.waiting
    scheduler.join(2)
    assert [list(group.items) for group in given(scheduler, 2)] == [["e000"], ["e002"]]
    assert scheduler.finish(1, second.number, ["e001"]) == {"e001"}


def test_a_worker_that_is_not_heard_is_overdue_unless_it_has_nothing_to_do() -> None:
    clock = Clock()
    scheduler = Scheduler(grouped(1), silence_s=60, clock=clock)
    scheduler.join(1)
    scheduler.join(2)
    given(scheduler, 1)
    clock.now = 61
    assert scheduler.overdue() == [1]
    scheduler.heard(1)
    assert scheduler.overdue() == []
    clock.now = 130
    scheduler.renew()
    assert scheduler.overdue() == []


def test_a_stopped_scheduler_ends_when_what_is_held_is_finished() -> None:
    scheduler = Scheduler(grouped(10), ahead=0)
    scheduler.join(1)
    (group,) = given(scheduler, 1)
    scheduler.stop()
    assert not scheduler.done
    scheduler.finish(1, group.number, [])
    assert scheduler.done
    assert scheduler.take(1) is None


class AnyWorkers(RuleBasedStateMachine):
    """Workers that join, work, die, answer twice, lose answers and answer after they were given up."""

    @initialize(
        n=st.integers(0, 12), size=st.integers(1, 3), at_a_time=st.integers(1, 2), ahead=st.integers(0, 2)
    )
    def start(self, n: int, size: int, at_a_time: int, ahead: int) -> None:
        self.most = at_a_time + ahead
        self.scheduler = Scheduler(grouped(n, size), at_a_time=at_a_time, ahead=ahead)
        self.all = {f"e{i:03d}" for i in range(n)}
        self.results: Counter[str] = Counter()
        self.given_up: Counter[str] = Counter()
        self.alive: dict[int, dict[int, list[str]]] = {}
        self.received: dict[int, int] = {}
        self.late: list[tuple[int, int, list[str]]] = []
        self.count = 0

    def report(self, worker: int, number: int, names: list[str]) -> None:
        self.results.update(self.scheduler.finish(worker, number, names))

    @rule()
    def join(self) -> None:
        self.count += 1
        self.scheduler.join(self.count)
        self.alive[self.count], self.received[self.count] = {}, 0

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def take(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from(sorted(self.alive)))
        group = self.scheduler.take(worker)
        if group is not None:
            self.alive[worker][group.number] = list(group.items)
            self.received[worker] = group.number

    @precondition(lambda self: any(self.alive.values()))
    @rule(data=st.data(), how=st.sampled_from(["once", "twice", "lost", "partly"]))
    def work(self, data: st.DataObject, how: str) -> None:
        worker = data.draw(st.sampled_from(sorted(w for w, held in self.alive.items() if held)))
        number = data.draw(st.sampled_from(sorted(self.alive[worker])))
        names = self.alive[worker].pop(number)
        if how == "lost":
            return
        self.report(worker, number, names[:-1] if how == "partly" else names)
        if how == "twice":
            self.report(worker, number, names)

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def beat(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from(sorted(self.alive)))
        self.scheduler.heard(worker, self.received[worker], list(self.alive[worker]))

    @precondition(lambda self: self.alive)
    @rule(data=st.data(), returns=st.booleans())
    def die(self, data: st.DataObject, returns: bool) -> None:
        worker = data.draw(st.sampled_from(sorted(self.alive)))
        self.given_up.update(f"e{i:03d}" for i in self.scheduler.leave(worker))
        held = self.alive.pop(worker)
        if returns:
            self.late += [(worker, number, names) for number, names in held.items()]

    @precondition(lambda self: self.late)
    @rule()
    def answer_late(self) -> None:
        self.report(*self.late.pop())

    @invariant()
    def nothing_is_doubled(self) -> None:
        if hasattr(self, "results"):
            assert not [name for name, n in (self.results + self.given_up).items() if n > 1]
            assert all(len(held) <= self.most for held in self.alive.values())

    def teardown(self) -> None:
        if not hasattr(self, "scheduler"):
            return
        self.join()
        for worker in list(self.alive):
            for number, names in list(self.alive[worker].items()):
                self.report(worker, number, names)
                del self.alive[worker][number]
            self.scheduler.heard(worker, self.received[worker], [])
        while not self.scheduler.done:
            group = self.scheduler.take(self.count)
            assert group is not None, "something is held by nobody"
            self.report(self.count, group.number, list(group.items))
        assert set(self.results) | set(self.given_up) == self.all


TestAnyWorkers = AnyWorkers.TestCase
TestAnyWorkers.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
