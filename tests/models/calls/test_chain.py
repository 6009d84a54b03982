from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import stamina
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscore.errors import BudgetError, ModelError, OptionError, RefusedError, RunError, TransientModelError
from stepscore.models import Answer, DecodedMedia, MediaRef, Request, Response
from stepscore.models.calls.answer_cache import CallCache
from stepscore.models.calls.call import Call
from stepscore.models.calls.options import Budget
from stepscore.models.calls.prices import Price
from stepscore.models.calls.retries import PATIENCE_S, Retry, Waits
from tests.models.calls.book import FRAME, REQUEST, Book

PRICE = Price(1.0, 10.0, "given by the user")


@pytest.fixture(autouse=True)
def no_waits() -> Any:
    with stamina.set_testing(True, attempts=100, cap=True):
        yield


@dataclass
class Fake:
    """A server that answers, or raises what it is told to, one after the other; counts what reaches it."""

    outcomes: list[Exception] = field(default_factory=list)
    seen: int = 0
    prepared: int = 0

    def decode(self, named: MediaRef) -> DecodedMedia:
        self.prepared += 1
        return FRAME

    async def send(self, request: Request) -> Response:
        self.seen += 1
        await asyncio.sleep(0)
        if self.outcomes:
            raise self.outcomes.pop(0)
        return Answer("half way", tokens_in=20, tokens_out=5)


def ledger(path: Path, **options: Any) -> Book:
    return Book(path, **options)


def call(key: str = "k") -> Call:
    return Call("e", key, REQUEST)


def ask(book: Book, one: Call, fake: Fake) -> Response:
    return asyncio.run(book.ask(one, fake.send, fake.decode))


def rows(path: Path) -> list[tuple[Any, ...]]:
    with sqlite3.connect(path / "attempts.sqlite") as db:
        return db.execute("SELECT key, cost, state FROM attempts ORDER BY id").fetchall()


def test_an_attempt_is_written_before_it_is_sent(tmp_path: Path) -> None:
    async def look(request: Request) -> Response:
        assert [state for _, _, state in rows(tmp_path)] == ["sent"]
        return Answer("x", tokens_in=1)

    asyncio.run(ledger(tmp_path).ask(call(), look))
    assert rows(tmp_path) == [("k", None, "answered")]


def test_every_retry_is_an_attempt_and_images_are_decoded_once(tmp_path: Path) -> None:
    fake, one = Fake([TransientModelError("cut"), RefusedError("429", 0.0)]), call()
    assert ask(ledger(tmp_path), one, fake) == Answer("half way", tokens_in=20, tokens_out=5)
    assert (fake.seen, one.attempts, fake.prepared, len(one.latencies)) == (3, 3, 1, 1)
    assert [state for _, _, state in rows(tmp_path)] == ["lost", "refused", "answered"]


def test_after_the_last_retry_the_error_stands(tmp_path: Path) -> None:
    fake = Fake([TransientModelError(f"cut {n}") for n in range(9)])
    with pytest.raises(TransientModelError, match="cut 3"):
        ask(ledger(tmp_path, retries=4), call(), fake)
    assert fake.seen == 4


def test_what_no_retry_repairs_is_not_retried(tmp_path: Path) -> None:
    fake = Fake([ModelError("no such model")])
    with pytest.raises(ModelError, match="no such model"):
        ask(ledger(tmp_path), call(), fake)
    assert fake.seen == 1


def test_a_budget_of_n_is_n_attempts_over_all_starts(tmp_path: Path) -> None:
    total = 0
    for start in range(3):
        book = ledger(tmp_path, budget=Budget(max_calls=5))
        for n in range(3):
            fake = Fake([TransientModelError("cut")])
            with contextlib.suppress(BudgetError):
                ask(book, call(f"{start} {n}"), fake)
            total += fake.seen
    assert total == 5
    fake = Fake()
    with pytest.raises(BudgetError, match=r"5 calls is spent\. Continue with a larger --max-calls"):
        ask(ledger(tmp_path, budget=Budget(max_calls=5)), call("later"), fake)
    ask(ledger(tmp_path, budget=Budget(max_calls=6)), call("later"), fake)
    assert fake.seen == 1


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["fine", "lost", "refused", "wrong"]), max_size=30), st.floats(0.0, 0.02))
def test_money_is_never_exceeded_whatever_happens(
    tmp_path_factory: pytest.TempPathFactory, happens: list[str], limit: float
) -> None:
    folder = tmp_path_factory.mktemp("money")
    kinds: dict[str, Callable[[], Exception]] = {
        "lost": lambda: TransientModelError("cut"),
        "refused": lambda: RefusedError("429", 0.0),
        "wrong": lambda: ModelError("no"),
    }
    most, billed = PRICE.max_cost(call()), 0.0
    for n, what in enumerate(happens):
        book = ledger(folder, price=PRICE, budget=Budget(max_cost=limit))  # every call in a start of its own
        fake = Fake([kinds[what]()] if what in kinds else [])
        try:
            ask(book, call(str(n)), fake)
        except BudgetError:
            assert fake.seen <= 1
        except ModelError:
            pass
        # The server bills an answer by its tokens, and may bill a lost one with the most it can cost.
        answered = fake.seen - (what in kinds)
        billed += PRICE.cost(20, 5) * max(0, answered) + most * (what == "lost" and fake.seen > 0)
    assert billed <= limit + 1e-12


def test_a_refused_attempt_costs_nothing_and_a_lost_one_the_most(tmp_path: Path) -> None:
    book = ledger(tmp_path, price=PRICE)
    one = call()
    ask(book, one, Fake([RefusedError("429"), TransientModelError("cut")]))
    costs = [cost for _, cost, _ in rows(tmp_path)]
    assert costs == [0.0, PRICE.max_cost(one), PRICE.cost(20, 5)]
    assert one.cost == PRICE.cost(20, 5)


