from __future__ import annotations

import asyncio
import json
import pickle
import time
from collections.abc import Iterator
from email.utils import formatdate
from typing import Any

import pytest
import stamina

from stepscore.errors import (
    ModelError,
    OptionError,
    RefusedError,
    StatusError,
    TransientModelError,
    UnavailableError,
)
from stepscore.models.api.http import Server, _refusal, retry_after
from tests.models.api.servers import Running, serving

FAULTS = ["429", "429-date", "500", "hang", "cut", "garbled", "slow", "400"]
KEY = "sk-very-secret-0123456789"


@pytest.fixture(scope="module")
def faulty() -> Iterator[Running]:
    with serving(faults=FAULTS, key=KEY) as server:
        yield server


@pytest.fixture(scope="module")
def met(faulty: Running) -> dict[str, ModelError]:
    """The error that each fault becomes, in the order in which the server deals them out."""
    patch = pytest.MonkeyPatch()
    patch.setenv("TEST_API_KEY", KEY)
    found = {}
    for fault in FAULTS:
        server = Server(faulty.url, "TEST_API_KEY", timeout_s=0.5 if fault in ("hang", "slow") else 60)
        with pytest.raises(ModelError) as caught:
            asyncio.run(server.post("chat/completions", question(fault)))
        found[fault] = caught.value
    patch.undo()
    return found


def question(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("429", RefusedError),
        ("429-date", RefusedError),
        ("500", RefusedError),
        ("hang", TransientModelError),
        ("cut", TransientModelError),
        ("garbled", TransientModelError),
        ("slow", TransientModelError),
        ("400", StatusError),
    ],
)
def test_every_fault_has_its_error(met: dict[str, ModelError], fault: str, kind: type) -> None:
    assert type(met[fault]) is kind


def test_the_servers_words_and_waits_are_told(met: dict[str, ModelError]) -> None:
    assert "Slow down" in str(met["429"])
    assert "No images for" in str(met["400"])
    waits = [met[fault].retry_after for fault in ("429", "429-date", "500")]  # type: ignore[attr-defined]
    assert waits == [0.0, 0.0, None]


@pytest.mark.parametrize("fault", ["hang", "slow"])
def test_a_server_that_does_not_finish_is_left_when_the_time_is_up(
    met: dict[str, ModelError], fault: str
) -> None:
    # Left to itself it goes on for 30 s, "slow" a letter at a time, and what comes then is no time-out.
    assert "no complete response in 0.5 s" in str(met[fault])


def test_a_key_is_sent_and_shown_nowhere(met: dict[str, ModelError]) -> None:
    assert "[key]" in str(met["500"])  # the server said it; without the key the error would have been 401
    assert "[key]" in str(met["429"])
    for error in met.values():
        assert KEY not in str(error)
        assert KEY not in repr(error.__dict__)


def test_a_server_that_is_not_there_is_named() -> None:
    with pytest.raises(RefusedError, match=r"http://127.0.0.1:9/v1/chat/completions cannot be reached"):
        asyncio.run(Server("http://127.0.0.1:9/v1", "NO_KEY").post("chat/completions", {}))


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("localhost:8000/v1", "must be an http or https address"),
        ("ftp://host/v1", "must be an http or https address"),
        ("http://me:secret@host/v1", "Set TEST_API_KEY instead"),
        ("http://host/v1?api-key=secret", "Set TEST_API_KEY instead"),
    ],
)
def test_an_address_is_an_address_and_holds_no_key(url: str, said: str) -> None:
    with pytest.raises(OptionError, match=said) as caught:
        Server(url, "TEST_API_KEY")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("7", 7.0),
        ("0.25", 0.25),
        ("-3", 0.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("soon", None),
        ("", None),
        ("inf", None),
        ("nan", None),
    ],
)
def test_retry_after_is_read_as_seconds_or_date(said: str, seconds: float | None) -> None:
    assert retry_after({"retry-after": said}) == seconds


def test_a_date_to_come_is_the_time_until_then() -> None:
    in_100_s = formatdate(time.time() + 100, usegmt=True)
    assert retry_after({"retry-after": in_100_s}) == pytest.approx(100, abs=5)


def test_no_header_is_no_wait() -> None:
    assert retry_after({}) is None


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (429, "rate_limit_exceeded", RefusedError),
        (429, "insufficient_quota", StatusError),
        (503, None, UnavailableError),
        (500, None, RefusedError),
        (502, None, UnavailableError),
        (504, None, TransientModelError),
        (404, None, StatusError),
        (301, None, StatusError),
    ],
)
def test_a_status_says_whether_another_try_helps_and_what_may_be_billed(
    status: int, code: str | None, kind: type
) -> None:
    text = json.dumps({"error": {"message": "no", "code": code}})
    error = _refusal("http://host/v1/chat/completions", status, text, {"location": "https://host/v1"}, "")
    assert type(error) is kind
    assert f"answered {status}: no" in str(error)
    if isinstance(error, UnavailableError):
        assert error.sent
        assert error.lost == (status == 502), "a gateway may have lost an answer that was billed"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"detail": "Not Found"}', "Not Found"),
        ('{"message": "too long", "code": 400}', "too long"),
        ("<html>\n  Bad   gateway</html>", "<html> Bad gateway</html>"),
        ("", "(no message)"),
        ('["odd"]', "['odd']"),
    ],
)
def test_the_servers_words_are_found_in_many_forms(text: str, said: str) -> None:
    assert str(_refusal("url", 418, text, {}, "")) == f"url answered 418: {said}"


def test_one_loop_has_one_client_and_leaves_none_behind(faulty: Running) -> None:
    server = Server(faulty.url, "NO_KEY")

    async def ask_twice() -> None:
        first = await server._client()
        assert (await server.get("models"))["data"]
        assert await server._client() is first
        assert len(server._clients) == 1

    for _ in range(2):
        asyncio.run(ask_twice())
        assert len(server._clients) == 0


def test_what_a_server_says_of_itself_is_asked_on_a_connection_of_its_own(faulty: Running) -> None:
    server, sent = Server(faulty.url, "NO_KEY"), []

    async def note(request: Any) -> None:
        sent.append(request.headers["connection"])

    async def ask() -> None:
        (await server._client()).event_hooks = {"request": [note]}
        await server.get("models")

    asyncio.run(ask())
    assert sent == ["close"]


def test_it_is_pickled_without_its_connections() -> None:
    server = Server("http://localhost:8000/v1", "NO_KEY", 7.0)
    again = pickle.loads(pickle.dumps(server))
    assert again == server
    assert again.timeout_s == 7.0


def test_what_a_server_says_of_itself_is_asked_four_times(monkeypatch: pytest.MonkeyPatch) -> None:
    server, asked = Server("http://localhost:8000/v1", "NO_KEY"), []

    async def fail(self: Server, *args: object, **options: object) -> dict[str, Any]:
        asked.append(args)
        raise TransientModelError("busy")

    monkeypatch.setattr(Server, "_exchange", fail)
    with stamina.set_testing(True, attempts=100, cap=True), pytest.raises(TransientModelError):
        asyncio.run(server.get("models"))
    assert len(asked) == 4
