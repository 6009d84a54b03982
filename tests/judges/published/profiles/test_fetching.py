"""A published prompt is fetched once, by its commit, and only if it is exactly the pinned one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from stepscore.errors import ModelError, OptionError
from stepscore.judges.published.profiles import (
    fetch_texts,
    load_profile,
    published_text,
    source_url,
    without_fetching,
)
from stepscore.judges.published.profiles.prompt_texts import cached_path, fetch_file, open_client
from tests.judges.published.profiles.served import COMMIT, SOURCE, TEXT, Host, answering, profile, sha256


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STEPSCORE_CACHE", str(tmp_path))
    from stepscore.judges.published.profiles import prompt_texts

    prompt_texts._fetched.cache_clear()
    return tmp_path


def refused(monkeypatch: pytest.MonkeyPatch, cache: Path, answer: httpx2.Response, match: str) -> None:
    host = Host(lambda request: answer).install(monkeypatch)
    with pytest.raises(ModelError, match=match):
        fetch_file(profile().sources["code"])
    assert len(host.urls) == 1
    assert not [path for path in cache.rglob("*") if path.is_file()], "nothing is kept"


def test_it_is_fetched_once_over_https_at_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    host, asked = Host().install(monkeypatch), profile()
    text = asked.questions["pair"].texts["user"]
    assert published_text(asked, text) == TEXT
    from stepscore.judges.published.profiles import prompt_texts

    prompt_texts._fetched.cache_clear()  # as another process would begin
    assert published_text(asked, text) == TEXT
    assert host.urls == [f"https://raw.githubusercontent.com/nobody/code/{COMMIT}/src/ask.py"]


def test_a_file_with_another_hash_is_refused(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    changed = SOURCE.replace(b"how far", b"How far")
    refused(monkeypatch, cache, answering(pieces=[changed]), "not the file that was pinned")


def test_a_text_with_another_hash_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    Host().install(monkeypatch)
    asked = profile(text=sha256(b"another text"))
    with pytest.raises(ModelError, match="ASKED is not the text that was pinned"):
        published_text(asked, asked.questions["pair"].texts["user"])


def test_a_larger_file_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    read: list[bytes] = []

    def body() -> Iterator[bytes]:
        for _ in range(10**6):
            read.append(b"x" * 100)
            yield read[-1]

    refused(monkeypatch, cache, answering(pieces=body(), content_length="100000000"), "more than")
    assert not read
    refused(monkeypatch, cache, answering(pieces=body()), "more than")
    assert sum(map(len, read)) <= len(SOURCE) + (1 << 14) + 100


@pytest.mark.parametrize("target", ["https://elsewhere.example/ask.py", "http://raw.githubusercontent.com/x"])
def test_a_redirect_is_refused(monkeypatch: pytest.MonkeyPatch, cache: Path, target: str) -> None:
    refused(monkeypatch, cache, answering(302, location=target), "redirects elsewhere")


def test_other_answers_are_refused(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    refused(monkeypatch, cache, answering(404), "answered 404")
    packed = answering(content_encoding="br")
    refused(monkeypatch, cache, packed, "packed")


def test_a_lost_connection_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("no route\nto host")

    Host(lost).install(monkeypatch)
    with pytest.raises(ModelError, match=r"cannot be fetched \(no route to host\)"):
        fetch_file(profile().sources["code"])


def test_a_body_in_pieces_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = [SOURCE[at : at + 7] for at in range(0, len(SOURCE), 7)]
    Host(lambda request: answering(pieces=pieces)).install(monkeypatch)
    assert fetch_file(profile().sources["code"]) == SOURCE


def test_a_damaged_cache_is_fetched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    host, source = Host().install(monkeypatch), profile().sources["code"]
    fetch_file(source)
    cached_path(source).write_bytes(SOURCE[:-1] + b"!")
    assert fetch_file(source) == SOURCE
    assert len(host.urls) == 2


def test_offline_refuses_with_the_command_that_repairs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    host, asked = Host().install(monkeypatch), profile()
    question = asked.questions["pair"]
    with pytest.raises(
        OptionError, match=rf"curl --create-dirs -o ask.py https://\S+/{COMMIT}/src/ask.py .*-J prompt=ask.py"
    ):
        fetch_texts(asked, question, offline=True)
    assert host.urls == []
    fetch_texts(asked, question)
    fetch_texts(asked, question, offline=True)
    assert len(host.urls) == 1


def test_offline_names_every_file_that_a_judge_needs() -> None:
    vlac = load_profile("vlac")
    with pytest.raises(OptionError) as refused:
        fetch_texts(vlac, *vlac.questions.values(), offline=True)
    message = str(refused.value)
    assert message.count("curl --create-dirs -o prompts/") == 2
    assert all(source_url(source) in message for source in vlac.sources.values())
    assert message.endswith("-J prompt=prompts/")


def test_what_cannot_be_fetched_says_what_else_can_be_done(monkeypatch: pytest.MonkeyPatch) -> None:
    Host(lambda request: answering(404)).install(monkeypatch)
    with pytest.raises(
        ModelError, match=r"answered 404.*-J prompt=ask.py Or ask in other words: -J prompt=own"
    ):
        fetch_texts(profile(), profile().questions["pair"])


def test_a_dry_run_counts_with_a_text_of_the_same_length(monkeypatch: pytest.MonkeyPatch) -> None:
    host, asked = Host().install(monkeypatch), profile()
    text = asked.questions["pair"].texts["user"]
    with without_fetching():
        assert len(published_text(asked, text)) == len(TEXT)
    assert host.urls == []


def test_the_real_client_follows_no_redirect() -> None:
    with open_client() as client:
        assert client.follow_redirects is False
