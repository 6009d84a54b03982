"""A worker's account is the owner's: what nobody waits for any more is given back, also when the reply is late."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from stepscore.errors import ModelError
from stepscore.models import Answer, Response
from stepscore.models.calls import BatchGroup
from stepscore.runs.messages import FromWorker, Reply, Tell, Wait
from stepscore.runs.remote_worker import OwnersAccount


def talk(work: Callable[[OwnersAccount, list[FromWorker]], Awaitable[None]]) -> list[FromWorker]:
    said: list[FromWorker] = []

    async def talking() -> None:
        await work(OwnersAccount(said.append), said)

    asyncio.run(talking())
    return said


def test_a_claim_that_comes_too_late_is_given_back() -> None:
    async def work(account: OwnersAccount, said: list[FromWorker]) -> None:
        task = asyncio.create_task(account.claim("k", Answer, None, served=True))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        account.deliver(Reply(1, None))

    assert talk(work) == [Tell("claim", ("k", Answer, True), 1), Tell("release", ("k", None))]


def test_an_attempt_that_begins_too_late_was_never_sent() -> None:
    async def work(account: OwnersAccount, said: list[FromWorker]) -> None:
        task = asyncio.create_task(account.begin("k", "m", 0.5, None))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        account.deliver(Reply(1, 7))

    assert talk(work)[1:] == [Tell("end", (7, "unsent", 0.0, None, ""))]


def test_of_one_worker_the_same_call_is_claimed_once_and_its_end_is_shared() -> None:
    outcomes: list[Response | BaseException | None] = []

    async def work(account: OwnersAccount, said: list[FromWorker]) -> None:
        first = asyncio.create_task(account.claim("k", Answer, None, served=False))
        await asyncio.sleep(0)
        others = [asyncio.create_task(account.claim("k", Answer, None, served=False)) for _ in range(2)]
        await asyncio.sleep(0)
        account.deliver(Reply(1, None))
        assert await first is None
        account.release("k", Answer("yes"))
        outcomes.extend(await asyncio.gather(*others))

    said = talk(work)
    assert outcomes == [Answer("yes")] * 2
    assert [one.method for one in said if isinstance(one, Tell)] == ["claim", "release"]


def test_who_waits_for_a_call_of_another_worker_holds_up_no_pass_until_the_reply() -> None:
    busy: list[bool] = []

    async def work(account: OwnersAccount, said: list[FromWorker]) -> None:
        with BatchGroup(["a"]).asking("a") as asking:
            task = asyncio.create_task(account.claim("k", Answer, asking, served=False))
            await asyncio.sleep(0)
            busy.append(asking.busy)
            account.deliver(Wait(1))
            busy.append(asking.busy)
            account.deliver(Reply(1, ModelError("no")))
            busy.append(asking.busy)
            with pytest.raises(ModelError, match="no"):
                await task

    talk(work)
    assert busy == [True, False, True]
