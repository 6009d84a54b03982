"""JSON over HTTP to OpenAI-compatible servers: what failed, whether to try again, and when.

::

    no connection, 502, 503                       UnavailableError: wait until the server is back
    429, 409, 425, other 5xx                      RefusedError: try again, after Retry-After where it is given
    time-out (408, 504 too), lost connection,
    invalid JSON, too long a body                 TransientModelError: try again; it may have been billed
    other 4xx, redirects                          StatusError with the server's message: do not try again

How often, and how long to wait in between: ``calls/retries.py``; calls are retried in ``calls/layers/retry.py``.

Nothing a server sends is believed: a body is read within a limit (``response_body.py``), its JSON within limits of
depth, and the key is cut out of all of it (``api_key.py``). Redirects are not followed, cookies not kept. Proxies of
the environment (``HTTPS_PROXY``) are used, except for servers on this machine; ``.netrc`` is not read.
"""

from __future__ import annotations

import asyncio
import json
import math
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from stepscore._untrusted import parse_json
from stepscore._untrusted.response_body import check_values, read_body
from stepscore.errors import (
    ModelError,
    OptionError,
    RefusedError,
    StatusError,
    TransientModelError,
    UnavailableError,
)
from stepscore.models.api.api_key import mask_cut_text, mask_text, mask_values, read_key
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
        _check_address(self.base_url, self.key_name)
        if not 0 < self.timeout_s < math.inf:
            raise OptionError(f"timeout_s is {self.timeout_s}; it must be above 0.")

    def __reduce__(self) -> tuple[object, ...]:
        return (Server, (self.base_url, self.key_name, self.timeout_s))

    @property
    def root(self) -> str:
        """The address without ``/v1``: the place of endpoints that are not OpenAI's."""
        return self.base_url.rstrip("/").removesuffix("/v1")

    async def post(self, path: str, body: Mapping[str, object], *, at_root: bool = False) -> dict[str, Any]:
        """Post a JSON body and return the JSON object of the response."""
        return await self._json("POST", path, json.dumps(body, allow_nan=False), at_root=at_root)

    async def get(self, path: str, *, at_root: bool = False) -> dict[str, Any]:
        """Return the JSON object at an address, with a few retries."""
        import stamina

        brief = replace(self, timeout_s=min(self.timeout_s, METADATA_TIMEOUT_S))
        async for attempt in stamina.retry_context(
            on=TransientModelError, attempts=MAX_GET_ATTEMPTS, wait_initial=FIRST_WAIT_S
        ):
            with attempt:
                return await brief._json("GET", path, None, at_root=at_root)  # noqa: SLF001
        raise AssertionError("stamina ends with a result or an error")

    async def get_text(self, path: str) -> str:
        """Return the text at an address beside ``/v1``, as the server wrote it; one attempt."""
        brief = replace(self, timeout_s=min(self.timeout_s, METADATA_TIMEOUT_S))
        content = await brief._exchange("GET", f"{self.root}/{path}", None, read_key(self.key_name))  # noqa: SLF001
        return content.decode("utf-8", "replace")

    async def _json(self, method: str, path: str, body: str | None, *, at_root: bool) -> dict[str, Any]:
        url = f"{self.root if at_root else self.base_url.rstrip('/')}/{path}"
        key = read_key(self.key_name)
        return _object(mask_text(url, key), await self._exchange(method, url, body, key), key)

    async def _exchange(self, method: str, url: str, body: str | None, key: str) -> bytes:
        """Return the body of a successful response."""
        import httpx2

        # Not compressed: what is unpacked on arrival has no limit in size that could be known before.
        headers = {"content-type": "application/json", "accept-encoding": "identity"}
        if key:
            headers["authorization"] = f"Bearer {key}"
        if method == "GET":
            # Rare, and uvicorn closes a connection unannounced after an error: the next attempt must not meet that.
            headers["connection"] = "close"
        where = mask_text(url, key)
        try:
            async with asyncio.timeout(self.timeout_s):
                client = await self._client()
                async with client.stream(method, url, content=body, headers=headers) as response:
                    content = await read_body(response, where)
        except TimeoutError:
            raise TransientModelError(f"{where}: no complete response in {self.timeout_s:g} s.") from None
        except httpx2.ConnectError as error:
            raise _unreachable(where, error, key) from None
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
            reason = _quoted(str(error) or type(error).__name__, key)
            raise TransientModelError(f"{where}: the connection was lost ({reason}).") from None
        if not response.is_success:
            status, text = response.status_code, content.decode("utf-8", "replace")
            raise _refusal(where, status, text, response.headers, key) from StatusError(
                f"HTTP status {status}", status
            )
        return content

    async def _client(self) -> httpx2.AsyncClient:
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            client = _open_client()
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


