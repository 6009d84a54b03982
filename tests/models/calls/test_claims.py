"""Of several processes that share a cache, one asks a question and the others take its answer."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import time
from collections import Counter
from pathlib import Path

import pytest

from stepscore.errors import ModelError, RunError
from stepscore.models import Answer, Request, Response
from stepscore.models.calls import claims
from stepscore.models.calls.answer_cache import CallCache
from stepscore.models.calls.call import Call
from stepscore.models.calls.claims import CLAIM_S, is_dead, new_owner, take_claim
from tests.models.calls.book import REQUEST, Book


def questions(folder: Path, name: str, n: int, kill_at: int | None = None) -> None:
    """Ask ``n`` questions of one cache, as one of several processes; each that is sent is a line of a file."""

    async def together() -> None:
        cache = CallCache(folder / "calls.sqlite")
        (folder / name).mkdir()
        book = Book(folder / name, cache=cache, shared=True)

        def sender(key: str) -> object:
            async def send(request: Request) -> Response:
                with (folder / "sent").open("a") as file:
                    file.write(f"{key}\n")
                if kill_at is not None and int(key) == kill_at:
                    os._exit(9)
                await asyncio.sleep(0.05)
                return Answer(f"answer {key}", tokens_in=1, tokens_out=1)

            return send

        calls = [Call("e", str(number), REQUEST) for number in range(n)]
        answers = await asyncio.gather(*(book.ask(one, sender(one.key)) for one in calls))  # type: ignore[arg-type]
        assert [answer.text for answer in answers if isinstance(answer, Answer)] == [
            f"answer {k}" for k in range(n)
        ]

    asyncio.run(together())


def sent(folder: Path) -> Counter[str]:
    return Counter((folder / "sent").read_text().split())


def run_all(folder: Path, kills: list[int | None], n: int = 12) -> list[int | None]:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    children = [
        context.Process(target=questions, args=(folder, str(number), n, kill))
        for number, kill in enumerate(kills)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join(120)
    return [child.exitcode for child in children]


def test_three_processes_ask_twelve_questions_twelve_times(tmp_path: Path) -> None:
    assert run_all(tmp_path, [None] * 3) == [0, 0, 0]
    assert sent(tmp_path) == {str(number): 1 for number in range(12)}


def test_a_process_that_dies_holds_up_nobody(tmp_path: Path) -> None:
    codes = run_all(tmp_path, [5, None, None])
    assert codes[1:] == [0, 0]
    counts = sent(tmp_path)
    assert set(counts) == {str(number) for number in range(12)}
    assert max(counts.values()) <= 2, "what the dead one had under way is asked once more"


def test_a_claim_holds_until_it_is_given_back_or_runs_out(tmp_path: Path) -> None:
    cache = CallCache(tmp_path / "c.sqlite")
    now = 1000.0
    assert cache.claim("k", "another-host 1 a", now + CLAIM_S)
    assert not cache.claim("k", "another-host 1 b", now + CLAIM_S)
    assert cache.claim("k", "another-host 1 a", now + 5 + CLAIM_S), "one's own claim is renewed"
    assert cache.claim("other", "another-host 1 b", now + CLAIM_S)
    assert not cache.claim("k", "another-host 1 b", now + CLAIM_S + CLAIM_S)
    assert cache.claim("k", "another-host 1 b", now + 6 + CLAIM_S + CLAIM_S), "one that ran out is anyone's"
    cache.release("k", "another-host 1 a")
    assert not cache.claim("k", "another-host 1 c", now + 6 + CLAIM_S + CLAIM_S), (
        "only its owner gives it back"
    )
    cache.release("k", "another-host 1 b")
    assert cache.claim("k", "another-host 1 c", now + CLAIM_S)


def test_a_claim_from_when_the_clock_was_wrong_is_anyones(tmp_path: Path) -> None:
    cache = CallCache(tmp_path / "c.sqlite")
    assert cache.claim("k", "another-host 1 a", 1e12)
    assert cache.claim("k", "another-host 1 b", 1000.0 + CLAIM_S)


def test_the_claim_of_a_dead_process_is_anyones_at_once(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    mine, dead = new_owner(), new_owner().replace(f" {os.getpid()} ", f" {child} ")
    assert is_dead(dead)
    assert not is_dead(mine)
    cache = CallCache(tmp_path / "c.sqlite")
    assert cache.claim("k", dead, time.time() + CLAIM_S)
    assert cache.claim("k", mine, time.time() + CLAIM_S)


@pytest.mark.parametrize("owner", ["", "x", "another-host 1 a", "a b c", f"{'9' * 30}", f"h {'9' * 30} x"])
def test_where_it_cannot_be_known_an_owner_is_not_dead(owner: str) -> None:
    assert not is_dead(owner)


def test_a_claim_is_renewed_while_the_question_is_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "RENEW_S", 0.0)
    cache, until = CallCache(tmp_path / "c.sqlite"), []

    async def hold() -> None:
        held = await take_claim(cache, "k", "me")
        for _ in range(50):
            await asyncio.sleep(0)
            until.append(cache._run("SELECT until FROM claims")[0][0][0])
        held.give_back()

    asyncio.run(hold())
    assert len(set(until)) > 1
    assert cache._run("SELECT * FROM claims")[0] == []


def test_a_question_that_fails_is_given_back(tmp_path: Path) -> None:
    cache = CallCache(tmp_path / "c.sqlite")
    book = Book(tmp_path, cache=cache, shared=True)

    async def fail(request: Request) -> Response:
        assert len(cache._run("SELECT * FROM claims")[0]) == 1
        raise ModelError("no")

    with pytest.raises(ModelError, match="no"):
        asyncio.run(book.ask(Call("e", "k", REQUEST), fail))
    assert cache._run("SELECT * FROM claims")[0] == []


def test_a_cache_that_breaks_while_a_claim_is_held_does_not_hide_the_answer(tmp_path: Path) -> None:
    class Breaking:
        def claim(self, key: str, owner: str, until: float) -> bool:
            return True

        def release(self, key: str, owner: str) -> None:
            raise RunError("the disk is full")

    async def hold() -> str:
        held = await take_claim(Breaking(), "k", "me")
        held.give_back()
        return "answer"

    assert asyncio.run(hold()) == "answer"
