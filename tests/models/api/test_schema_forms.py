"""A schema in each server's own form: what arrives, a server that refuses it, and one that ignores it."""

from __future__ import annotations

import asyncio
import json
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import stepscore
from stepscore.errors import RefusedError, StatusError
from stepscore.models import Answer, Generate, Model, Prompt, Turn, get_model
from stepscore.models.schemas import JsonObject, Number, Schema, Word, Written, object_schema
from stepscore.runs import CallOptions
from tests.fakes import episode

HOP = Written(("<score>", Number(-1, 1, plus=True, unit="%"), "</score>"))
OBJECT = JsonObject((("answer", Word(("yes", "no"))), ("percent", Number(0, 9))))
WORD = Word(("yes", "no"))
REGEX = "<score>(?:((?:-1|0|\\+1))%|unknown)</score>"


class Recorder:
    """A server of all three dialects that keeps the bodies it gets, and replies as a function of each says."""

    def __init__(self, reply: Callable[[dict[str, Any]], tuple[int, str]]) -> None:
        self.reply, self.bodies, self.url = reply, list[dict[str, Any]](), ""


@contextmanager
def recording(reply: Callable[[dict[str, Any]], tuple[int, str]]) -> Iterator[Recorder]:
    recorder = Recorder(reply)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_json(200, {"data": [{"id": "tiny"}]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if self.path.endswith("/tokenize"):
                return self.send_json(404, {"error": {"message": "Not Found"}})
            recorder.bodies.append(body)
            status, text = recorder.reply(body)
            message = {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}
            return self.send_json(status, message if status == 200 else {"error": {"message": text}})

        def send_json(self, status: int, value: object) -> None:
            packed = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(packed)))
            self.end_headers()
            self.wfile.write(packed)

        def log_message(self, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        recorder.url = f"http://127.0.0.1:{http.server_port}/v1"
        yield recorder
        http.shutdown()


def model(backend: str, url: str, **options: Any) -> Model:
    return get_model(f"{backend}/tiny", base_url=url, **options)


def asked(schema: Schema | None, *, as_json: bool = False) -> Generate:
    return Generate(Prompt((Turn("user", ("How far?",)),)), max_tokens=9, json=as_json, schema=schema)


def json_format(schema: object) -> dict[str, object]:
    return {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "strict": True, "schema": schema},
        }
    }


PLAIN = {"model", "messages", "max_tokens", "temperature"}
FORMS: dict[str, dict[str, dict[str, object]]] = {
    "vllm": {
        "regex": {"structured_outputs": {"regex": REGEX}},
        "object": {"structured_outputs": {"json": OBJECT.json_schema()}},
        "word": {"structured_outputs": {"choice": ["yes", "no", "unknown"]}},
    },
    "sglang": {
        "regex": {"regex": REGEX},
        "object": json_format(OBJECT.json_schema()),
        "word": {"regex": "(?:yes|no|unknown)"},
    },
    "openai-api": {
        "regex": json_format(object_schema(HOP)),
        "object": json_format(OBJECT.json_schema()),
        "word": json_format(
            {
                "type": "object",
                "properties": {"answer": {"type": "string", "enum": ["yes", "no", "unknown"]}},
                "required": ["answer"],
                "additionalProperties": False,
            }
        ),
    },
}
SCHEMAS: dict[str, Schema] = {"regex": HOP, "object": OBJECT, "word": WORD}


@pytest.mark.parametrize("kind", SCHEMAS)
@pytest.mark.parametrize("backend", FORMS)
def test_a_schema_arrives_in_the_servers_own_form(backend: str, kind: str) -> None:
    with recording(lambda body: (200, "x")) as server:
        model(backend, server.url).generate(asked(SCHEMAS[kind], as_json=True))
        (body,) = server.bodies
        assert {name: body[name] for name in body.keys() - PLAIN} == FORMS[backend][kind]


