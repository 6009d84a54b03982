"""Servers for tests: each a uvicorn process of its own on a free loopback port.

They speak the dialects of OpenAI, vLLM and SGLang as documented, and answer with a real model: one that runs
here under ``hf/``, or :class:`Digest`, whose probabilities change with every pixel and every letter. Told to,
they misbehave: the first attempt at a question meets a fault, the next one an answer.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from stepscore.episodes import Clip
from stepscore.models import Answer, Capabilities, Generate, Model, Prompt, Request, Response, Score, Scores
from stepscore.models.base import SyncMethods
from stepscore.models.media import DecodedMedia
from stepscore.models.prompts import Part, Turn
from tests.paths import ROOT

MODEL = "tiny"
PLACE = "<|vision_start|><|image_pad|><|vision_end|>"
WORDS = (
    " True",
    " False",
    "True",
    "False",
    " Tr",
    "yes",
    "no",
    "Yes",
    "No",
    *(f"word{n}" for n in range(91)),
)


@dataclass
class Digest(SyncMethods):
    """A model whose answers are a digest of what it is shown: another pixel or letter, another answer."""

    name: str = "digest"
    words: Sequence[str] = WORDS

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(scores="exact")

    def describe(self) -> Mapping[str, object]:
        return {"name": self.name}

    async def answer(self, request: Request) -> Response:
        assert isinstance(request, Generate | Score)
        seen = digest(request.prompt)
        if isinstance(request, Generate):
            return Answer(written(request.prompt, seen), tokens_in=100, tokens_out=7)
        logits = np.random.default_rng(int.from_bytes(seen[:8], "big")).normal(
            scale=3.0, size=len(self.words)
        )
        logprobs = logits - np.log(np.exp(logits).sum())
        found = [float(logprobs[self.words.index(word)]) for word in request.candidates]
        return Scores(tuple(found), (False,) * len(found), tokens_in=100)


def written(prompt: Prompt, seen: bytes) -> str:
    """An answer in the form the question asks for; what it says depends on all that was seen."""
    text = "".join(part for turn in prompt.turns for part in turn.parts if isinstance(part, str))
    verdicts = [("yes", "no", "unknown")[byte % 3] for byte in seen]
    percents = [byte % 101 for byte in seen]
    if "<score>" in text:
        return f"<score>{percents[0] - 50:+d}%</score>"
    if "<progress>" in text:
        return f"No further steps required. <progress>{percents[0]}%</progress>"
    if "Frame" in text and "percent" in text:
        numbers = sorted({int(found) for found in re.findall(r"Frame (\d+):", text)})
        pairs = [(number, percents[number % 32]) for number in numbers]
        if '{"frames"' in text:
            return json.dumps({"frames": [{"frame": n, "percent": percent} for n, percent in pairs]})
        return "\n".join(f"Frame {n}: Task Completion Percentages: {percent}%" for n, percent in pairs)
    if '{"subgoals"' in text:
        entries = [{"number": n, "answer": verdicts[n], "why": seen.hex()[:6]} for n in (1, 2)]
        return json.dumps({"subgoals": entries})
    if '"answer"' in text:
        return json.dumps({"answer": verdicts[0], "why": seen.hex()[:6]})
    return f"seen {seen.hex()[:12]}"


def digest(prompt: Prompt) -> bytes:
    """sha256 of a conversation: roles, joined texts, pixels."""
    found = hashlib.sha256(f"{prompt.template}\0{prompt.prefill}".encode())
    for turn in prompt.turns:
        found.update(f"\0{turn.role}\0".encode())
        for part in turn.parts:
            if isinstance(part, str):
                found.update(part.encode())
            else:
                assert isinstance(part, DecodedMedia)
                found.update(f"\1{part.clip.frames.shape}".encode() + part.clip.frames.tobytes())
    return found.digest()


# --- what the tests use


@dataclass(frozen=True)
class Running:
    """A server that runs, and what it saw so far."""

    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def stats(self) -> dict[str, Any]:
        """``asked`` and ``answered``, times by question; ``total``; ``at_once``, most at a time; ``last``."""
        import httpx2

        found: dict[str, Any] = httpx2.get(f"http://127.0.0.1:{self.port}/stats", timeout=10).json()
        return found


@contextmanager
def serving(**spec: Any) -> Iterator[Running]:
    """Start a server and stop it after use.

    Args:
        spec: ``model`` (``"digest"`` or ``"hf/PATH"``), ``faults`` (names, dealt out to the questions in
            turn), ``delay_s`` before each answer, ``ids`` (what happens to ``logprob_token_ids``: honoured,
            ignored, refused), ``openapi``, ``tokenize`` and ``usage`` (whether there are such), ``key`` (that
            it wants), ``tells`` (likeliest tokens at most).
    """
    command = [sys.executable, "-m", "tests.models.api.servers", json.dumps(spec)]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, "the server did not start"
        yield Running(int(line))
    finally:
        process.kill()
        process.communicate()


# --- the process


@dataclass
class Served:
    """A model, its vocabulary, what it was asked, and how it misbehaves."""

    model: Model
    words: Sequence[str]
    spec: Mapping[str, Any]
    grows: bool = False
    asked: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)
    faults: dict[str, str | None] = field(default_factory=dict)
    under_way: int = 0
    at_once: int = 0
    last: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def ids(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words) if word}

    def fault(self, question: str) -> str | None:
        """The fault of this attempt: each question's first attempt has one, dealt out in turn."""
        planned = self.spec.get("faults") or [None]
        if question not in self.faults:
            self.faults[question] = planned[len(self.faults) % len(planned)]
            return self.faults[question]
        always = self.faults[question]
        return always if always and always.startswith("always-") else None

    async def logprobs(self, prompt: Prompt) -> tuple[list[tuple[int, float]], int]:
        """Every word's id and log-probability, likeliest first, and the tokens read.

        Words that could grow together with the end of an unfinished answer are left out.
        """
        continued = prompt.prefill or (prompt.template != "chat" and str(prompt.turns[-1].parts[-1]))
        spaced = self.grows and bool(continued) and not str(continued)[-1:].isspace()
        ids = {word: number for word, number in self.ids.items() if word.startswith(" ") or not spaced}
        scores = await self.model.answer(Score(prompt, tuple(ids)))
        assert isinstance(scores, Scores)
        pairs = zip(ids.values(), scores.logprobs, strict=True)
        return sorted(pairs, key=lambda pair: -pair[1]), scores.tokens_in


