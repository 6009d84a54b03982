"""The lies of a server: each a response to a chat completion that no honest server sends, and what a run makes of it.

A run is six episodes with one call each. At most eight calls are allowed, and money for four calls that cost the most
they can; an honest answer costs a hundredth of that. So a server that is never believed gets four requests, one that
refuses without a bill gets eight, and one whose refusal is final gets one for each episode.
"""

from __future__ import annotations

import base64
import itertools
import json
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

KEY = "sk-lie-7Fq+3Zk/9vTbWx2LmN8d"
"""The key of every run; it holds letters that are written otherwise in addresses."""

JSON = {"content-type": "application/json"}
UNPAID = 4
"""Requests that the money allows when no answer's cost is known."""
CALLS = 8
"""Requests that ``--max-calls`` allows."""
EPISODES = 6


@dataclass(frozen=True)
class Exchange:
    """One request that the server got.

    Attributes:
        number: How many it got before.
        honest: The completion an honest server would return.
        key: The key it was sent.
    """

    number: int
    honest: dict[str, Any]
    key: str


Respond = Callable[[Exchange], Iterable[bytes]]
"""Returns the bytes of a response, head and body, piece by piece."""


@dataclass(frozen=True)
class Lie:
    """A way to lie.

    Attributes:
        respond: What is sent instead of an answer.
        says: A part of what the run says, on the terminal or in an episode's error.
        requests: How many requests the run sends, at most.
        code: Exit code of ``judge``.
        state: What the attempts end as.
        judge: ``gvl`` asks for text, ``topreward`` for log-probabilities.
        options: Further options of ``judge``.
        unsent: How many of the requests may not be sent, by who is first to wait.
    """

    respond: Respond
    says: str
    requests: int = UNPAID
    code: int = 1
    state: str = "lost"
    judge: str = "gvl"
    options: tuple[str, ...] = ()
    unsent: int = 0


def head(status: str = "200 OK", **headers: object) -> bytes:
    """Return the head of a response; ``content_length`` is written ``content-length``."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [
        f"HTTP/1.1 {status}",
        *(f"{name}: {value}" for name, value in named.items()),
        "connection: close",
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def body(content: object, status: str = "200 OK", **headers: object) -> Iterator[bytes]:
    """Yield a whole response with a JSON or a text body."""
    packed = content if isinstance(content, bytes) else json.dumps(content).encode()
    yield head(status, content_length=len(packed), **headers)
    yield packed


def honest(exchange: Exchange) -> Iterator[bytes]:
    """Yield the response of an honest server."""
    return body(exchange.honest)


def usage(value: object) -> Respond:
    """Return the lie of an honest answer with other counts of tokens."""
    return lambda exchange: body(exchange.honest | {"usage": value})


def counts(value: object) -> Respond:
    """Return the lie of an honest answer with both counts of tokens another value."""
    return usage({"prompt_tokens": value, "completion_tokens": value})


def raw_counts(text: str) -> Respond:
    """Return the lie of counts that are written in a way no JSON library writes them."""

    def respond(exchange: Exchange) -> Iterator[bytes]:
        marked = json.dumps(exchange.honest | {"usage": {"prompt_tokens": "@", "completion_tokens": "@"}})
        return body(marked.replace('"@"', text).encode())

    return respond


def with_text(text: Callable[[Exchange], object]) -> Respond:
    """Return the lie of an honest answer with another content."""

    def respond(exchange: Exchange) -> Iterator[bytes]:
        choice = exchange.honest["choices"][0] | {"message": {"role": "assistant", "content": text(exchange)}}
        return body(exchange.honest | {"choices": [choice]})

    return respond


def answer_and(addition: Callable[[Exchange], str]) -> Respond:
    """Return the lie of an honest answer with something added to its text."""
    return with_text(lambda e: f"{e.honest['choices'][0]['message']['content']}\n{addition(e)}")


def logprob(text: str) -> Respond:
    """Return the lie of log-probabilities that all are this JSON value."""

    def respond(exchange: Exchange) -> Iterator[bytes]:
        words = [{"token": word, "logprob": "@"} for word in ("True", "False")]
        content = [{**words[0], "top_logprobs": words}]
        choice = exchange.honest["choices"][0] | {"logprobs": {"content": content}}
        return body(json.dumps(exchange.honest | {"choices": [choice]}).replace('"@"', text).encode())

    return respond


def changed(change: Mapping[str, object]) -> Respond:
    """Return the lie of an honest answer with other fields."""
    return lambda exchange: body({**exchange.honest, **change})


def error(message: Callable[[Exchange], str], status: str, **headers: object) -> Respond:
    """Return a refusal with OpenAI's error object."""
    return lambda e: body({"error": {"message": message(e), "code": None}}, status, **headers)


def endless(start: bytes, piece: bytes) -> Respond:
    """Return a response that never ends; the thread that sends it ends when nobody reads."""
    return lambda exchange: itertools.chain([start], itertools.repeat(piece))


