"""How often a failed request is sent again, and how long to wait in between: all retry numbers in one place.

The call chain retries calls, and ``api/http.py`` short GET requests about a server; ``api/http.py`` also says which
errors are worth another attempt. Waits double from ``FIRST_WAIT_S``, with jitter.

All calls wait together for a server that is down (restarting, for example) or asks for a long wait: one at a time
probes it until the patience ends; from then on calls fail at once, until one is answered. For each call that is one
failed attempt, however often it probed. Long waits are reported.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from stepscore.errors import RefusedError, StatusError, TransientModelError, UnavailableError

MAX_ATTEMPTS = 6
"""Most attempts at one call."""

FIRST_WAIT_S = 0.5
"""Seconds before the second attempt; every further wait is twice as long, with jitter."""

MAX_BACKOFF_S = 60.0
"""Longest of these growing waits, in seconds."""

MAX_PROBE_WAIT_S = 30.0
"""Longest wait between two probes of a server that is down, in seconds."""

PATIENCE_S = 600.0
"""Most seconds that one call waits in all, and that all calls wait for a server that is down."""

AUDIBLE_WAIT_S = 5.0
"""Seconds above which a wait is reported."""

MAX_GET_ATTEMPTS = 4
"""Attempts at reading a list of models or a schema; such a request is free, and a run waits for it."""


def log_wait(message: str) -> None:
    """Log a message, which goes to stderr unless logging is configured otherwise."""
    logging.getLogger("stepscore").warning(message)


@dataclass
class Waits:
    """The waits of all calls to one model; ``say`` is called with a message before each long wait."""

    model: str
    patience_s: float = PATIENCE_S
    say: Callable[[str], None] = log_wait
    _away_since: float | None = None
    _probes: int = 0
    _asked_for: float = 0.0
    _reason: str = ""
    _probing: asyncio.Lock = field(default_factory=asyncio.Lock)
    _skipped: float = 0.0
    _absences: int = 0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn to send: at once, or one call at a time while the server is down."""
        async with AsyncExitStack() as held:
            if self._away_since is not None:
                await held.enter_async_context(self._probing)
                if self._away_since is None:
                    await held.aclose()  # another call was answered: all may send at once again
                else:
                    await self._pause()
            try:
                yield
            except RefusedError as error:
                if holds_all(error):
                    self._note_away(error)
                else:
                    self._note_back()
                raise
            except StatusError:
                self._note_back()
                raise
            else:
                self._note_back()

    def after(self, error: Exception, retry: Retry) -> bool | float:
        """Return the seconds until the next attempt at a call; ``False`` for no further attempt."""
        if holds_all(error):
            if retry.absence != self._absences:
                retry.absence = self._absences
                retry.failed += 1
            if retry.failed < retry.most and self._patience_left() > 0:
                return 0.0  # it waits in its turn instead
            return False
        retry.failed += 1
        if not isinstance(error, TransientModelError) or retry.failed >= retry.most:
            return False
        wait = error.retry_after if error.retry_after is not None else growing_wait(retry.failed)
        granted = min(wait, self.patience_s - retry.waited)
        if granted < 0 or (granted == 0 and wait > 0):
            return False
        retry.waited += granted
        if granted > AUDIBLE_WAIT_S:
            asked = f", which asks for {wait:.0f} s" if wait > granted else ""
            self.say(f"{self.model}: waiting {granted:.0f} s for the server{asked}: {error} {self._bound()}")
        return granted

    def _patience_left(self) -> float:
        if self._away_since is None:
            return self.patience_s
        return self.patience_s - (self._now() - self._away_since)

    async def _pause(self) -> None:
        """Wait before the next probe; return immediately if the patience has ended."""
        wait = max(self._asked_for, min(MAX_PROBE_WAIT_S, 2.0**self._probes))
        self._probes = min(self._probes + 1, 30)
        granted = max(0.0, min(wait, self._patience_left()))
        if granted > AUDIBLE_WAIT_S:
            asked = f" (the server asks for {wait:.0f} s)" if wait > granted else ""
            self.say(
                f"{self.model}: the server does not answer; next attempt in {granted:.0f} s{asked}: "
                f"{self._reason} {self._bound()}"
            )
        await self._sleep(granted)

    def _note_away(self, error: RefusedError) -> None:
        if self._away_since is None:
            self._away_since, self._probes = self._now(), 0
            self._absences += 1
        self._asked_for, self._reason = error.retry_after or 0.0, str(error)

    def _note_back(self) -> None:
        if self._away_since is not None and self._now() - self._away_since > AUDIBLE_WAIT_S:
            self.say(f"{self.model}: the server answers again after {self._now() - self._away_since:.0f} s.")
        self._away_since = None

    def _bound(self) -> str:
        return f"(Waiting at most {self.patience_s:g} s; change this with -E patience.)"

    def _now(self) -> float:
        return time.monotonic() + self._skipped

    async def _sleep(self, seconds: float) -> None:
        import stamina

        if stamina.is_testing():  # tests do not wait, as with stamina's own waits
            self._skipped += seconds
            seconds = 0.0
        await asyncio.sleep(seconds)


@dataclass
class Retry:
    """The failed attempts of one call, its waits in all, and the last absence of the server that it counted."""

    most: int
    failed: int = 0
    waited: float = 0.0
    absence: int = 0


def holds_all(error: Exception) -> bool:
    """Return whether an error concerns all calls: the server is down, or asks for a long wait."""
    if not isinstance(error, RefusedError):
        return False
    return isinstance(error, UnavailableError) or (error.retry_after or 0.0) > AUDIBLE_WAIT_S


def growing_wait(failed: int) -> float:
    """Return the seconds to wait after ``failed`` attempts, with up to a second of jitter."""
    return min(MAX_BACKOFF_S, FIRST_WAIT_S * 2.0 ** (failed - 1)) + random.random()
