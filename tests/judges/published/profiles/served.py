"""A profile of nobody's model, and a stand-in for the host of its prompt."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator

import httpx2
import pytest

from stepscore.judges.published.profiles import Profile, parse_profile, prompt_texts

TEXT = "Look at <image> and <image>: how far is {job}?"
SOURCE = f"import os\nos.abort()\nASKED = {TEXT!r}\n".encode()
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def profile(**source: object) -> Profile:
    """A profile whose text stands in :data:`SOURCE`."""
    values = {"sha256": sha256(SOURCE), "bytes": len(SOURCE), "text": sha256(TEXT.encode()), **source}
    return parse_profile(
        f"""
        name: nobody
        judge: grm
        title: Nobody's model
        checkpoints: [{{id: nobody/Nobody-1B}}]
        citation: none
        progress: hop
        sources:
          code: {{repository: nobody/code, commit: {COMMIT}, path: src/ask.py, sha256: {values["sha256"]},
                 bytes: {values["bytes"]}}}
        questions:
          pair:
            images: [before 1, after 1]
            texts:
              user: {{source: code, constant: ASKED, sha256: {values["text"]}, chars: {len(TEXT)},
                     fields: {{job: instruction}}}}
            answer: {{pattern: '([0-9]+)', lowest: 0, highest: 100}}
        """,
        "test",
    )


Handler = Callable[[httpx2.Request], httpx2.Response]


class _Pieces(httpx2.SyncByteStream):
    def __init__(self, pieces: Iterable[bytes]) -> None:
        self.pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        yield from self.pieces


def answering(status: int = 200, pieces: Iterable[bytes] = (SOURCE,), **headers: str) -> httpx2.Response:
    """A response whose body arrives in pieces, and is read only as far as somebody asks for it."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx2.Response(status, headers=named, stream=_Pieces(pieces))


class Host:
    """Answers by a function, and keeps the addresses that were asked for."""

    def __init__(self, answer: Handler | None = None) -> None:
        self.answer = answer or (lambda request: answering())
        self.urls: list[str] = []

    def client(self) -> httpx2.Client:
        def handle(request: httpx2.Request) -> httpx2.Response:
            self.urls.append(str(request.url))
            return self.answer(request)

        return httpx2.Client(transport=httpx2.MockTransport(handle), follow_redirects=False)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> Host:
        monkeypatch.setattr(prompt_texts, "open_client", self.client)
        return self
