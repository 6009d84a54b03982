"""Waits: bounded, said aloud, and shared by all calls while a server is away. No test waits."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import stamina

from stepscore.errors import ModelError, RefusedError, StatusError, TransientModelError, UnavailableError
from stepscore.models import Answer, Request, Response
from stepscore.models.calls.attempts import Attempts
from stepscore.models.calls.call import Call
from stepscore.models.calls.retries import (
    MAX_BACKOFF_S,
    MAX_PROBE_WAIT_S,
    Retry,
    Waits,
    growing_wait,
    holds_all,
)
from tests.models.calls.book import REQUEST, Book

AWAY = UnavailableError("URL cannot be reached (refused).")


@pytest.fixture(autouse=True)
def no_waits() -> Iterator[None]:
    with stamina.set_testing(True, attempts=10_000, cap=True):
        yield


@dataclass
class Restarting:
    """A server that is away from one time on its clock until another; its clock is that of the waits."""

    waits: Waits
    away: tuple[float, float]
    error: ModelError = AWAY
    tried: int = 0
    started: float = field(default=0.0)

    async def send(self, request: Request) -> Response:
        self.tried += 1
        await asyncio.sleep(0)
        if self.away[0] <= self.waits._now() - self.started < self.away[1]:
            raise self.error
        return Answer("half way", tokens_in=20, tokens_out=5)


async def ask_together(folder: Path, server: Restarting, n: int) -> list[Any]:
    server.started = server.waits._now()
    book = Book(folder, waits=server.waits)
    calls = [Call("e", str(number), REQUEST) for number in range(n)]
    return await asyncio.gather(*(book.ask(one, server.send) for one in calls), return_exceptions=True)


def ask_all(folder: Path, server: Restarting, n: int = 20) -> list[Any]:
    return asyncio.run(ask_together(folder, server, n))


@pytest.mark.parametrize("seconds", [20, 90, 300, 590])
@pytest.mark.parametrize(
    "error", [AWAY, UnavailableError("503", sent=True), UnavailableError("502", sent=True, lost=True)]
)
def test_a_server_that_restarts_fails_no_call(tmp_path: Path, seconds: float, error: ModelError) -> None:
    lines: list[str] = []
    server = Restarting(Waits("m", say=lines.append), (0.0, seconds), error)
    found = ask_all(tmp_path, server)
    assert all(isinstance(answer, Answer) for answer in found)
    # All twenty meet it away once; from then on one at a time looks, ever less often.
    assert server.tried <= 20 + 20 + 6 + seconds / MAX_PROBE_WAIT_S
    assert "m: the server does not answer; next attempt in" in lines[0]
    assert "change this with -E patience" in lines[0]
    assert "the server answers again after" in lines[-1]


def test_attempts_without_a_connection_are_none_and_those_of_a_gateway_count_in_full(tmp_path: Path) -> None:
    for name, error in (("unsent", AWAY), ("refused", UnavailableError("503", sent=True))):
        server = Restarting(Waits("m", say=lambda line: None), (0.0, 30.0), error)
        folder = tmp_path / name
        folder.mkdir()
        ask_all(folder, server, 3)
        spent = Attempts(folder / "attempts.sqlite").total()
        assert spent.answered == 3
        assert spent.attempts == (3 if name == "unsent" else server.tried)
        assert spent.refused == spent.attempts - 3
    server = Restarting(
        Waits("m", say=lambda line: None), (0.0, 30.0), UnavailableError("502", sent=True, lost=True)
    )
    ask_all(tmp_path, server, 3)
    assert Attempts(tmp_path / "attempts.sqlite").total().lost == server.tried - 3


def test_patience_ends_once_for_all_calls_and_later_ones_fail_at_once(tmp_path: Path) -> None:
    lines: list[str] = []
    waits = Waits("m", patience_s=120.0, say=lines.append)
    server = Restarting(waits, (0.0, 1e9))

    async def twice() -> None:
        found = await ask_together(tmp_path, server, 50)
        assert all(isinstance(error, UnavailableError) for error in found)
        waited = waits._skipped
        assert 60.0 < waited <= 120.0, "fifty calls wait as long as one"
        assert all("Waiting at most 120 s" in line for line in lines)
        again = await ask_together(tmp_path, server, 5)
        assert all(isinstance(error, UnavailableError) for error in again)
        assert waits._skipped == waited

    asyncio.run(twice())


def test_a_server_that_is_back_is_believed_after_patience_ended(tmp_path: Path) -> None:
    waits = Waits("m", patience_s=10.0, say=lambda line: None)
    assert isinstance(ask_all(tmp_path, Restarting(waits, (0.0, 1e9)), 1)[0], UnavailableError)
    assert isinstance(ask_all(tmp_path, Restarting(waits, (1e9, 1e9)), 1)[0], Answer)


@pytest.mark.parametrize("asked", [6.0, 60.0, 999_999_999.0])
def test_a_long_wait_is_said_bounded_and_waited_once_for_all(tmp_path: Path, asked: float) -> None:
    lines: list[str] = []
    waits = Waits("m", say=lines.append)
    server = Restarting(waits, (0.0, 1e12), RefusedError("URL answered 429: slow down", asked))
    found = ask_all(tmp_path, server, 10)
    assert all(isinstance(error, RefusedError) for error in found)
    assert 300.0 < waits._skipped <= 600.0
    first = f"m: the server does not answer; next attempt in {min(asked, 600):.0f} s"
    assert lines[0].startswith(first)
    assert ("(the server asks for 999999999 s)" in lines[0]) == (asked > 600)
    assert "slow down" in lines[0]
    assert not any("\n" in line for line in lines)


def test_a_question_that_alone_meets_an_absent_server_is_given_up_after_its_attempts(tmp_path: Path) -> None:
    poison, tried = "7", 0

    async def together() -> list[Any]:
        book = Book(tmp_path, waits=Waits("m", say=lambda line: None))

        def sender(number: int) -> Any:
            async def send(request: Request) -> Response:
                nonlocal tried
                await asyncio.sleep(0)
                if str(number) == poison:
                    tried += 1
                    raise UnavailableError("503", sent=True)
                return Answer("x", tokens_in=1)

            return send

        asked = []
        for number in range(300):
            one = Call("e", str(number), REQUEST)
            asked.append(asyncio.create_task(book.ask(one, sender(number))))
            await asyncio.sleep(0)
        return await asyncio.gather(*asked, return_exceptions=True)

    found = asyncio.run(together())
    assert sum(isinstance(answer, Answer) for answer in found) == 299
    assert isinstance(found[int(poison)], UnavailableError)
    assert tried <= 6 + 40, "not once for every other question"


def test_short_waits_are_silent_and_their_sum_is_bounded() -> None:
    lines: list[str] = []
    waits, retry = Waits("m", patience_s=100.0, say=lines.append), Retry(1000)
    given = []
    while (wait := waits.after(TransientModelError("cut", 4.0), retry)) is not False:
        given.append(float(wait))
    assert sum(given) == 100.0
    assert lines == []
    waits.after(TransientModelError("cut", 7.0), Retry(6))
    assert lines == [
        "m: waiting 7 s for the server: cut (Waiting at most 100 s; change this with -E patience.)"
    ]


def test_growing_waits_double_and_have_an_end() -> None:
    for failed in range(1, 40):
        expected = min(MAX_BACKOFF_S, 0.5 * 2 ** (failed - 1))
        assert expected <= growing_wait(failed) <= expected + 1


@pytest.mark.parametrize(
    ("error", "held"),
    [
        (AWAY, True),
        (RefusedError("429", 30.0), True),
        (RefusedError("429", 1.0), False),
        (RefusedError("429"), False),
        (TransientModelError("cut", 30.0), False),
        (StatusError("404", 404), False),
        (ValueError(), False),
    ],
)
def test_what_is_about_the_server_as_a_whole(error: Exception, *, held: bool) -> None:
    assert holds_all(error) is held
