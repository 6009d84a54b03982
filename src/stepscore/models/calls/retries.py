"""How often a failed request is sent again, and how long to wait in between: all retry numbers in one place.

The ledger retries calls, ``api/http.py`` the short GET requests about a server. Which errors are worth another
attempt is stated in ``api/http.py``. Waits double from ``FIRST_WAIT_S``, with jitter.
"""

from __future__ import annotations

MAX_ATTEMPTS = 6
"""Attempts at one call before it is given up."""

FIRST_WAIT_S = 0.5
"""Wait before the second attempt, in seconds; every further wait is twice as long, with jitter."""

MAX_BACKOFF_S = 60.0
"""Longest of these growing waits, in seconds."""

MAX_RETRY_AFTER_S = 600.0
"""Longest wait granted to a server's ``Retry-After``, in seconds, so that a run is not held for a day."""

MAX_GET_ATTEMPTS = 4
"""Attempts at reading a list of models or a schema; such a request costs nothing, and a run waits for it."""
