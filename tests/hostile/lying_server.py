"""A server of chat completions that lies: what it is told to, about the questions it is told to.

Written on sockets, since no library would send what it sends. Everything it does not lie about is answered as a sound
server would, always alike, so that runs can be compared.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
import time
import zlib
from functools import lru_cache
from typing import Any

WORDS = ("True", "False", " True", " False", "Yes", "No", " Yes", " No", "yes", "no")
"""The tokens that the sound answers hold; the number of a word is its id."""

PIECE = b"x" * 65536


def serve(listener: socket.socket, lies: dict[str, Any]) -> None:
    """Answer until killed.

    Args:
        listener: The bound socket.
        lies: ``where`` (``models``, ``openapi``, ``tokenize``, ``chat``), ``about`` (a text that the question holds,
            empty for any), ``how``, and what that needs: ``status``, ``headers``, ``body``. ``{key}`` in headers and
            body becomes the key that was sent. An empty mapping for a sound server. ``log`` is a file to which the
            path of every request is added.
    """
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_talk, args=(connection, lies), daemon=True).start()


def _talk(connection: socket.socket, lies: dict[str, Any]) -> None:
    with contextlib.suppress(OSError, ValueError), connection:
        while request := _receive(connection):
            _answer(connection, *request, lies)


def _receive(connection: socket.socket) -> tuple[str, str, bytes] | None:
    """Return path, key and body of the next request; ``None`` where there is none."""
    data = b""
    while b"\r\n\r\n" not in data:
        if not (piece := connection.recv(65536)):
            return None
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    text = head.decode("latin-1")
    sized = re.search(r"(?i)^content-length: *(\d+)", text, re.M)
    while sized and len(body) < int(sized[1]):
        body += connection.recv(1 << 20)
    key = re.search(r"(?i)^authorization: *Bearer (.*)$", text, re.M)
    return text.split(" ", 2)[1], key[1].strip() if key else "", body


def _answer(connection: socket.socket, path: str, key: str, body: bytes, lies: dict[str, Any]) -> None:
    if "log" in lies:
        with open(lies["log"], "a", encoding="utf-8") as log:
            log.write(f"{path}\n")
    where = next((name for name in ("models", "openapi", "tokenize") if name in path), "chat")
    if lies.get("where") == where and lies.get("about", "").encode() in body:
        text = str(lies.get("body", "")).replace("{key}", key)
        headers = [(name, value.replace("{key}", key)) for name, value in lies.get("headers", [])]
        _LIES[lies["how"]](connection, int(lies.get("status", 200)), headers, text)
    elif where == "openapi":
        _send(connection, 404, [], "{}")
    else:
        _send(connection, 200, [], json.dumps(sound(where, json.loads(body or b"{}"))))


def sound(where: str, question: dict[str, Any]) -> dict[str, Any]:
    """Return what a sound server answers."""
    if where == "models":
        return {"object": "list", "data": [{"id": "m", "object": "model", "revision": "1", "root": "m"}]}
    if where == "tokenize":
        word = question.get("prompt")
        return {"tokens": [WORDS.index(word) if word in WORDS else 99], "count": 1}
    named = (
        (lambda n: f"token_id:{n}") if question.get("return_tokens_as_token_ids") else (lambda n: WORDS[n])
    )
    listed = [{"token": named(n), "logprob": -0.5 - n / 4} for n in range(len(WORDS))]
    choice = {
        "index": 0,
        "finish_reason": "stop",
        "message": {"role": "assistant", "content": _written(json.dumps(question.get("messages")))},
        "logprobs": {"content": [{**listed[0], "top_logprobs": listed}]}
        if question.get("logprobs")
        else None,
    }
    return {"id": "1", "choices": [choice], "usage": {"prompt_tokens": 50, "completion_tokens": 5}}


def _written(asked: str) -> str:
    """Return an answer in the form that a judge asks for."""
    if "<score>" in asked:
        return "<score>+10%</score>"
    if "<progress>" in asked:
        return "No further steps required. <progress>40%</progress>"
    if "percent" in asked.lower():
        frames = sorted({int(n) for n in re.findall(r"Frame (\d+)", asked)})
        return "\n".join(f"Frame {n}: Task Completion Percentages: {10 * n % 101}%" for n in frames)
    return json.dumps(
        {"subgoals": [{"number": n, "answer": "yes", "why": "seen"} for n in (1, 2, 3)], "answer": "yes"}
    )


def _head(status: int, headers: list[tuple[str, str]], length: int | None) -> bytes:
    lines = [f"HTTP/1.1 {status} Odd", *(f"{name}: {value}" for name, value in headers)]
    lines += ["content-type: application/json"] + (
        [f"content-length: {length}"] if length is not None else []
    )
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "replace")


def _send(connection: socket.socket, status: int, headers: list[tuple[str, str]], text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    connection.sendall(_head(status, headers, len(data)) + data)


def _endless(connection: socket.socket, status: int, headers: list[tuple[str, str]], text: str) -> None:
    connection.sendall(_head(status, headers, None) + text.encode("utf-8", "replace"))
    while True:
        connection.sendall(PIECE)


def _long(connection: socket.socket, status: int, headers: list[tuple[str, str]], text: str) -> None:
    """Claim ten gigabytes, and begin to send them."""
    connection.sendall(_head(status, headers, 10**10))
    for _ in range(2000):
        connection.sendall(PIECE)


def _cut(connection: socket.socket, status: int, headers: list[tuple[str, str]], text: str) -> None:
    data = text.encode("utf-8", "replace")
    connection.sendall(_head(status, headers, len(data) + 1000) + data)
    connection.close()


def _drip(connection: socket.socket, status: int, headers: list[tuple[str, str]], text: str) -> None:
    connection.sendall(_head(status, headers, None))
    while True:
        connection.sendall(b" ")
        time.sleep(0.05)


def _silent(connection: socket.socket, status: int, headers: list[tuple[str, str]], text: str) -> None:
    time.sleep(3600)


def _closed(connection: socket.socket, status: int, headers: list[tuple[str, str]], text: str) -> None:
    connection.close()


def _raw(connection: socket.socket, status: int, headers: list[tuple[str, str]], text: str) -> None:
    """Send the text in the place of a response."""
    connection.sendall(text.encode("latin-1", "replace"))
    connection.close()


@lru_cache(maxsize=4)
def _pack(name: str, data: bytes, spaces: int = 0) -> bytes:
    """Return the data, and as many spaces after it, packed."""
    pack = zlib.compressobj(1, wbits=zlib.MAX_WBITS | (16 if name == "gzip" else 0))
    pieces = [pack.compress(data), *(pack.compress(b" " * (1 << 20)) for _ in range(spaces >> 20))]
    return b"".join([*pieces, pack.flush()])


def _packed(name: str, bomb: bool) -> Any:
    def send(connection: socket.socket, status: int, headers: list[tuple[str, str]], text: str) -> None:
        packed = _pack(name, b"[", 1 << 28) if bomb else _pack(name, text.encode("utf-8", "surrogatepass"))
        connection.sendall(_head(status, [*headers, ("content-encoding", name)], len(packed)) + packed)

    return send


def _chunks(connection: socket.socket, status: int, headers: list[tuple[str, str]], text: str) -> None:
    """Send chunks, the last of a size that is none."""
    data = text.encode("utf-8", "replace")
    head = _head(status, [*headers, ("transfer-encoding", "chunked")], None)
    connection.sendall(head + f"{len(data):x}\r\n".encode() + data + b"\r\nfffffffffffffffffffff\r\nx")
    connection.close()


_LIES: dict[str, Any] = {
    "plain": _send,
    "endless": _endless,
    "long": _long,
    "cut": _cut,
    "drip": _drip,
    "silent": _silent,
    "closed": _closed,
    "raw": _raw,
    "chunks": _chunks,
    "gzip": _packed("gzip", False),
    "deflate": _packed("deflate", False),
    "br": _packed("br", False),
    "gzip-bomb": _packed("gzip", True),
    "deflate-bomb": _packed("deflate", True),
}
