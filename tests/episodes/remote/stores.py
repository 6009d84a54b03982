"""Stores for tests: fsspec's in memory, and an S3-compatible server on loopback that counts what it sends."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest


def upload(folder: Path, url: str) -> str:
    """Copy a folder to a store; returns its URL."""
    from fsspec.core import url_to_fs

    filesystem, root = url_to_fs(url)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            filesystem.pipe_file(f"{root}/{path.relative_to(folder).as_posix()}", path.read_bytes())
    return url


@dataclass
class CountingFilesystem:
    """Counts the bytes that fsspec's memory store gives, by file name."""

    sent: dict[str, int] = field(default_factory=dict)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from fsspec.implementations.memory import MemoryFileSystem

        plain = MemoryFileSystem.cat_file

        def cat_file(store: Any, path: str, *ends: Any, **options: Any) -> bytes:
            content: bytes = plain(store, path, *ends, **options)
            self.sent[path] = self.sent.get(path, 0) + len(content)
            return content

        monkeypatch.setattr(MemoryFileSystem, "cat_file", cat_file)

    def of(self, part: str) -> int:
        """Bytes sent of the files whose path contains ``part``."""
        return sum(count for path, count in self.sent.items() if part in path)


@dataclass
class Traffic:
    """What a server sent: requests and bytes of answers, by path."""

    requests: int = 0
    sent: dict[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return sum(self.sent.values())


@contextmanager
def s3_server() -> Iterator[tuple[str, Traffic]]:
    """Run moto's S3 on loopback; yields its address and what it sent."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    traffic, backend = Traffic(), DomainDispatcherApplication(create_backend_app)

    def application(environment: dict[str, Any], start: Any) -> Iterator[bytes]:
        traffic.requests += 1
        path = environment["PATH_INFO"]
        for part in backend(environment, start):
            traffic.sent[path] = traffic.sent.get(path, 0) + len(part)
            yield part

    class Quiet(WSGIRequestHandler):
        def log_request(self, *args: object) -> None: ...

    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=Quiet)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", traffic
    finally:
        server.shutdown()
        thread.join()


def s3_environment(address: str) -> dict[str, str]:
    """Variables with which clients of S3 find the server."""
    return {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
