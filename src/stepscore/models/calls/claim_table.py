"""The calls under way, by key: who asks the same waits for the outcome instead of asking."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Protocol

from stepscore.models.responses import Response

Outcome = Response | Exception
"""How a call ended: its response, or its error."""


class Waiter(Protocol):
    """Who waits for a call of another."""

    def pause(self) -> None:
        """Called before it waits."""

    def resume(self) -> None:
        """Called when it goes on, before anyone else does."""


@dataclass(eq=False)
class _Claim:
    """A call under way, who asks it, and who waits for it."""

    holder: object
    waiting: list[tuple[asyncio.Future[Outcome | None], Waiter | None]] = field(default_factory=list)


class ClaimTable:
    """Claims of calls in one process; to be used in one event loop."""

    def __init__(self) -> None:
        self._claims: dict[str, _Claim] = {}

    async def claim(self, key: str, waiter: Waiter | None = None, holder: object = None) -> Response | None:
        """Claim a key, and return ``None``; where another holds it, return or raise what its call ended with.

        A claim that ends without an outcome, since whoever held it was cancelled, goes to the next who waits.
        """
        while (held := self._claims.get(key)) is not None:
            if waiter is not None:
                waiter.pause()
            future: asyncio.Future[Outcome | None] = asyncio.get_running_loop().create_future()
            held.waiting.append((future, waiter))
            outcome = await future
            if isinstance(outcome, Exception):
                raise outcome
            if outcome is not None:
                return outcome
        self._claims[key] = _Claim(holder)
        return None

    def release(self, key: str, outcome: Outcome | None, holder: object = None) -> bool:
        """End a claim, and return whether it was the holder's: one that another holds by now stays."""
        held = self._claims.get(key)
        if held is None or held.holder is not holder:
            return False
        del self._claims[key]
        for future, waiter in held.waiting:
            if waiter is not None:
                waiter.resume()
            if not future.done():
                future.set_result(outcome)
        return True

    def held_by(self, holder: object) -> list[str]:
        """Return the keys that one holds."""
        return [key for key, claim in self._claims.items() if claim.holder is holder]

    def give(self, key: str, holder: object) -> None:
        """Give a claim to another holder."""
        if (held := self._claims.get(key)) is not None:
            held.holder = holder

    async def settled(self) -> None:
        """Wait until all calls now under way have ended."""
        ends = []
        for claim in self._claims.values():
            future: asyncio.Future[Outcome | None] = asyncio.get_running_loop().create_future()
            claim.waiting.append((future, None))
            ends.append(future)
        await asyncio.gather(*ends)