def test_a_cost_that_the_server_did_not_count_is_unknown_and_held_against_the_budget(tmp_path: Path) -> None:
    async def uncounted(request: Request) -> Response:
        return Answer("x")

    one = call()
    asyncio.run(ledger(tmp_path, price=PRICE).ask(one, uncounted))
    assert one.cost is None
    assert rows(tmp_path)[0][1] == PRICE.max_cost(one)


def test_what_is_reserved_for_calls_under_way_is_waited_for_and_not_taken_as_spent(tmp_path: Path) -> None:
    one, fake = call(), Fake()
    limit = PRICE.max_cost(one) + 9 * PRICE.cost(20, 5)

    async def together() -> list[Any]:
        book = ledger(tmp_path, price=PRICE, budget=Budget(max_cost=limit))
        asked = [book.ask(call(str(n)), fake.send, fake.decode) for n in range(12)]
        return await asyncio.gather(*asked, return_exceptions=True)

    found = asyncio.run(together())
    assert fake.seen == 10, "one at a time fits under the limit, ten in all"
    assert sum(isinstance(error, BudgetError) for error in found) == 2


def test_a_limit_in_money_needs_a_price(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="-E price-in and -E price-out"):
        ledger(tmp_path, budget=Budget(max_cost=1.0))


def test_an_answered_call_is_not_asked_again(tmp_path: Path) -> None:
    cache, fake = CallCache(tmp_path / "c.sqlite"), Fake()
    first = ask(ledger(tmp_path, cache=cache, price=PRICE), call(), fake)
    again = call()
    assert ask(ledger(tmp_path, cache=cache, price=PRICE), again, fake) == first
    assert (fake.seen, fake.prepared) == (1, 1)
    assert (again.cached, again.attempts, again.cost) == (True, 0, 0.0)


def test_the_same_question_under_way_is_asked_once(tmp_path: Path) -> None:
    fake, book = Fake([TransientModelError("cut")]), ledger(tmp_path, price=PRICE)
    calls = [call() for _ in range(5)] + [call("another")]

    async def together() -> list[Response]:
        return await asyncio.gather(*(book.ask(one, fake.send, fake.decode) for one in calls))

    assert len(set(map(repr, asyncio.run(together())))) == 1
    assert fake.seen == 3
    assert [one.cached for one in calls] == [False, True, True, True, True, False]
    assert sum(one.cost or 0.0 for one in calls) == 2 * PRICE.cost(20, 5)


def test_an_error_is_shared_by_those_who_wait_for_it(tmp_path: Path) -> None:
    fake, book = Fake([ModelError("no")]), ledger(tmp_path)

    async def together() -> list[Any]:
        asked = [book.ask(call(), fake.send, fake.decode) for _ in range(3)]
        return await asyncio.gather(*asked, return_exceptions=True)

    assert [str(error) for error in asyncio.run(together())] == ["no"] * 3
    assert fake.seen == 1


@pytest.mark.parametrize("leaves", [0, 1], ids=["who asks", "who waits"])
def test_one_who_is_cancelled_takes_nobody_with_it(tmp_path: Path, leaves: int) -> None:
    fake, book = Fake(), ledger(tmp_path)

    async def together() -> list[Any]:
        tasks = [asyncio.create_task(book.ask(call(), fake.send, fake.decode)) for _ in range(3)]
        await asyncio.sleep(0)
        tasks[leaves].cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    found = asyncio.run(together())
    assert isinstance(found.pop(leaves), asyncio.CancelledError)
    assert found == [Answer("half way", tokens_in=20, tokens_out=5)] * 2


def test_no_more_are_under_way_than_there_are_slots(tmp_path: Path) -> None:
    under_way, most = 0, 0

    async def send(request: Request) -> Response:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.001)
        under_way -= 1
        return Answer("x", tokens_in=1)

    async def together() -> None:
        book = ledger(tmp_path, slots=asyncio.Semaphore(3))
        await asyncio.gather(*(book.ask(call(str(n)), send) for n in range(20)))

    asyncio.run(together())
    assert most == 3


def test_what_waits_for_a_slot_is_no_attempt_and_no_latency(tmp_path: Path) -> None:
    calls = [call(str(n)) for n in range(4)]

    async def send(request: Request) -> Response:
        assert sum(state == "sent" for _, _, state in rows(tmp_path)) == 1
        await asyncio.sleep(0.05)
        return Answer("x", tokens_in=1)

    async def together() -> float:
        book, started = ledger(tmp_path, slots=asyncio.Semaphore(1)), time.perf_counter()
        await asyncio.gather(*(book.ask(one, send) for one in calls))
        return time.perf_counter() - started

    elapsed = asyncio.run(together())
    assert sum(one.latencies[0] for one in calls) <= elapsed, "one after the other, they add up to the whole"


def test_a_server_is_given_the_time_it_asks_for_within_reason() -> None:
    def wait(error: Exception) -> bool | float:
        return Waits("m", say=lambda line: None).after(error, Retry(6))

    assert wait(TransientModelError("", 7.0)) == 7.0
    assert wait(TransientModelError("", 0.0)) == 0.0
    assert wait(TransientModelError("", 86_400.0)) == PATIENCE_S
    assert 0 < wait(TransientModelError("")) < 2
    assert wait(ModelError("")) is False


def test_it_says_what_is_wrong_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "attempts.sqlite").write_text("this is no database, and long enough to be seen as none")
    with pytest.raises(RunError, match=r"attempts\.sqlite"):
        ledger(tmp_path)
