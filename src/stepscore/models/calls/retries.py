"""How often a failed request is sent again, and how long to wait in between: all retry numbers in one place.

The call chain retries calls, ``api/http.py`` the short GET requests about a server. Which errors are worth another
attempt is stated in ``api/http.py``. Waits double from ``FIRST_WAIT_S``, with jitter.

A server that is away (it restarts, say) or asks for a long wait is waited for by all calls together: one at a time
looks whether it answers again, until the patience is at its end; from then on calls fail at once, until one is
answered. All of that is one failed attempt of a call, however often it looked. A long wait is said aloud.
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
"""Attempts at one call before it is given up."""

FIRST_WAIT_S = 0.5
"""Wait before the second attempt, in seconds; every further wait is twice as long, with jitter."""

MAX_BACKOFF_S = 60.0
"""Longest of these growing waits, in seconds."""

MAX_PROBE_WAIT_S = 30.0
"""Longest wait between two looks whether a server that is away is back, in seconds."""

PATIENCE_S = 600.0
"""Longest time that one call waits, all its waits together, or all calls for a server that is away; in seconds."""

AUDIBLE_WAIT_S = 5.0
"""Wait above which it is said that the run waits, and for what; in seconds."""

MAX_GET_ATTEMPTS = 4
"""Attempts at reading a list of models or a schema; such a request costs nothing, and a run waits for it."""


def log_wait(message: str) -> None:
    """Write a message to the log of StepScore, which shows it on stderr unless logging is set up otherwise."""
    logging.getLogger("stepscore").warning(message)


@dataclass
class Waits:
    """The waits of the calls to one model.

    Attributes:
        model: The model's name, for what is said.
        patience_s: As ``PATIENCE_S``.
        say: Called with a line before every wait that is longer than ``AUDIBLE_WAIT_S``.
    """

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
        """Wait for one's turn to send: at once, or one call at a time while the server is away."""
        async with AsyncExitStack() as held:
            if self._away_since is not None:
                await held.enter_async_context(self._probing)
                if self._away_since is None:
                    await held.aclose()  # another call found it back
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
        """Return the seconds until the next attempt at a call; ``False`` where there is none."""
        if holds_all(error):
            if retry.absence != self._absences:
                retry.absence = self._absences
                retry.failed += 1
            return (
                0.0 if retry.failed < retry.most and self._patience_left() > 0 else False
            )  # it waits in its turn
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
        """Wait before the next look; not at all where the patience is at its end."""
        wait = max(self._asked_for, min(MAX_PROBE_WAIT_S, 2.0**self._probes))
        self._probes = min(self._probes + 1, 30)
        granted = max(0.0, min(wait, self._patience_left()))
        if granted > AUDIBLE_WAIT_S:
            asked = f" (the server asks for {wait:.0f} s)" if wait > granted else ""
            self.say(
                f"{self.model}: the server does not answer now; next attempt in {granted:.0f} s{asked}: "
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
        return f"(It waits {self.patience_s:g} s at most; -E patience changes it.)"

    def _now(self) -> float:
        return time.monotonic() + self._skipped

    async def _sleep(self, seconds: float) -> None:
        import stamina

        if stamina.is_testing():  # as stamina's own waits, it then takes no time
            self._skipped += seconds
            seconds = 0.0
        await asyncio.sleep(seconds)


@dataclass
class Retry:
    """The failed attempts of one call, how long it has waited between them, and the last absence of the server."""

    most: int
    failed: int = 0
    waited: float = 0.0
    absence: int = 0


def holds_all(error: Exception) -> bool:
    """Return whether an error is about the server as a whole: it is away, or asks for a long wait."""
    if not isinstance(error, RefusedError):
        return False
    return isinstance(error, UnavailableError) or (error.retry_after or 0.0) > AUDIBLE_WAIT_S


def growing_wait(failed: int) -> float:
    """Return the seconds to wait after so many failed attempts: growing, and jittered by up to a second."""
    return min(MAX_BACKOFF_S, FIRST_WAIT_S * 2.0 ** (failed - 1)) + random.random()
