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
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Protocol

from stepscore._locks import has_ended
from stepscore.errors import RunError

CLAIM_S = 30.0
"""How long a claim holds that is not renewed, in seconds."""

RENEW_S = 8.0
"""How often its owner renews it, in seconds."""

MAX_POLL_S = 0.5
"""Longest wait between two looks at a claim of another process, in seconds."""


class ClaimTable(Protocol):
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


@asynccontextmanager
async def claimed(table: ClaimTable, key: str, owner: str) -> AsyncIterator[None]:
    """Hold the claim on a key; wait for it as long as another holds it."""
    wait = 0.01
    while not table.claim(key, owner, time.time() + CLAIM_S):
        await asyncio.sleep(wait)
        wait = min(MAX_POLL_S, wait * 1.5)
    renewing = asyncio.create_task(_renew(table, key, owner))
    try:
        yield
    finally:
        renewing.cancel()
        with suppress(RunError):  # it ends by itself
            table.release(key, owner)


async def _renew(table: ClaimTable, key: str, owner: str) -> None:
    while True:
        await asyncio.sleep(RENEW_S)
        with suppress(RunError):
            table.claim(key, owner, time.time() + CLAIM_S)
