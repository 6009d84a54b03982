"""JSON over HTTP to OpenAI-compatible servers: what failed, whether to try again, and when.

::

    429, 408, 409, 425, 5xx                       RefusedError: try again, after Retry-After where it is given
    time-out, lost connection, invalid JSON       TransientModelError: try again; it may have been billed
    other 4xx                                     StatusError with the server's message: do not try again

How often, and how long to wait in between: ``calls/retries.py``; the ledger retries calls (``calls/ledger.py``).

Keys are read from the environment when a request is sent. They are kept nowhere, and cut out of messages.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from stepscore.errors import ModelError, OptionError, RefusedError, StatusError, TransientModelError
from stepscore.models.calls.retries import FIRST_WAIT_S, MAX_GET_ATTEMPTS

if TYPE_CHECKING:
    import httpx2

RETRY_STATUSES = frozenset({408, 409, 425, 429})
"""Client errors that a later attempt may not meet: time-out, conflict, too early, rate limit."""

METADATA_TIMEOUT_S = 20.0
"""Longest time-out of a GET (list of models, schema), in seconds."""

MAX_QUOTED_CHARS = 400
"""Longest part of a server's message that an error quotes, in characters."""


@dataclass(frozen=True)
class Server:
    """An OpenAI-compatible server. Picklable; connections are opened on first use, per event loop.

    Attributes:
        base_url: The address before ``/chat/completions``.
        key_name: Environment variable of the API key; where it is not set, requests are sent without one.
        timeout_s: Seconds for a whole exchange, the last byte included.
    """

    base_url: str
    key_name: str
    timeout_s: float = 300.0
    _clients: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[httpx2.AsyncClient, AsyncIterator[None]]] = (
        field(default_factory=WeakKeyDictionary, repr=False, compare=False)
    )

    def __post_init__(self) -> None:
        parts = urlsplit(self.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise OptionError(
                f"base_url is {self.base_url!r}; it must be an http or https address "
                "such as http://localhost:8000/v1."
            )
        if parts.username or parts.password or parts.query:
            raise OptionError(
                f"base_url may hold no user, password or query: keys are read from the environment. "
                f"Set {self.key_name} instead."
            )
        if not self.timeout_s > 0:
            raise OptionError(f"timeout_s is {self.timeout_s}; it must be above 0.")

    def __reduce__(self) -> tuple[object, ...]:
        return (Server, (self.base_url, self.key_name, self.timeout_s))

    @property
    def root(self) -> str:
        """The address without ``/v1``: the place of endpoints that are not OpenAI's."""
        return self.base_url.rstrip("/").removesuffix("/v1")

    async def post(self, path: str, body: Mapping[str, object], *, at_root: bool = False) -> dict[str, Any]:
        """Post a JSON body and return the JSON object of the response."""
        return await self._exchange("POST", path, json.dumps(body, allow_nan=False), at_root=at_root)

    async def get(self, path: str, *, at_root: bool = False) -> dict[str, Any]:
        """Return the JSON object at an address, with a few retries."""
        import stamina

        brief = replace(self, timeout_s=min(self.timeout_s, METADATA_TIMEOUT_S))
        async for attempt in stamina.retry_context(
            on=TransientModelError, attempts=MAX_GET_ATTEMPTS, wait_initial=FIRST_WAIT_S
        ):
            with attempt:
                return await brief._exchange("GET", path, None, at_root=at_root)  # noqa: SLF001
        raise AssertionError("stamina ends with a result or an error")

    async def _exchange(self, method: str, path: str, body: str | None, *, at_root: bool) -> dict[str, Any]:
        import httpx2

        url = f"{self.root if at_root else self.base_url.rstrip('/')}/{path}"
        key = os.environ.get(self.key_name, "").strip()
        headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
        if method == "GET":
            # Rare, and uvicorn closes a connection unannounced after an error: the next attempt must not meet that.
            headers["connection"] = "close"
        try:
            async with asyncio.timeout(self.timeout_s):
                response = await (await self._client()).request(method, url, content=body, headers=headers)
        except TimeoutError:
            raise TransientModelError(f"{url}: no complete response in {self.timeout_s:g} s.") from None
        except httpx2.ConnectError as error:
            message = f"{url} cannot be reached ({error}). Is the server running, and --base-url right?"
            raise RefusedError(_hidden(message, key)) from None
        except httpx2.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise TransientModelError(_hidden(f"{url}: the connection was lost ({reason}).", key)) from None
        if not response.is_success:
            status = response.status_code
            refusal = _refusal(url, status, response.text, response.headers, key)
            raise refusal from StatusError(f"HTTP status {status}", status)
        return _object(url, response.text, key)

    async def _client(self) -> httpx2.AsyncClient:
        import httpx2

        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            # Idle connections are closed before a server drops them (uvicorn: 5 s), which would look like a loss.
            limits = httpx2.Limits(max_connections=None, keepalive_expiry=2.0)
            client = httpx2.AsyncClient(timeout=None, limits=limits)
            self._clients[loop] = client, (closing := self._closing(loop, client))
            await anext(closing)
        return self._clients[loop][0]

    async def _closing(
        self, loop: asyncio.AbstractEventLoop, client: httpx2.AsyncClient
    ) -> AsyncIterator[None]:
        """Close the client when the loop ends: a loop closes the generators it left at a yield."""
        try:
            yield
        finally:
            self._clients.pop(loop, None)
            await client.aclose()


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of a ``Retry-After``, a number or an HTTP date; ``None`` where there is none."""
    value = headers.get("retry-after", "").strip()
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def status_of(error: ModelError) -> int | None:
    """Return the HTTP status behind an error; ``None`` where the server returned none."""
    cause = error if isinstance(error, StatusError) else error.__cause__
    return cause.status if isinstance(cause, StatusError) else None


def _refusal(url: str, status: int, text: str, headers: Mapping[str, str], key: str) -> ModelError:
    """Return the error for a response that is not 2xx."""
    reason, code = _message(text)
    message = _hidden(f"{url} answered {status}: {reason}", key)
    if code == "insufficient_quota":  # a 429 that no waiting repairs
        return StatusError(message, status)
    if status in RETRY_STATUSES or status >= 500:
        # A gateway that timed out may have left a billed answer behind it.
        kind = TransientModelError if status in (408, 502, 504) else RefusedError
        return kind(message, retry_after(headers))
    if 300 <= status < 400:
        message += f" It redirects to {headers.get('location', '?')}: give that as base_url."
    return StatusError(message, status)


def _message(text: str) -> tuple[str, str]:
    """Return the server's message and error code, from OpenAI's error object or a variant of it."""
    try:
        found = json.loads(text)
    except ValueError:
        return " ".join(text.split())[:MAX_QUOTED_CHARS] or "(no message)", ""
    error = found.get("error", found) if isinstance(found, dict) else found
    if isinstance(error, dict):
        message = error.get("message") or error.get("detail") or json.dumps(error)
        return str(message)[:MAX_QUOTED_CHARS], str(error.get("code", ""))
    return str(error)[:MAX_QUOTED_CHARS], ""


def _object(url: str, text: str, key: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise TransientModelError(_hidden(f"{url} did not return a JSON object: {text[:80]!r}.", key))
    if found.get("error"):  # some gateways return 200 with an error inside
        raise TransientModelError(_hidden(f"{url} returned an error: {_message(text)[0]}", key))
    return found


def _hidden(message: str, key: str) -> str:
    return message.replace(key, "[key]") if key else message
