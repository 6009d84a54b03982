"""Claims: when several callers need the same call, one sends the call and the others wait for the answer.

Within a process, :class:`ClaimTable` holds the claims. Between processes that share a cache, a claim is a row
next to the cached answers with the call's key, the owner, and an expiry time that the owner extends while the
call is in progress. A claim becomes free if its owner has died or stopped renewing. No caller waits forever,
and at worst a call is sent twice.
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
"""Seconds until a claim expires without renewal."""

RENEW_S = 8.0
"""Seconds between two renewals."""

MAX_POLL_S = 0.5
"""Longest interval, in seconds, between two checks of another process's claim."""

CallOutcome = Response | Exception
"""The result of a call: a response or an exception."""


class Waiter(Protocol):
    """A caller that may have to wait for another caller's request."""

    def pause(self) -> None:
        """Called before the caller starts to wait."""

    def resume(self) -> None:
        """Called when the caller continues, before any other coroutine runs."""


@dataclass(eq=False)
class _Claim:
    """A call in progress, with its sender and its waiters."""

    holder: object
    waiting: list[tuple[asyncio.Future[CallOutcome | None], Waiter | None]] = field(default_factory=list)


class ClaimTable:
    """Claims within one process and one event loop."""

    def __init__(self) -> None:
        self._claims: dict[str, _Claim] = {}

    async def claim(self, key: str, waiter: Waiter | None = None, holder: object = None) -> Response | None:
        """Claim a key and return ``None``; if the key is taken, return or raise the outcome of that call.

        A claim released without an outcome (the holder was cancelled) passes to the next waiter.
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
        """End a claim; if another holder has it by now, leave the claim unchanged and return ``False``."""
        held = self._claims.get(key)
        if held is None or held.holder is not holder:
            return False
        del self._claims[key]
        for future, waiter in held.waiting:
            if waiter is not None:
                waiter.resume()  # immediately, so that the batch group is not sent without this waiter
            if not future.done():
                future.set_result(outcome)
        return True

    def held_by(self, holder: object) -> list[str]:
        """Return the keys that a holder has claimed."""
        return [key for key, claim in self._claims.items() if claim.holder is holder]

    def give(self, key: str, holder: object) -> None:
        """Transfer a claim to another holder."""
        if (held := self._claims.get(key)) is not None:
            held.holder = holder

    async def settled(self) -> None:
        """Wait until all calls currently in progress have ended."""
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
        """Release a claim."""


def new_owner() -> str:
    """Return a unique owner name for a user of a cache, made of machine, process and a random number."""
    return f"{socket.gethostname()} {os.getpid()} {secrets.token_hex(4)}"


def is_dead(owner: str) -> bool:
    """Return whether an owner was a process on this machine and has ended; ``False`` if unknown."""
    host, _, rest = owner.partition(" ")
    process = rest.partition(" ")[0]
    if host != socket.gethostname() or not process.isdecimal() or len(process) > 9:
        return False
    return has_ended(int(process))


class HeldClaim:
    """A claim in the cache that a task renews until the claim is released."""

    def __init__(self, table: SharedClaims, key: str, owner: str) -> None:
        self._table, self._key, self._owner = table, key, owner
        self._renewing = asyncio.create_task(self._renew())

    def give_back(self) -> None:
        """Release the claim."""
        self._renewing.cancel()
        with suppress(RunError):  # the claim expires anyway
            self._table.release(self._key, self._owner)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEW_S)
            with suppress(RunError):
                self._table.claim(self._key, self._owner, time.time() + CLAIM_S)


async def take_claim(table: SharedClaims, key: str, owner: str, waiter: Waiter | None = None) -> HeldClaim:
    """Claim a key, waiting while another process holds the claim; ``waiter`` is paused during the wait."""
    wait = 0.01
    while not table.claim(key, owner, time.time() + CLAIM_S):
        if waiter is not None:
            waiter.pause()
        await asyncio.sleep(wait)
        wait = min(MAX_POLL_S, wait * 1.5)
    if waiter is not None:
        waiter.resume()
    return HeldClaim(table, key, owner)
