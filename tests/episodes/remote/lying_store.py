"""A bucket of S3 and a Hub of one folder, which lie: about what they are told to, in the way they are told to.

Written on sockets, since no library would send what it sends. Everything else is answered as a sound server would.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape

COMMIT = "0123456789abcdef0123456789abcdef01234567"
PIECE = b"\0" * 65536


@dataclass
class LyingStore:
    """A store of the files of a folder.

    Attributes:
        folder: The folder.
        about: What it lies about: a text that the path of a request holds (``list`` for lists of files); empty for
            nothing.
        how: The lie, see ``LIES``.
        value: What the lie needs: a status, a text.
        sizes: Sizes that it lists instead of the true ones, by name; files that are not in the folder are added.
        address: Its address.
        asked: Paths of the requests.
        sent: Bytes of bodies.
        lied: Set when a lie begins.
    """

    folder: Path
    about: str = ""
    how: str = ""
    value: Any = None
    sizes: dict[str, Any] = field(default_factory=dict)
    address: str = ""
    asked: list[str] = field(default_factory=list)
    sent: int = 0
    lied: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return "s3://bucket/set"

    def files(self) -> dict[str, Any]:
        paths = (path for path in sorted(self.folder.rglob("*")) if path.is_file())
        return {path.relative_to(self.folder).as_posix(): path.stat().st_size for path in paths} | self.sizes


def serve(listener: socket.socket, store: LyingStore) -> None:
    """Answer until the listener is closed."""
    with contextlib.suppress(OSError):
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_talk, args=(connection, store), daemon=True).start()


@contextmanager
def lying_store(folder: Path, **lies: Any) -> Iterator[LyingStore]:
    """Serve a folder in threads of this process."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        store = LyingStore(folder, address=f"http://127.0.0.1:{listener.getsockname()[1]}", **lies)
        thread = threading.Thread(target=serve, args=(listener, store), daemon=True)
        thread.start()
        yield store
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


def _talk(connection: socket.socket, store: LyingStore) -> None:
    with contextlib.suppress(OSError, ValueError), connection:
        data = b""
        while True:
            while b"\r\n\r\n" not in data:
                if not (piece := connection.recv(65536)):
                    return
                data += piece
            head, _, data = data.partition(b"\r\n\r\n")
            text = head.decode("latin-1")
            method, target, _ = text.split("\r\n")[0].split(" ", 2)
            found = re.search(r"(?im)^range: *bytes=(\d+)-(\d+)", text)
            asked = _Asked(
                connection, store, method, target, (int(found[1]), int(found[2])) if found else None
            )
            store.asked.append(target)
            if not asked.answer():
                return