def prompt_of(body: Mapping[str, Any]) -> Prompt:
    """The conversation of a chat request."""
    turns = [Turn(message["role"], tuple(_parts(message["content"]))) for message in body["messages"]]
    if body.get("continue_final_message"):
        return Prompt(tuple(turns[:-1]), prefill="".join(map(str, turns[-1].parts)))
    return Prompt(tuple(turns))


def _parts(content: str | list[dict[str, Any]]) -> Iterator[Part]:
    if isinstance(content, str):
        yield content
        return
    for item in content:
        yield item["text"] if item["type"] == "text" else shown(item["image_url"]["url"])


def shown(url: str) -> DecodedMedia:
    """The image of a data URL."""
    head, _, packed = url.partition(",")
    assert head in ("data:image/png;base64", "data:image/jpeg;base64"), head
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(packed))).convert("RGB"), np.uint8)
    return DecodedMedia(Clip(pixels[None], np.zeros(1), np.zeros(1, np.int64)))


async def chat(served: Served, body: Mapping[str, Any]) -> dict[str, Any]:
    """A chat completion, with log-probabilities where they are asked for."""
    prompt = prompt_of(body)
    limit = body.get("max_tokens") or body.get("max_completion_tokens") or 16
    if not body.get("logprobs") or limit > 1:  # a text, of whose tokens this server says nothing
        request = Generate(prompt, max_tokens=limit, json="response_format" in body)
        answer = await served.model.answer(request)
        assert isinstance(answer, Answer)
        return completion(served, answer.text, None, answer.tokens_in, answer.tokens_out)
    found, tokens_in = await served.logprobs(prompt)
    chosen = body.get("logprob_token_ids") if served.spec.get("ids", "honoured") == "honoured" else None
    most = min(body.get("top_logprobs", 0), served.spec.get("tells", 20))
    result = [pair for pair in found if pair[0] in chosen] if chosen else found[:most]
    by_id = body.get("return_tokens_as_token_ids")

    def entry(pair: tuple[int, float]) -> dict[str, Any]:
        return {"token": f"token_id:{pair[0]}" if by_id else served.words[pair[0]], "logprob": pair[1]}

    content = [{**entry(found[0]), "top_logprobs": [entry(pair) for pair in result]}]
    return completion(served, served.words[found[0][0]], {"content": content}, tokens_in, 1)