@pytest.mark.parametrize("backend", FORMS)
def test_without_a_schema_a_request_is_as_it_was(backend: str) -> None:
    with recording(lambda body: (200, "x")) as server:
        made = model(backend, server.url)
        made.generate(asked(None))
        made.generate(asked(None, as_json=True))
        plain = model(backend, server.url, json_mode=False)
        assert not plain.capabilities.structured
        plain.generate(asked(HOP))
        assert [body.keys() - PLAIN for body in server.bodies] == [set(), {"response_format"}, set()]


def test_openais_object_is_taken_off_the_answer() -> None:
    with recording(lambda body: (200, '{"answer": "<score>+1%</score>"}')) as server:
        assert model("openai-api", server.url).generate(asked(HOP)).text == "<score>+1%</score>"
        assert model("vllm", server.url).generate(asked(HOP)).text == '{"answer": "<score>+1%</score>"}'


@pytest.mark.parametrize("backend", FORMS)
def test_a_server_that_refuses_a_schema_is_asked_without_from_then_on(backend: str) -> None:
    def reply(body: dict[str, Any]) -> tuple[int, str]:
        if body.keys() & {"structured_outputs", "regex"} or "json_schema" in body.get("response_format", {}):
            return 400, "Invalid parameter: response_format of type json_schema is not supported."
        return 200, "<score>+1%</score>"

    with recording(reply) as server:
        made = model(backend, server.url)
        # The attempt is over, so that a run counts it; the next one is another.
        with (
            pytest.warns(UserWarning, match="refuses to hold answers to a schema"),
            pytest.raises(RefusedError),
        ):
            made.generate(asked(HOP))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            texts = [made.generate(asked(schema)).text for schema in (HOP, OBJECT)]
        assert texts == ["<score>+1%</score>"] * 2
        assert [len(body.keys() - PLAIN) for body in server.bodies] == [1, 0, 0]


@pytest.mark.parametrize("backend", FORMS)
def test_another_refusal_is_not_taken_for_one_of_the_schema(backend: str) -> None:
    with recording(lambda body: (400, "This model's maximum context length is 9 tokens.")) as server:
        made = model(backend, server.url)
        for _ in range(2):
            with pytest.raises(StatusError, match="maximum context length"):
                made.generate(asked(HOP))
        assert all(body.keys() - PLAIN for body in server.bodies)


def test_a_run_goes_on_where_the_server_refuses_and_where_it_ignores(tmp_path: Path) -> None:
    def refusing(body: dict[str, Any]) -> tuple[int, str]:
        if "structured_outputs" in body:
            return 400, "Unknown field structured_outputs."
        return 200, "<score>+50%</score>"

    replies = {
        "refused": refusing,
        "ignored": lambda body: (200, "It is closer: <score>+50%</score>."),
        "nothing of the kind": lambda body: (200, "I cannot say."),
    }
    progress = {}
    for name, reply in replies.items():
        with recording(reply) as server, warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            judge = stepscore.get_judge("hop", model=model("vllm", server.url), points=2)
            run = stepscore.score(
                [episode()], judge, out=tmp_path / name, call_options=CallOptions(cache=False)
            )
            assert any("refuses to hold" in str(one.message) for one in said) == (name == "refused")
        assert run.judgements().column("error").to_pylist() == [None]
        progress[name] = run.curves().column("progress").to_pylist()
    assert progress == {
        "refused": [0.5, 0.75],
        "ignored": [0.5, 0.75],
        "nothing of the kind": [None, None],
    }


def test_log_probabilities_of_an_answer_come_back_with_a_schema() -> None:
    def reply(body: dict[str, Any]) -> tuple[int, str]:
        assert (body["logprobs"], body["top_logprobs"]) == (True, 3)
        return 200, "yes"

    with recording(reply) as server:
        request = Generate(asked(WORD).prompt, max_tokens=9, top_logprobs=3, schema=WORD)
        answer = asyncio.run(model("vllm", server.url).answer(request))
        assert isinstance(answer, Answer)
        assert answer.schema_mass is None, "no server states it"
