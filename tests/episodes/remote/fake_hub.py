"""A small Hugging Face Hub on loopback, as huggingface_hub's client asks it, and the store it redirects to.

Repository info, the tree in pages, and ``resolve``: small text files are given by the Hub itself, all others by a
redirect to another host with a signed address, as for files in LFS. Both write down what they are asked and
send, and can be made to fail.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, quote, unquote, urlsplit

import pytest

SECRET = "hf_secretOfTheTests"


class Asked(NamedTuple):
    """A request: to ``hub`` or ``store``."""

    server: str
    method: str
    path: str
    range: str
    token: str
    status: int
    sent: int


@dataclass
class Fault:
    """What happens to the next requests whose server and path fit: a status, a cut after some bytes, no ranges."""

    server: str
    part: str = ""
    times: int = 1
    status: int = 0
    cut_after: int = -1
    whole: bool = False
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class FakeHub:
    """Datasets by repo id and commit; ``main`` and other revisions name commits.

    ``page`` is the number of entries in a page of the tree; the Hub has 1,000.
    """

    page: int = 4
    address: str = ""
    store: str = ""
    commits: dict[tuple[str, str], dict[str, bytes]] = field(default_factory=dict)
    revisions: dict[tuple[str, str], str] = field(default_factory=dict)
    private: set[str] = field(default_factory=set)
    asked: list[Asked] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def upload(self, folder: Path, repo_id: str, revision: str = "main") -> str:
        """Commit a folder to a revision; returns the commit."""
        files = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
        content = b"".join(name.encode() + hashlib.sha1(data).digest() for name, data in files.items())
        commit = hashlib.sha1(repo_id.encode() + content).hexdigest()
        self.commits[repo_id, commit] = files
        self.revisions[repo_id, revision] = self.revisions[repo_id, commit] = commit
        return commit

    def sent(self, part: str) -> int:
        """Bytes of answers for files whose path holds ``part``."""
        return sum(asked.sent for asked in self.asked if part in asked.path and asked.status in (200, 206))

    def count(self, server: str = "", part: str = "") -> int:
        """How many requests there were."""
        return sum(server in asked.server and part in asked.path for asked in self.asked)

    def fault(self, server: str, path: str) -> Fault | None:
        """Take the next fault that fits."""
        with self.lock:
            for fault in self.faults:
                if fault.server == server and fault.part in path and fault.times > 0:
                    fault.times -= 1
                    return fault
        return None


class _Server(ThreadingHTTPServer):
    def handle_error(self, *args: object) -> None:
        """Say nothing: a client that has seen enough hangs up."""


@contextmanager
def fake_hub() -> Iterator[FakeHub]:
    """Run the Hub and its store, each at an address of its own."""
    hub = FakeHub()
    servers = [_Server(("127.0.0.1", 0), _handler(hub, name)) for name in ("hub", "store")]
    hub.address, hub.store = (f"http://127.0.0.1:{server.server_port}" for server in servers)
    threads = [
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}) for server in servers
    ]
    for thread in threads:
        thread.start()
    try:
        yield hub
    finally:
        for server, thread in zip(servers, threads, strict=True):
            server.shutdown()
            thread.join()
            server.server_close()


def _handler(hub: FakeHub, name: str) -> type[BaseHTTPRequestHandler]:
    class Handler(_Answers):
        the_hub, server_name = hub, name

    return Handler


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    the_hub: FakeHub
    server_name: str

    def log_message(self, *args: object) -> None: ...

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        hub, url = self.the_hub, urlsplit(self.path)
        fault = hub.fault(self.server_name, url.path)
        if fault is not None and fault.status:
            self._answer(fault.status, b"busy", fault.headers)
        elif self.server_name == "store":
            self._store(url.path, url.query, fault)
        elif match := re.fullmatch(
            r"/api/datasets/([^/]+/[^/]+)(?:/(revision|tree)/([^/]+)(?:/(.+))?)?", url.path
        ):
            repo_id, what, revision, folder = match.groups()
            commit = self._commit(repo_id, unquote(revision or "main"))
            if commit and what == "tree":
                self._tree(hub.commits[repo_id, commit], unquote(folder or ""), url.query)
            elif commit:
                self._json({"id": repo_id, "sha": commit, "private": repo_id in hub.private, "siblings": []})
        elif match := re.fullmatch(r"/datasets/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", url.path):
            self._resolve(match[1], unquote(match[2]), unquote(match[3]), fault)
        else:
            self._answer(404, b"", {})

    def _commit(self, repo_id: str, revision: str) -> str | None:
        """Return the commit of a revision; where there is none, the answer is given as the Hub does."""
        hub, known = self.the_hub, any(repo_id == other for other, _ in self.the_hub.revisions)
        token = self.headers.get("Authorization", "")
        if not known or (repo_id in hub.private and token != f"Bearer {SECRET}"):
            # Who has no access is not told whether it is there.
            self._answer(404 if token else 401, b"", {"X-Error-Code": "RepoNotFound"})
        elif (repo_id, revision) not in hub.revisions:
            self._answer(404, b"", {"X-Error-Code": "RevisionNotFound"})
        else:
            return hub.revisions[repo_id, revision]
        return None

    def _tree(self, files: dict[str, bytes], folder: str, query: str) -> None:
        options = {key: values[0] for key, values in parse_qs(query).items()}
        inside = f"{folder}/" if folder else ""
        entries: dict[str, dict[str, object]] = {}
        for path, data in files.items():
            rest = path.removeprefix(inside) if path.startswith(inside) else ""
            parts = rest.split("/")
            depth = len(parts) if options.get("recursive", "").lower() == "true" else 1
            for end in range(1, depth + 1) if rest else ():
                name = inside + "/".join(parts[:end])
                is_file = name == path
                entries[name] = {
                    "type": "file" if is_file else "directory",
                    "path": name,
                    "size": 0,
                    "oid": "0",
                }
                if is_file:
                    entries[name] |= {"size": len(data), "oid": hashlib.sha1(data).hexdigest()}
        if not entries:
            self._answer(404, b"", {"X-Error-Code": "EntryNotFound"})
            return
        start, page = int(options.get("cursor", 0)), self.the_hub.page
        names = sorted(entries)
        headers = {}
        if start + page < len(names):
            rest_of = "&".join(f"{key}={value}" for key, value in options.items() if key != "cursor")
            path = urlsplit(self.path).path
            headers["Link"] = f'<{self.the_hub.address}{path}?{rest_of}&cursor={start + page}>; rel="next"'
        self._json([entries[name] for name in names[start : start + page]], headers)

    def _resolve(self, repo_id: str, revision: str, path: str, fault: Fault | None) -> None:
        commit = self._commit(repo_id, revision)
        if commit is None:
            return
        data = self.the_hub.commits[repo_id, commit].get(path)
        if data is None:
            self._answer(404, b"", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit})
            return
        headers = {"X-Repo-Commit": commit, "ETag": f'"{hashlib.sha1(data).hexdigest()}"'}
        if path.endswith((".json", ".jsonl", ".md")):
            self._content(data, headers, fault)
        else:
            headers |= {
                "X-Linked-Size": str(len(data)),
                "X-Linked-ETag": f'"{hashlib.sha256(data).hexdigest()}"',
            }
            place = f"{self.the_hub.store}/{repo_id}/{commit}/{quote(path)}?Signature=signed"
            self._answer(302, b"", {**headers, "Location": place})

    def _store(self, path: str, query: str, fault: Fault | None) -> None:
        user, name, commit, file = path.lstrip("/").split("/", 3)
        if (
            query != "Signature=signed" or "Authorization" in self.headers
        ):  # as S3 does with two ways of signing
            self._answer(400, b"", {})
            return
        self._content(self.the_hub.commits[f"{user}/{name}", commit][unquote(file)], {}, fault)

    def _content(self, data: bytes, headers: dict[str, str], fault: Fault | None) -> None:
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if match is None or (fault is not None and fault.whole):
            self._answer(200, data, headers, fault)
            return
        start, end = int(match[1]), min(int(match[2]) + 1, len(data))
        headers = {**headers, "Content-Range": f"bytes {start}-{end - 1}/{len(data)}"}
        self._answer(206, data[start:end], headers, fault)

    def _json(self, content: object, headers: dict[str, str] | None = None) -> None:
        self._answer(
            200, json.dumps(content).encode(), {"Content-Type": "application/json", **(headers or {})}
        )

    def _answer(self, status: int, body: bytes, headers: dict[str, str], fault: Fault | None = None) -> None:
        part = body if fault is None or fault.cut_after < 0 else body[: fault.cut_after]
        if self.command == "HEAD":
            part = b""
        got, path = self.headers, urlsplit(self.path).path
        asked = Asked(
            *(self.server_name, self.command, path, got.get("Range", ""), got.get("Authorization", "")),
            *(status, len(part)),
        )
        with self.the_hub.lock:  # before anything is sent: whoever has the answer may look at once
            self.the_hub.asked.append(asked)
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.close_connection = self.close_connection or (len(part) < len(body) and self.command != "HEAD")
        self.wfile.write(part)


def use_hub(monkeypatch: pytest.MonkeyPatch, hub: FakeHub, folder: Path) -> None:
    """Let huggingface_hub of this process ask the fake Hub, with its own cache and without a token."""
    from huggingface_hub import constants

    template = f"{hub.address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    for name, value in {
        "ENDPOINT": hub.address,
        "HUGGINGFACE_CO_URL_TEMPLATE": template,
        "HF_HUB_CACHE": str(folder / "hub"),
        "HF_TOKEN_PATH": str(folder / "token"),
    }.items():
        monkeypatch.setattr(constants, name, value)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setenv("STEPSCORE_CACHE", str(folder / "cache"))


def hub_environment(hub: FakeHub, folder: Path) -> dict[str, str]:
    """Variables with which another process asks the fake Hub."""
    return {
        "HF_ENDPOINT": hub.address,
        "HF_HOME": str(folder / "home"),
        "STEPSCORE_CACHE": str(folder / "cache"),
    }
