"""JSON over HTTP, to servers that speak OpenAI's dialect: what failed, whether to try again, and when.

::

    429, 408, 409, 425, 5xx                       RefusedError: try again, after Retry-After where it is given
    no answer in time, cut connection, no JSON    TransientModelError: try again; it may have been billed
    other 4xx                                     StatusError with the server's own words: do not try again

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

if TYPE_CHECKING:
    import httpx2

AGAIN = frozenset({408, 409, 425, 429})
"""Client errors that pass: time-out, conflict, too early, rate limit."""

BRIEF_S = 20.0
"""Seconds within which a server says what it is."""

SHOWN = 400
"""Characters of a server's message that an error quotes."""


@dataclass(frozen=True)
class Server:
    """Where a model is served. Picklable; connections are opened on first use, for each event loop its own.

    Attributes:
        base_url: What stands before ``/chat/completions``.
        key_name: Environment variable that holds the key; requests go without one where it is not set.
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
        """The address without ``/v1``, where servers keep what is not OpenAI's."""
        return self.base_url.rstrip("/").removesuffix("/v1")

    async def post(self, path: str, body: Mapping[str, object], *, at_root: bool = False) -> dict[str, Any]:
        """The JSON object a server answers to a JSON body."""
        return await self._exchange("POST", path, json.dumps(body, allow_nan=False), at_root=at_root)

    async def get(self, path: str, *, at_root: bool = False) -> dict[str, Any]:
        """The JSON object at an address: what a server says of itself. Asked up to four times, briefly."""
        import stamina

        brief = replace(self, timeout_s=min(self.timeout_s, BRIEF_S))
        async for attempt in stamina.retry_context(on=TransientModelError, attempts=4, wait_initial=0.5):
            with attempt:
                return await brief._exchange("GET", path, None, at_root=at_root)  # noqa: SLF001
        raise AssertionError("stamina ends with an answer or an error")

    async def _exchange(self, method: str, path: str, body: str | None, *, at_root: bool) -> dict[str, Any]:
        import httpx2

        url = f"{self.root if at_root else self.base_url.rstrip('/')}/{path}"
        key = os.environ.get(self.key_name, "").strip()
        headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
        if method == "GET":
            # Rare, and uvicorn hangs up unannounced after it failed: the next try must not meet that.
            headers["connection"] = "close"
        try:
            async with asyncio.timeout(self.timeout_s):
                response = await (await self._client()).request(method, url, content=body, headers=headers)
        except TimeoutError:
            raise TransientModelError(f"{url}: no whole answer in {self.timeout_s:g} s.") from None
        except httpx2.ConnectError as error:
            message = f"{url} cannot be reached ({error}). Is the server up, and --base-url right?"
            raise RefusedError(_hidden(message, key)) from None
        except httpx2.HTTPError as error:
            said = str(error) or type(error).__name__
            raise TransientModelError(_hidden(f"{url}: the connection was cut ({said}).", key)) from None
        if not response.is_success:
            status = response.status_code
            refusal = _refusal(url, status, response.text, response.headers, key)
            raise refusal from StatusError(f"HTTP status {status}", status)
        return _object(url, response.text, key)

    async def _client(self) -> httpx2.AsyncClient:
        import httpx2

        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            # Idle connections go before a server drops them (uvicorn: 5 s), which would look like a cut.
            limits = httpx2.Limits(max_connections=None, keepalive_expiry=2.0)
            client = httpx2.AsyncClient(timeout=None, limits=limits)
            self._clients[loop] = client, (closing := self._closing(loop, client))
            await anext(closing)
        return self._clients[loop][0]

    async def _closing(
        self, loop: asyncio.AbstractEventLoop, client: httpx2.AsyncClient
    ) -> AsyncIterator[None]:
        """Stays at its yield for as long as the loop runs: a loop that ends closes its generators."""
        try:
            yield
        finally:
            self._clients.pop(loop, None)
            await client.aclose()


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds a server asks to wait, said as a number or an HTTP date; ``None`` where it does not say."""
    said = headers.get("retry-after", "").strip()
    try:
        seconds = float(said)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(said).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def status_of(error: ModelError) -> int | None:
    """The HTTP status that an error stands for; ``None`` where the server did not answer with one."""
    told = error if isinstance(error, StatusError) else error.__cause__
    return told.status if isinstance(told, StatusError) else None


def _refusal(url: str, status: int, text: str, headers: Mapping[str, str], key: str) -> ModelError:
    """The error for an answer that is not 2xx."""
    said, code = _message(text)
    message = _hidden(f"{url} answered {status}: {said}", key)
    if code == "insufficient_quota":  # a 429 that no waiting repairs
        return StatusError(message, status)
    if status in AGAIN or status >= 500:
        # A gateway that gave up waiting may have left a billed answer behind it.
        kind = TransientModelError if status in (408, 502, 504) else RefusedError
        return kind(message, retry_after(headers))
    if 300 <= status < 400:
        message += f" It points to {headers.get('location', '?')}: give that as base_url."
    return StatusError(message, status)


def _message(text: str) -> tuple[str, str]:
    """The server's words and its error code: from OpenAI's error object, or others' forms of it."""
    try:
        found = json.loads(text)
    except ValueError:
        return " ".join(text.split())[:SHOWN] or "(nothing said)", ""
    error = found.get("error", found) if isinstance(found, dict) else found
    if isinstance(error, dict):
        said = error.get("message") or error.get("detail") or json.dumps(error)
        return str(said)[:SHOWN], str(error.get("code", ""))
    return str(error)[:SHOWN], ""


def _object(url: str, text: str, key: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise TransientModelError(_hidden(f"{url} answered what is no JSON object: {text[:80]!r}.", key))
    if found.get("error"):  # some gateways answer 200 with an error inside
        raise TransientModelError(_hidden(f"{url} answered an error: {_message(text)[0]}", key))
    return found


def _hidden(message: str, key: str) -> str:
    return message.replace(key, "[key]") if key else message