def packed(kind: int, content: Iterable[bytes]) -> bytes:
    """Return bytes packed by zlib: ``kind`` 31 is gzip, 15 deflate."""
    packing = zlib.compressobj(9, wbits=kind)
    return b"".join([*map(packing.compress, content), packing.flush()])


def zeros(gigabytes: int) -> Iterator[bytes]:
    """Yield so many bytes of an open JSON text."""
    yield b'{"choices": "'
    yield from itertools.repeat(b"0" * (1 << 20), gigabytes << 10)


def bomb(kind: int, encoding: str, layers: int = 1) -> Respond:
    """Return a response of a few kilobytes that unpacks to a gigabyte."""
    content: list[bytes] = []

    def respond(exchange: Exchange) -> Iterator[bytes]:
        if not content:
            inner = packed(kind, zeros(1))
            content.append(packed(kind, [inner]) if layers == 2 else inner)
        return body(content[0], content_encoding=encoding)

    return respond


def dripping(exchange: Exchange) -> Iterator[bytes]:
    """Yield an honest response a byte at a time, for an hour."""
    yield head(content_length=1 << 20)
    for letter in itertools.cycle(b" "):
        time.sleep(0.05)
        yield bytes([letter])


def away_at_first(status: str, times: int) -> Respond:
    """Return a server that is away for its first requests, and honest from then on."""
    refuse = error(lambda e: f"Loading, {e.key}.", status)
    return lambda exchange: refuse(exchange) if exchange.number < times else honest(exchange)


def _in_base64(exchange: Exchange) -> str:
    return base64.b64encode(f"Bearer {exchange.key}".encode()).decode()


_NOT_COUNTED = "not counted:"
_LISTS = b"[" + b",".join([b"[]"] * 1_350_000) + b"]"

