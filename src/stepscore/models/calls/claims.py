"""Claims: of several processes that share a cache, one asks a question and the others wait for its answer.

A claim is a row beside the cached answers: the call's key, its owner, and until when it holds. Its owner renews it
while the question is under way. A claim whose owner is dead, or has not renewed it in time, is anyone's: nobody waits
for ever, and at worst a question is asked twice.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import time
from contextlib import suppress
from typing import Protocol

from stepscore._locks import has_ended
from stepscore.errors import RunError
from stepscore.models.calls.claim_table import Waiter

CLAIM_S = 30.0
"""How long a claim holds that is not renewed, in seconds."""

RENEW_S = 8.0
"""How often its owner renews it, in seconds."""

MAX_POLL_S = 0.5
"""Longest wait between two looks at a claim of another process, in seconds."""


class SharedClaims(Protocol):
    """What claims need of the cache."""

    def claim(self, key: str, owner: str, until: float) -> bool:
        """Claim a key, or renew one's own claim; ``False`` where another's claim holds."""

    def release(self, key: str, owner: str) -> None:
        """Give a claim back."""


def new_owner() -> str:
    """Return a name for one user of a cache: its machine, its process, and a number of its own."""
    return f"{socket.gethostname()} {os.getpid()} {secrets.token_hex(4)}"


def is_dead(owner: str) -> bool:
    """Return whether an owner is a process of this machine that has ended; where that cannot be known, not."""
    host, _, rest = owner.partition(" ")
    process = rest.partition(" ")[0]
    if host != socket.gethostname() or not process.isdecimal() or len(process) > 9:
        return False
    return has_ended(int(process))


class HeldClaim:
    """The claim on a key while its call is under way; renewed until it is given back."""

    def __init__(self, table: SharedClaims, key: str, owner: str) -> None:
        self._table, self._key, self._owner = table, key, owner
        self._renewing = asyncio.create_task(self._renew())

    def give_back(self) -> None:
        """Give the claim back."""
        self._renewing.cancel()
        with suppress(RunError):  # it ends by itself
            self._table.release(self._key, self._owner)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEW_S)
            with suppress(RunError):
                self._table.claim(self._key, self._owner, time.time() + CLAIM_S)


async def take_claim(table: SharedClaims, key: str, owner: str, waiter: Waiter | None = None) -> HeldClaim:
    """Return the claim on a key; wait for it as long as another process holds it, in which ``waiter`` pauses."""
    wait = 0.01
    while not table.claim(key, owner, time.time() + CLAIM_S):
        if waiter is not None:
            waiter.pause()
        await asyncio.sleep(wait)
        wait = min(MAX_POLL_S, wait * 1.5)
    if waiter is not None:
        waiter.resume()
    return HeldClaim(table, key, owner)