@dataclass
class _Asked:
    connection: socket.socket
    store: LyingStore
    method: str
    target: str
    range: tuple[int, int] | None

    def answer(self) -> bool:
        """Answer; return whether the connection goes on."""
        url = urlsplit(self.target)
        query = {key: values[0] for key, values in parse_qs(url.query, keep_blank_values=True).items()}
        path = unquote(url.path)
        listing = "list-type" in query or "/tree/" in path
        where = "list" if listing else path
        lies = bool(self.store.about) and self.store.about in where
        if lies:
            self.store.lied.set()
        if lies and self.store.how in LIES:
            LIES[self.store.how](self)
            return False
        how = self.store.how if lies else ""
        if "/tree/" in path:
            self._tree(how)
        elif listing:
            self._list(query, how)
        elif match := re.fullmatch(r"/api/datasets/[^/]+/[^/]+(/revision/.+)?", path):
            self.send(200, json.dumps({"sha": COMMIT}).encode())
        else:
            match = re.fullmatch(rf"(?:/bucket/set|/datasets/[^/]+/[^/]+/resolve/{COMMIT})/(.+)", path)
            self._file(match[1] if match else "", how)
        return True

    def send(self, status: int, body: bytes, *headers: str, length: int | None = None) -> None:
        length = len(body) if length is None else length
        lines = [f"HTTP/1.1 {status} Odd", f"Content-Length: {length}", *headers, "", ""]
        self.connection.sendall("\r\n".join(lines).encode())
        if self.method != "HEAD":
            self.connection.sendall(body)
            self.store.sent += len(body)

    def stream(self, head: str, piece: bytes, pause_s: float = 0.0) -> None:
        """Send pieces for ever."""
        if self.range is not None:
            start, end = self.range
            line = f"\r\nContent-Range: bytes {start}-{end}/{end + 1 if start == 0 else 10**13}\r\n"
            head = head.replace("206 OK\r\n", f"206 OK{line}", 1)
        self.connection.sendall(head.encode())
        while True:
            self.connection.sendall(piece)
            self.store.sent += len(piece)
            time.sleep(pause_s)

    def _list(self, query: dict[str, str], how: str) -> None:
        prefix, number = query.get("prefix", ""), int(query.get("continuation-token", "0") or 0)
        names = {f"set/{name}": size for name, size in self.store.files().items()}
        found = {key: size for key, size in names.items() if key.startswith(prefix)}
        if how == "endless" and number:
            found = {f"{prefix}more/{number}-{k}": 1 for k in range(5)}
        if how == "empty pages" and number:
            found = {}
        entries = "".join(
            f"<Contents><Key>{escape(key)}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
            f'<ETag>"{len(key)}"</ETag><Size>{size}</Size></Contents>'
            for key, size in found.items()
        )
        truncated = how in ("endless", "empty pages", "no token", "same token")
        token = {"no token": "", "same token": "<NextContinuationToken>1</NextContinuationToken>"}.get(
            how, f"<NextContinuationToken>{number + 1}</NextContinuationToken>"
        )
        body = (
            f"<ListBucketResult><IsTruncated>{str(truncated).lower()}</IsTruncated>"
            f"<Name>bucket</Name><Prefix>{escape(prefix)}</Prefix>{token if truncated else ''}{entries}"
            "</ListBucketResult>"
        )
        self.send(200, body.encode(), "Content-Type: application/xml")

    def _tree(self, how: str) -> None:
        names = {} if how == "empty pages" and "cursor" in self.target else self.store.files()
        body = json.dumps(
            [{"type": "file", "path": name, "size": size, "oid": "0"} for name, size in names.items()]
        )
        headers = ["Content-Type: application/json"]
        if how in ("endless", "empty pages", "same token", "no token"):
            headers.append(
                f'Link: <{self.target.split("&cursor")[0]}&cursor={len(self.store.asked)}>; rel="next"'
            )
        self.send(200, body.encode(), *headers)

    def _file(self, name: str, how: str) -> None:
        path = self.store.folder / quote(name, safe="/ .-_=@") if name else self.store.folder
        if name not in self.store.files():
            self.send(404, b"<Error><Code>NoSuchKey</Code><Message>none</Message></Error>")
            return
        data = path.read_bytes() if path.is_file() else b""
        size = self.store.files()[name]
        if self.range is None or how == "whole":
            self.send(200, data)
            return
        start, end = self.range[0], self.range[1] + 1
        part = data[start:end]
        shift = 7 if how == "other range" else 0
        self.send(206, part, f"Content-Range: bytes {start + shift}-{end + shift - 1}/{size}")


def _cut(asked: _Asked) -> None:
    asked.send(206, b"x" * 10, length=1000)


LIES: dict[str, Callable[[_Asked], None]] = {
    "status": lambda asked: asked.send(
        int(asked.store.value), b"<Error><Code>Odd</Code><Message>odd</Message></Error>"
    ),
    "body": lambda asked: asked.send(200, str(asked.store.value).encode()),
    "raw": lambda asked: asked.connection.sendall(str(asked.store.value).encode()),
    "closed": lambda asked: asked.connection.close(),
    "cut": _cut,
    "silent": lambda asked: time.sleep(3600),
    "drip": lambda asked: asked.stream("HTTP/1.1 206 OK\r\nConnection: close\r\n\r\n", b"x", 0.02),
    "drip head": lambda asked: asked.stream("HTTP/1.1 206 OK\r\nX: ", b"x", 0.02),
    "unending": lambda asked: asked.stream("HTTP/1.1 206 OK\r\nConnection: close\r\n\r\n", PIECE),
    "unending 200": lambda asked: asked.stream("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", PIECE),
    "unending error": lambda asked: asked.stream("HTTP/1.1 403 No\r\nConnection: close\r\n\r\n", PIECE),
    "unending chunks": lambda asked: asked.stream(
        "HTTP/1.1 206 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + PIECE + b"\r\n"
    ),
    "unending head": lambda asked: asked.stream("HTTP/1.1 200 OK\r\n", b"X-Odd: 1\r\n" * 999),
    "huge": lambda asked: asked.stream("HTTP/1.1 206 OK\r\nContent-Length: 10000000000000\r\n\r\n", PIECE),
}
"""Lies about the whole answer. Of lists, there are also: endless, empty pages, same token, no token; of files: whole
(the range is ignored), other range."""
