"""Gemini through its OpenAI-compatible endpoint, as that answers: lists of errors, prefixed names, no scores."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from stepscore.errors import CapabilityError, ModelError, OptionError
from stepscore.models import Generate, Prompt, Scores, Turn, get_model
from stepscore.models.api.openai import OpenAIModel

NO_LOGPROBS = {
    "code": 400,
    "message": "Logprobs is not enabled for models/gemini-x",
    "status": "INVALID_ARGUMENT",
}
PROMPT = Prompt((Turn("user", ("Is it open?",)),))


class Stub(ThreadingHTTPServer):
    """Answers chat completions as the endpoint does.

    Attributes:
        logprobs: Whether it gives log-probabilities.
        bodies: What it was asked.
    """

    def __init__(self, *, logprobs: bool) -> None:
        self.logprobs, self.bodies = logprobs, list[dict[str, Any]]()
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1beta/openai/"


class Handler(BaseHTTPRequestHandler):
    server: Stub

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        listed = [{"id": "models/gemini-x", "object": "model", "owned_by": "google"}]
        self.send(200, {"object": "list", "data": listed} if self.path.endswith("/models") else {})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.bodies.append(body)
        if self.headers["authorization"] != "Bearer gemini-key-0123456789":
            self.send(
                400, [{"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT"}}]
            )
            return
        if body.get("logprobs") and not self.server.logprobs:
            self.send(400, [{"error": NO_LOGPROBS}])
            return
        choice: dict[str, Any] = {"index": 0, "finish_reason": "stop", "message": {"content": "Yes"}}
        if body.get("logprobs"):
            top = [{"token": "Yes", "logprob": -0.1}, {"token": "No", "logprob": -2.4}]
            choice["logprobs"] = {"content": [{**top[0], "top_logprobs": top}]}
        self.send(200, {"choices": [choice], "usage": {"prompt_tokens": 7, "completion_tokens": 1}})

    def send(self, status: int, value: object) -> None:
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@contextmanager
def gemini(*, logprobs: bool = True) -> Iterator[Stub]:
    with Stub(logprobs=logprobs) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "gemini-key-0123456789")
    monkeypatch.delenv("GEMINI_BASE_URL", raising=False)


def model(server: Stub, **options: Any) -> OpenAIModel:
    return OpenAIModel("gemini/gemini-x", base_url=server.url, **options)


def test_its_address_is_known_and_its_key_is_its_own() -> None:
    server = OpenAIModel("gemini/gemini-2.5-flash").server
    assert server.base_url == "https://generativelanguage.googleapis.com/v1beta/openai"
    assert server.key_name == "GEMINI_API_KEY"
    assert get_model("openai-api/gemini/gemini-2.5-flash").name == "openai-api/gemini/gemini-2.5-flash"


def test_text_and_scores_come_where_it_gives_them() -> None:
    with gemini() as server:
        one = model(server, reasoning_effort="none")
        assert one.generate(Generate(PROMPT)).text == "Yes"
        scores = one.score(PROMPT, ("Yes", "No", "Maybe"))
    assert scores == Scores((-0.1, -2.4, -2.4), (False, False, True), 7, 1)
    assert [body["model"] for body in server.bodies] == ["gemini-x", "gemini-x"]
    assert {body["reasoning_effort"] for body in server.bodies} == {"none"}
    assert server.bodies[1]["top_logprobs"] == 20


def test_a_model_without_log_probabilities_stops_the_run_with_its_own_words() -> None:
    with gemini(logprobs=False) as server, pytest.raises(CapabilityError, match="Logprobs is not enabled"):
        model(server).score(PROMPT, ("Yes", "No"))


def test_the_message_in_a_list_of_errors_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "another-key-9876543210")
    with gemini() as server, pytest.raises(ModelError, match=r"answered 400: API key not valid\.$"):
        model(server).generate(Generate(PROMPT))


def test_an_effort_is_one_of_those_there_are_and_stands_in_the_protocol() -> None:
    with pytest.raises(OptionError, match="reasoning_effort"):
        OpenAIModel("gemini/x", reasoning_effort="much")  # type: ignore[arg-type]
    with gemini() as server:
        assert "reasoning_effort" not in model(server).describe()
        assert model(server, reasoning_effort="low").describe()["reasoning_effort"] == "low"