LIES: dict[str, Lie] = {
    "nothing: an honest server": Lie(honest, "6 judged", EPISODES, 0, "answered"),
    # Counts of tokens: unknown, and each call counts in full.
    "usage of 10**30 tokens": Lie(counts(10**30), _NOT_COUNTED, state="uncounted"),
    "usage of 10**12 tokens": Lie(counts(10**12), _NOT_COUNTED, state="uncounted"),
    "usage above what the request can have": Lie(counts(5_000_000), _NOT_COUNTED, state="uncounted"),
    "usage with 5,000 digits": Lie(raw_counts("9" * 5000), _NOT_COUNTED, state="uncounted"),
    "usage true": Lie(counts(True), _NOT_COUNTED, state="uncounted"),
    "usage negative": Lie(counts(-10_000_000), _NOT_COUNTED, state="uncounted"),
    "usage fractional": Lie(counts(20.5), _NOT_COUNTED, state="uncounted"),
    "usage NaN": Lie(raw_counts("NaN"), _NOT_COUNTED, state="uncounted"),
    "usage a text": Lie(counts("20"), _NOT_COUNTED, state="uncounted"),
    "usage 0": Lie(counts(0), _NOT_COUNTED, state="uncounted"),
    "usage a list": Lie(usage([1, 2]), _NOT_COUNTED, state="uncounted"),
    "usage missing": Lie(usage(None), _NOT_COUNTED, state="uncounted"),
    # Log-probabilities: unknown.
    "log-probability 3.5": Lie(
        logprob("3.5"), "Coverage of the curves: 0.0 %", EPISODES, 0, "answered", "topreward"
    ),
    "log-probability NaN": Lie(
        logprob("NaN"), "Coverage of the curves: 0.0 %", EPISODES, 0, "answered", "topreward"
    ),
    "log-probability 1e999": Lie(
        logprob("1e999"), "Coverage of the curves: 0.0 %", EPISODES, 0, "answered", "topreward"
    ),
    "log-probability true": Lie(
        logprob("true"), "Coverage of the curves: 0.0 %", EPISODES, 0, "answered", "topreward"
    ),
    "log-probability a text": Lie(
        logprob('"-1"'), "Coverage of the curves: 0.0 %", EPISODES, 0, "answered", "topreward"
    ),
    "log-probabilities missing": Lie(honest, "returned no log-probabilities", judge="topreward"),
    "log-probabilities a number": Lie(
        changed({"choices": [{"logprobs": {"content": 5}}]}), "unknown format", judge="topreward"
    ),
    # Bodies.
    "a body without end": Lie(endless(head(), b" " * 65536), "returned more than 4 MiB"),
    "a body without end, in chunks": Lie(
        endless(head(transfer_encoding="chunked"), b"10000\r\n" + b" " * 65536 + b"\r\n"),
        "returned more than 4 MiB",
    ),
    "content-length of 10 GB": Lie(
        endless(head(content_length=10**10), b" " * 65536), "returned more than 4 MiB"
    ),
    "content-length of 400 digits": Lie(
        lambda e: [head(content_length="9" * 400)], "the connection was lost"
    ),
    "gzip bomb": Lie(bomb(31, "gzip"), "returned more than 4 MiB"),
    "deflate bomb": Lie(bomb(15, "deflate"), "returned more than 4 MiB"),
    "gzip bomb inside gzip": Lie(
        bomb(31, "gzip, gzip", 2), "content encoding 'gzip, gzip', which was not requested"
    ),
    "gzip, then bytes without end": Lie(
        endless(head(content_encoding="gzip") + packed(31, [b"{}"]), b"0" * 65536), "returned more than 4 MiB"
    ),
    "brotli": Lie(
        lambda e: body(b"\x0b\x02\x80{}\x03", content_encoding="br"),
        "content encoding 'br', which was not requested",
    ),
    "no gzip, though it says so": Lie(lambda e: body(b"{}", content_encoding="gzip"), "cannot be unpacked"),
    "a body cut short": Lie(
        lambda e: [head(content_length=1000), b'{"choices": '], "the connection was lost"
    ),
    "a byte at a time": Lie(dripping, "no complete response in 0.5 s", options=("-M", "timeout_s=0.5")),
    "headers without end": Lie(
        endless(b"HTTP/1.1 200 OK\r\n", b"x: " + b"0" * 60_000 + b"\r\n"), "the connection was lost"
    ),
    "nothing at all": Lie(lambda e: [], "the connection was lost"),
    # JSON.
    "an empty body": Lie(lambda e: body(b""), "did not return a JSON object"),
    "a page of HTML": Lie(lambda e: body(b"<html>Welcome</html>"), "did not return a JSON object"),
    "a list": Lie(lambda e: body([1]), "did not return a JSON object"),
    "nested 90,000 deep": Lie(lambda e: body(b"[" * 90_000 + b"]" * 90_000), "did not return a JSON object"),
    "1,350,000 empty lists": Lie(
        lambda e: body(b'{"x": ' + _LISTS + b"}"), "returned more than 200,000 values"
    ),
    "90,000 empty lists": Lie(
        lambda e: body(b'{"x": ' + _LISTS[: 3 * 90_000 + 1] + b"0]}"), "other than a chat completion"
    ),
    "choices a number": Lie(changed({"choices": 5}), "other than a chat completion"),
    "no choices": Lie(changed({"choices": []}), "other than a chat completion"),
    "content a number": Lie(with_text(lambda e: 5), "content is not text"),
    "content of 3 MB": Lie(with_text(lambda e: "x" * 3_000_000), "something other than what was requested"),
    "half characters and control codes": Lie(
        answer_and(lambda e: "\ud800\x00\x1b[2J\u202e"), "6 judged", EPISODES, 0, "answered"
    ),
    # The key.
    "the key in Location": Lie(
        lambda e: body({}, "302 Found", location=f"http://elsewhere/v1?key={e.key}"),
        "[key]",
        EPISODES,
        state="refused",
    ),
    "the key in an answer": Lie(
        answer_and(lambda e: f"You sent {e.key}"), "6 judged", EPISODES, 0, "answered"
    ),
    "the key in an answer, in base64": Lie(answer_and(_in_base64), "6 judged", EPISODES, 0, "answered"),
    "the key as a finish reason": Lie(
        lambda e: body(e.honest | {"choices": [e.honest["choices"][0] | {"finish_reason": e.key}]}),
        "6 judged",
        EPISODES,
        0,
        "answered",
    ),
    "the key in a malformed header": Lie(
        lambda e: [f"HTTP/1.1 200 OK\r\n{e.key}\r\n\r\n".encode()], "the connection was lost"
    ),
    "the key in the reason of a status": Lie(
        lambda e: body({}, f"400 {e.key}"), "answered 400", EPISODES, state="refused"
    ),
    "the key in an error": Lie(
        error(lambda e: f"Wrong: {e.key}", "401 Unauthorized"), "Wrong: [key]", EPISODES, state="refused"
    ),
    "the key in an error that is cut": Lie(
        lambda e: body((" " * (65536 - 12) + e.key).encode(), "400 Bad Request"),
        "answered 400",
        EPISODES,
        state="refused",
    ),
    "the key in a text that is no JSON": Lie(lambda e: body(f"oh {e.key}".encode()), "oh [key]"),
    # Statuses.
    "301 to another host": Lie(
        lambda e: body({}, "301 Moved", location="http://elsewhere/v1"),
        "It redirects to http://elsewhere/v1",
        EPISODES,
        state="refused",
    ),
    "404": Lie(
        error(lambda e: "no such model", "404 Not Found"),
        "6 attempts (6 refused), cost 0.0000",
        EPISODES,
        state="refused",
    ),
    "429": Lie(
        error(lambda e: "slow down", "429 Too Many"), "The budget of 8 calls is spent", CALLS, state="refused"
    ),
    "429, Retry-After 999999999": Lie(
        error(lambda e: "slow down", "429 Too Many", retry_after=999999999),
        "next attempt in 600 s (the server asks for 999999999 s)",
        CALLS,
        state="refused",
        unsent=2,
    ),
    "500 without end": Lie(
        endless(head("500 Oh no"), b"no " * 20_000), "answered 500: no no", CALLS, state="refused"
    ),
    "502, as behind a gateway": Lie(error(lambda e: "bad gateway", "502 Bad Gateway"), "answered 502"),
    "a restart: 503 twice": Lie(away_at_first("503 Unavailable", 2), "6 judged", CALLS, 0, "answered"),
}
