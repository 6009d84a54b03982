"""Requests to the Hub over HTTP, within limits: of the seconds that an answer takes, and of its bytes.

They are sent with the client, the token and the proxies of ``huggingface_hub``, whose own functions read answers of
any length.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeVar

from stepscore.episodes.remote.stores import limits
from stepscore.episodes.remote.stores.hub import ATTEMPTS, TIMEOUT_S, wait_before_retry
from stepscore.episodes.remote.stores.waiting import SlowAnswerError, wait_for_thread

T = TypeVar("T")


class HubAnswerError(ValueError):
    """An answer that does not hold what was asked for, and will not at another attempt."""


class HubStatusError(Exception):
    """A refusal: its status and headers, without the address, which may be signed."""

    def __init__(self, status_code: int, headers: Mapping[str, str]) -> None:
        denied = " (no access: hf auth login, or set HF_TOKEN)" if status_code in (401, 403) else ""
        super().__init__(f"HTTP status {status_code}{denied}")
        self.status_code, self.headers = status_code, headers


def hub_headers() -> dict[str, str]:
    """Return the headers of a request, the token of this user among them."""
    return {**_utils().build_hf_headers(), "Accept-Encoding": "identity"}


def attempted(work: Callable[[], T], size: int) -> T:
    """Return what ``work`` returns, at its first attempt that succeeds.

    Args:
        work: Sends a request.
        size: Bytes of its answer.
    """
    import stamina

    def attempts() -> T:
        for attempt in stamina.retry_context(on=wait_before_retry, attempts=ATTEMPTS, timeout=None):
            with attempt:
                return wait_for_thread(work, limits.time_for(size))
        raise AssertionError("stamina ends with a result or an error")

    return wait_for_thread(attempts, limits.RETRYING_S)


def read_body(response: Any, most: int) -> bytes:
    """Return the body of an answer.

    Raises:
        HubAnswerError: It has more than ``most`` bytes.
        SlowAnswerError: It takes too long.
    """
    end = time.monotonic() + limits.time_for(most)
    content = bytearray()
    # Pieces of the buffer's size at most: a longer answer is noticed soon.
    chunks = response.iter_raw() if hasattr(response, "iter_raw") else response.iter_content(1 << 16)
    for chunk in chunks:
        content += chunk
        if len(content) > most:
            raise HubAnswerError(f"the server gave more than the {most} bytes it was asked for")
        if time.monotonic() > end:  # whoever waited has left
            raise SlowAnswerError("the answer took too long")
    return bytes(content)


@contextmanager
def opened(address: str, headers: Mapping[str, str]) -> Iterator[Any]:
    """Send a request; yield the answer, whose body has not been read."""
    session = _utils().get_session()
    if callable(getattr(session, "stream", None)):
        with session.stream("GET", address, headers=headers, timeout=TIMEOUT_S) as response:
            yield response
    else:  # requests, before huggingface_hub 1.0
        with session.get(address, headers=headers, timeout=TIMEOUT_S, stream=True) as response:
            yield response


def _utils() -> Any:
    return import_module("huggingface_hub.utils")