def completion(
    served: Served, text: str, logprobs: dict[str, Any] | None, read: int, written: int
) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": logprobs}
    usage = {"prompt_tokens": read, "completion_tokens": written}
    reply = {"object": "chat.completion", "model": MODEL, "choices": [choice]}
    return reply | ({"usage": usage} if served.spec.get("usage", True) else {})


async def generate(served: Served, body: Mapping[str, Any]) -> dict[str, Any]:
    """SGLang's native generate: the prompt as it is, images at their places."""
    texts, images = body["text"].split(PLACE), [shown(url) for url in body.get("image_data", [])]
    assert len(texts) == len(images) + 1
    parts: list[Part] = [texts[0]]
    for image, text in zip(images, texts[1:], strict=True):
        parts += [image, text]
    found, tokens_in = await served.logprobs(Prompt((Turn("user", tuple(parts)),), template="none"))
    result = [[value, number, None] for number, value in found if number in body["token_ids_logprob"]]
    meta = {"prompt_tokens": tokens_in, "completion_tokens": 1, "output_token_ids_logprobs": [result]}
    return {"text": served.words[found[0][0]], "meta_info": meta}


def make_app(served: Served) -> Any:
    """The server's routes."""
    from starlette.applications import Starlette
    from starlette.background import BackgroundTask
    from starlette.requests import Request as HttpRequest
    from starlette.responses import JSONResponse
    from starlette.responses import Response as HttpResponse
    from starlette.routing import Route

    def refuse(status: int, message: str) -> HttpResponse:
        return JSONResponse({"error": {"message": message, "code": None}}, status)

    async def ask(request: HttpRequest, answer: Any) -> HttpResponse:
        body = json.loads(await request.body())
        question = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        served.asked[question] += 1
        served.last = {"body": body, "path": request.url.path}
        key, sent = served.spec.get("key"), request.headers.get("authorization", "")
        if key and sent != f"Bearer {key}":
            return refuse(401, f"Incorrect key in {sent!r}.")
        fault = served.fault(question)
        if fault is not None:
            return await misbehave(fault.removeprefix("always-"), sent, await answer(served, body))
        if "logprob_token_ids" in body and served.spec.get("ids") == "refused":
            return refuse(400, "Unknown field logprob_token_ids.")
        served.under_way += 1
        served.at_once = max(served.at_once, served.under_way)
        try:
            await asyncio.sleep(served.spec.get("delay_s", 0.0))
            reply = await answer(served, body)
        finally:
            served.under_way -= 1
        return JSONResponse(reply, background=BackgroundTask(served.answered.update, [question]))

    async def chat_route(request: HttpRequest) -> HttpResponse:
        return await ask(request, chat)

    async def generate_route(request: HttpRequest) -> HttpResponse:
        return await ask(request, generate)

    async def tokenize(request: HttpRequest) -> HttpResponse:
        text = json.loads(await request.body())["prompt"]
        if not served.spec.get("tokenize", True):
            return refuse(404, "Not Found")
        ids = [served.ids[text]] if text in served.ids else [len(served.words)] * len(text)
        return JSONResponse({"count": len(ids), "max_model_len": 4096, "tokens": ids})

    async def models(request: HttpRequest) -> HttpResponse:
        card = {"id": MODEL, "object": "model", "owned_by": "tests", "root": "tests/tiny", "revision": "r1"}
        return JSONResponse({"object": "list", "data": [card]})

    async def openapi(request: HttpRequest) -> HttpResponse:
        if not served.spec.get("openapi", True):
            return refuse(404, "Not Found")
        fields: dict[str, Any] = {
            "messages": {},
            **({"logprob_token_ids": {}} if "ids" not in served.spec else {}),
        }
        return JSONResponse({"components": {"schemas": {"ChatCompletionRequest": {"properties": fields}}}})

    async def stats(request: HttpRequest) -> HttpResponse:
        counts = {"asked": dict(served.asked), "answered": dict(served.answered), "last": served.last}
        return JSONResponse(counts | {"total": served.asked.total(), "at_once": served.at_once})

    return Starlette(
        routes=[
            Route("/v1/chat/completions", chat_route, methods=["POST"]),
            Route("/generate", generate_route, methods=["POST"]),
            Route("/tokenize", tokenize, methods=["POST"]),
            Route("/v1/models", models),
            Route("/openapi.json", openapi),
            Route("/stats", stats),
        ]
    )


