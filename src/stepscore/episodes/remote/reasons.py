"""Why a store gave no answer, in words: refused connections, unknown hosts, statuses, slow answers."""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from stepscore.episodes.remote.limits import SlowAnswerError

_STATUSES = {
    401: "Give credentials where its file system looks for them",
    403: "Check the credentials, and that they may list and read the bucket",
    404: "Check the address",
}


def reason(error: BaseException) -> str:
    """Return what went wrong, within a line and without a full stop at its end."""
    chain = list(_chain(error))
    said = _words(error)
    for cause in chain:
        if (status := status_of(cause)) is not None and status >= 300:
            return _status(status, said)
    for cause in chain:
        if (found := _connection(cause)) is not None:
            return f"{found} ({said})"
    return said


def no_answer(error: BaseException) -> bool:
    """Return whether the store was not reached, or refused the request: its files are unknown then."""
    causes = list(_chain(error))
    refused = any((status := status_of(cause)) is not None and status >= 300 for cause in causes)
    return refused or any(_connection(cause) is not None for cause in causes)


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status with which a server refused a request; ``None`` where there was none."""
    response: Any = getattr(error, "response", None)
    if isinstance(response, dict):  # of botocore
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    else:
        status = getattr(response, "status_code", None) or getattr(error, "status_code", None)
        status = status or getattr(error, "status", None)  # of aiohttp
    return status if isinstance(status, int) else None


def _status(status: int, said: str) -> str:
    try:
        name = f" {HTTPStatus(status).phrase}"
    except ValueError:
        name = ""
    advice = _STATUSES.get(status, "Try again later" if status >= 500 else "")
    if said.startswith("HTTP status"):  # it names what to do itself
        return said
    return f"HTTP status {status}{name} ({said}). {advice}".rstrip(". ")


def _connection(error: BaseException) -> str | None:
    if isinstance(error, SlowAnswerError):
        return "the server is too slow"
    if isinstance(error, ConnectionRefusedError) or getattr(error, "errno", None) == errno.ECONNREFUSED:
        return "the connection was refused: nothing listens at this address"
    if isinstance(error, socket.gaierror) or type(error).__name__ == "ClientConnectorDNSError":
        return "the name of the host was not found"
    if isinstance(error, ssl.SSLError):
        return "the server's certificate or TLS is invalid"
    if isinstance(error, ConnectionResetError | ConnectionAbortedError | BrokenPipeError):
        return "the connection was lost"
    if isinstance(error, TimeoutError) or "Timeout" in type(error).__name__:
        return "the server did not answer in time"
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and those behind it; clients of HTTP keep them in places of their own."""
    seen: set[int] = set()
    found: list[Any] = [error]
    while found:
        one = found.pop(0)
        if isinstance(one, BaseException) and id(one) not in seen:
            seen.add(id(one))
            yield one
            found += [one.__cause__, getattr(one, "os_error", None), *one.args]
            found.append(None if one.__suppress_context__ else one.__context__)
            found.append(getattr(one, "kwargs", {}).get("error") if hasattr(one, "kwargs") else None)


def _words(error: BaseException) -> str:
    return (" ".join(str(error).split()) or type(error).__name__)[:200].rstrip(". ")