def _check_address(url: str, key_name: str) -> None:
    """Raise OptionError for an address that is none, or that holds a key; one that may hold a key is not shown."""
    shown = repr(url[:200]) if not any(char in url for char in "@?#") else "not shown, as it may hold a key"
    wrong = f"base_url is {shown}; it must be an http or https address such as http://localhost:8000/v1."
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises where it is no port
    except ValueError:
        raise OptionError(wrong) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or not url.isprintable() or " " in url:
        raise OptionError(wrong)
    if parts.username or parts.password or parts.query or parts.fragment or "@" in parts.netloc:
        raise OptionError(
            f"base_url may hold no user, password or query: keys are read from the environment. "
            f"Set {key_name} instead."
        )


def _open_client() -> httpx2.AsyncClient:
    from http.cookiejar import CookieJar, DefaultCookiePolicy

    import httpx2

    # Idle connections are closed before a server drops them (uvicorn: 5 s), which would look like a loss.
    limits = httpx2.Limits(max_connections=None, keepalive_expiry=2.0)
    # What goes to this machine goes by no proxy: it would get the key and the frames in plain text.
    direct = {f"all://{host}": None for host in ("localhost", "127.0.0.1", "[::1]")}
    try:
        return httpx2.AsyncClient(
            timeout=None,
            limits=limits,
            mounts=direct,
            follow_redirects=False,
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        )
    except (ValueError, ImportError, OSError, httpx2.InvalidURL):  # their messages quote the address
        raise OptionError(
            "The proxy or the certificates that the environment names cannot be used. Check HTTP_PROXY, "
            "HTTPS_PROXY, ALL_PROXY, SSL_CERT_FILE and SSL_CERT_DIR, or unset them."
        ) from None


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of a ``Retry-After``, a number or an HTTP date; ``None`` where there is none."""
    value = headers.get("retry-after", "").strip()
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, OverflowError, OSError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def status_of(error: ModelError) -> int | None:
    """Return the HTTP status behind an error; ``None`` where the server returned none."""
    cause = error if isinstance(error, StatusError) else error.__cause__
    return cause.status if isinstance(cause, StatusError) else None


def _unreachable(where: str, error: Exception, key: str) -> ModelError:
    """Return the error for a connection that was not made; no request was sent."""
    reason = _quoted(str(error) or type(error).__name__, key)
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):  # no waiting repairs it
            return ModelError(
                f"{where} cannot be reached ({reason}). Is it https there, and its certificate known here?"
            )
        cause = cause.__cause__ or cause.__context__
    return UnavailableError(
        f"{where} cannot be reached ({reason}). Is the server running, and -M base-url right?"
    )


def _refusal(where: str, status: int, text: str, headers: Mapping[str, str], key: str) -> ModelError:
    """Return the error for a response that is not 2xx."""
    reason, code = _message(text, key)
    message = f"{where} answered {status}: {reason}"
    if code == "insufficient_quota":  # a 429 that no waiting repairs
        return StatusError(message, status)
    if status in (
        502,
        503,
    ):  # a gateway without its server, or a server that starts; the first may have been billed
        return UnavailableError(message, retry_after(headers), sent=True, lost=status == 502)
    if status in RETRY_STATUSES or status >= 500:
        # A gateway that timed out may have left a billed answer behind it.
        kind = TransientModelError if status in (408, 504) else RefusedError
        return kind(message, retry_after(headers))
    if 300 <= status < 400:
        target = _quoted(headers.get("location", "?"), key)
        message += f" It redirects to {target}: give that as base_url."
    return StatusError(message, status)


def _message(text: str, key: str) -> tuple[str, str]:
    """Return the server's message and error code, from OpenAI's error object or a variant of it."""
    try:
        found = parse_json(text, "", ModelError, huge_integers=True)
    except ModelError:
        return _quoted(" ".join(text.split()), key) or "(no message)", ""
    if isinstance(found, list) and len(found) == 1 and isinstance(found[0], dict):  # as Gemini sends it
        found = found[0]
    error = found.get("error", found) if isinstance(found, dict) else found
    if isinstance(error, dict):
        message = error.get("message") or error.get("detail") or json.dumps(error)
        return _quoted(str(message), key), str(error.get("code", ""))
    return _quoted(str(error), key), ""


def _object(where: str, content: bytes, key: str) -> dict[str, Any]:
    """Return the JSON object of a successful response, without the key."""
    check_values(content, where)
    try:
        found = parse_json(content, "It", TransientModelError, huge_integers=True)
    except TransientModelError:
        found = None
    if not isinstance(found, dict):
        begins = _quoted(content.decode("utf-8", "replace"), key)[:80]
        raise TransientModelError(f"{where} did not return a JSON object: {begins!r}.")
    if found.get("error"):  # some gateways return 200 with an error inside
        message = _message(content.decode("utf-8", "replace"), key)[0]
        raise TransientModelError(f"{where} returned an error: {message}")
    masked: dict[str, Any] = mask_values(found, key)
    return masked


def _quoted(text: str, key: str) -> str:
    """Return a server's words as a message shows them: without the key, on one line, and not a screen long."""
    masked = mask_cut_text(text, key)
    return "".join(char if char.isprintable() else " " for char in masked[:MAX_QUOTED_CHARS])