async def misbehave(fault: str, authorization: str, reply: dict[str, Any]) -> Any:
    """What goes wrong on the way to a good answer."""
    from starlette.responses import JSONResponse, StreamingResponse
    from starlette.responses import Response as HttpResponse

    if fault in ("429", "429-date"):
        wait = "0" if fault == "429" else formatdate(usegmt=True)
        error = {"error": {"message": f"Slow down, {authorization}.", "code": "rate_limit_exceeded"}}
        return JSONResponse(error, 429, {"retry-after": wait})
    if fault == "500":
        return HttpResponse(f"internal error for {authorization}", 500)
    if fault == "400":
        return JSONResponse({"error": {"message": f"No images for {authorization}."}}, 400)
    if fault == "hang":
        await asyncio.sleep(30)
    if fault == "cut":
        return _Cut()
    if fault == "garbled":
        return HttpResponse('{"choices": [{"mess', media_type="application/json")
    if fault == "no-choices":
        return JSONResponse({"object": "chat.completion", "choices": []})
    if fault == "no-logprobs":
        for choice in reply.get("choices", []):
            choice["logprobs"] = None
        reply.get("meta_info", {}).pop("output_token_ids_logprobs", None)
        return JSONResponse(reply)
    if fault == "slow":
        return StreamingResponse(_slowly(json.dumps(reply)), media_type="application/json")
    raise AssertionError(f"no fault is called {fault!r}")


class _Cut:
    """Promises a thousand bytes, sends a few, and hangs up."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-length", b"1000"), (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b'{"choices": ', "more_body": True})
        raise ConnectionAbortedError("cut on purpose")


async def _slowly(text: str) -> AsyncIterator[bytes]:
    for letter in text[:600]:
        yield letter.encode()
        await asyncio.sleep(0.05)


def _load(spec: Mapping[str, Any]) -> Served:
    name = spec.get("model", "digest")
    if name == "digest":
        return Served(Digest(), WORDS, spec)
    import torch
    from tokenizers import Tokenizer

    from stepscore.models import get_model

    torch.set_num_threads(2)
    model = get_model(name)
    tokenizer = Tokenizer.from_file(str(Path(name.removeprefix("hf/")) / "tokenizer.json"))
    numbers = range(tokenizer.get_vocab_size())
    texts = [tokenizer.decode([number], skip_special_tokens=False) for number in numbers]
    words = [text if re.fullmatch(" ?[A-Za-z]+", text) else "" for text in texts]
    whole = [word if tokenizer.encode(word).ids == [number] else "" for number, word in enumerate(words)]
    return Served(model, whole, spec, grows=True)


def main() -> None:
    """Serve until standard input ends, which it does when whoever started this is gone."""
    import logging

    import uvicorn

    logging.getLogger("uvicorn.error").disabled = True  # cut connections are on purpose
    app = make_app(_load(json.loads(sys.argv[1])))
    listening = socket.create_server(("127.0.0.1", 0), backlog=128)
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    print(listening.getsockname()[1], flush=True)
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off")
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
