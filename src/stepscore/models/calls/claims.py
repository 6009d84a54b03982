"""Claims: of all who ask the same call at once, one sends it and the others wait for its answer.

In one process a :class:`ClaimTable` does this. Between processes that share a cache, a claim is a row beside the
cached answers: the call's key, its owner, and an expiry time that the owner renews while the call is under way. A
claim whose owner is dead or has not renewed it is free again, so nobody waits forever; at worst a call is sent twice.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from stepscore._locks import has_ended
from stepscore.errors import RunError
from stepscore.models.responses import Response

CLAIM_S = 30.0
"""Seconds until a claim expires unless it is renewed."""

RENEW_S = 8.0
"""Seconds between two renewals."""

MAX_POLL_S = 0.5
"""Most seconds between two looks at a claim of another process."""

CallOutcome = Response | Exception
"""How a call ended."""


class Waiter(Protocol):
    """A caller that may have to wait for someone else's call."""

    def pause(self) -> None:
        """Called before it waits."""

    def resume(self) -> None:
        """Called when it continues, before any other coroutine runs."""


@dataclass(eq=False)
class _Claim:
    """A call under way: who sends it, and who waits for it."""

    holder: object
    waiting: list[tuple[asyncio.Future[CallOutcome | None], Waiter | None]] = field(default_factory=list)


class ClaimTable:
    """Claims within one process, used in one event loop."""

    def __init__(self) -> None:
        self._claims: dict[str, _Claim] = {}

    async def claim(self, key: str, waiter: Waiter | None = None, holder: object = None) -> Response | None:
        """Claim a key and return ``None``; if another holds it, return or raise the outcome of that call.

        A claim released without an outcome (its holder was cancelled) passes to the next who waits.
        """
        while (held := self._claims.get(key)) is not None:
            if waiter is not None:
                waiter.pause()
            future: asyncio.Future[CallOutcome | None] = asyncio.get_running_loop().create_future()
            held.waiting.append((future, waiter))
            outcome = await future
            if isinstance(outcome, Exception):
                raise outcome
            if outcome is not None:
                return outcome
        self._claims[key] = _Claim(holder)
        return None

    def release(self, key: str, outcome: CallOutcome | None, holder: object = None) -> bool:
        """End a claim; return ``False`` and leave it if another holds it by now."""
        held = self._claims.get(key)
        if held is None or held.holder is not holder:
            return False
        del self._claims[key]
        for future, waiter in held.waiting:
            if waiter is not None:
                waiter.resume()  # now, not when its coroutine runs: its batch group must not be sent without it
            if not future.done():
                future.set_result(outcome)
        return True

    def held_by(self, holder: object) -> list[str]:
        """Return the keys that a holder has claimed."""
        return [key for key, claim in self._claims.items() if claim.holder is holder]

    def give(self, key: str, holder: object) -> None:
        """Give a claim to another holder."""
        if (held := self._claims.get(key)) is not None:
            held.holder = holder

    async def settled(self) -> None:
        """Wait until all calls now under way have ended."""
        ends = []
        for claim in self._claims.values():
            future: asyncio.Future[CallOutcome | None] = asyncio.get_running_loop().create_future()
            claim.waiting.append((future, None))
            ends.append(future)
        await asyncio.gather(*ends)


class SharedClaims(Protocol):
    """The methods of the call cache that hold claims; see :class:`CallCache`."""

    def claim(self, key: str, owner: str, until: float) -> bool:
        """Claim a key or renew a claim; ``False`` if another owner holds it."""

    def release(self, key: str, owner: str) -> None:
        """Give a claim back."""


def new_owner() -> str:
    """Return a unique name for one user of a cache: its machine, process and a random number."""
    return f"{socket.gethostname()} {os.getpid()} {secrets.token_hex(4)}"


def is_dead(owner: str) -> bool:
    """Return whether an owner is a process of this machine that has ended; ``False`` if that is unknown."""
    host, _, rest = owner.partition(" ")
    process = rest.partition(" ")[0]
    if host != socket.gethostname() or not process.isdecimal() or len(process) > 9:
        return False
    return has_ended(int(process))


class HeldClaim:
    """A claim in the cache, renewed by a task until it is given back."""

    def __init__(self, table: SharedClaims, key: str, owner: str) -> None:
        self._table, self._key, self._owner = table, key, owner
        self._renewing = asyncio.create_task(self._renew())

    def give_back(self) -> None:
        """Give the claim back."""
        self._renewing.cancel()
        with suppress(RunError):  # it expires anyway
            self._table.release(self._key, self._owner)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEW_S)
            with suppress(RunError):
                self._table.claim(self._key, self._owner, time.time() + CLAIM_S)


async def take_claim(table: SharedClaims, key: str, owner: str, waiter: Waiter | None = None) -> HeldClaim:
    """Return the claim on a key, after waiting while another process holds it; ``waiter`` is paused meanwhile."""
    wait = 0.01
    while not table.claim(key, owner, time.time() + CLAIM_S):
        if waiter is not None:
            waiter.pause()
        await asyncio.sleep(wait)
        wait = min(MAX_POLL_S, wait * 1.5)
    if waiter is not None:
        waiter.resume()
    return HeldClaim(table, key, owner)
