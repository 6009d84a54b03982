"""A server that reads a chat request as vLLM does: a chat template, videos as tokens, names for what it keeps.

It runs in a thread of the test. Its scores are a digest of the tokens and the pixels that it read, so that another
token or pixel is another score; what it should have read is written down by :func:`naive_ids` in the obvious way.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import math
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import av
import numpy as np

from stepscore.types import Frames

OWN = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}{% else %}<|vision_start|>"
    "{{ '<|image_pad|>' if p.type == 'image' else '<|video_pad|>' }}<|vision_end|>{% endif %}"
    "{% endfor %}{% endif %}{% if not loop.last or not continue_final_message %}<|im_end|>\n{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""A model's own template."""
BLOCK = 8
"""Tokens in a block of its prefix cache."""
BARE, WRAPPED = "<|video_pad|>", "<|vision_start|><|video_pad|><|vision_end|>"
# A newline and a following "<" are one token: the head and the first timestamp share it.
TOKEN = re.compile(r"<\|[a-z_]+\|>|\n<| ?[A-Za-z]+|\s|.", re.DOTALL)


@dataclass
class TemplateServer:
    """What the server is like, and what it was asked.

    Attributes:
        template: Its chat template.
        trusts: Whether a request may bring a template.
        place: The text that stands for a video, by its version of transformers.
        keeps: Whether it keeps videos by name.
        returns_ids: Whether replies hold the ids of what was read.
        late: Seconds added to every timestamp.
        poisoned: Requests that fail with 500 before the next is answered.
        answered: Number of answers to chat requests.
        on_answer: Called with that number, before an answer is sent.
        bodies: The chat requests, in order.
        tokenized: Number of conversations that were only tokenized.
    """

    template: str = OWN
    trusts: bool = False
    place: str = BARE
    keeps: bool = True
    returns_ids: bool = True
    late: float = 0.0
    poisoned: int = 0
    answered: int = 0
    on_answer: Callable[[int], None] = lambda number: None
    bodies: list[dict[str, Any]] = field(default_factory=list)
    tokenized: int = 0
    kept: dict[str, bytes] = field(default_factory=dict)
    prompts: list[list[int]] = field(default_factory=list)
    looked_up: int = 0
    found: int = 0
    url: str = ""

    def reply(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Answer a request."""
        if path == "/v1/models":
            return 200, {"data": [{"id": "tiny", "revision": None}]}
        if path == "/tokenize" and "prompt" in body:
            return 200, {"tokens": token_ids(body["prompt"])}
        if path not in ("/tokenize", "/v1/chat/completions"):
            return 404, {"error": {"message": "Not Found"}}
        if "chat_template" in body and not self.trusts:
            return 400, refusal(
                "Chat template is passed with request, but --trust-request-chat-template is not set."
            )
        scored = path == "/v1/chat/completions"
        if scored:
            self.bodies.append(body)
            if self.poisoned:
                self.poisoned -= 1
                return 500, refusal("Expected a cached item for mm_hash")
        videos = self.videos(body)
        if isinstance(videos, str):
            return 400, refusal(videos)
        ids = self.read(body, videos)
        if scored:
            self.look_up(ids)
        if not scored:
            self.tokenized += 1
            return 200, {"tokens": ids, "count": len(ids)}
        self.answered += 1
        self.on_answer(self.answered)
        values = scores(ids, [frames for frames, _ in videos])
        listed = [
            {"token": f"token_id:{number}", "logprob": value}
            for number, value in zip(body["logprob_token_ids"], values, strict=True)
        ]
        choice = {
            "message": {"content": "x"},
            "logprobs": {"content": [{**listed[0], "top_logprobs": listed}]},
        }
        found = {
            "choices": [choice],
            "usage": {"prompt_tokens": len(ids), "completion_tokens": 1},
        }
        return 200, found | ({"prompt_token_ids": ids} if self.returns_ids else {})

    def look_up(self, ids: list[int]) -> None:
        """Count the whole blocks with which this prompt and an earlier one begin."""
        alike = [
            next(
                (n for n, (a, b) in enumerate(zip(ids, old, strict=False)) if a != b), min(len(ids), len(old))
            )
            for old in self.prompts
        ]
        self.looked_up += len(ids)
        self.found += max(alike, default=0) // BLOCK * BLOCK
        self.prompts.append(ids)

    def metrics(self) -> str:
        """Return the counters of the prefix cache, as vLLM prints them."""
        lines = ["# TYPE vllm:prefix_cache_queries_total counter"]
        for name, value in (("queries", self.looked_up), ("hits", self.found)):
            lines.append(f'vllm:prefix_cache_{name}_total{{engine="0",model_name="tiny"}} {float(value)}')
        return "\n".join(lines) + "\n"

    def videos(self, body: dict[str, Any]) -> list[tuple[Frames, float]] | str:
        """Decode the videos of a request, those known by name included; a message where one is not known."""
        found: list[tuple[Frames, float]] = []
        for message in body["messages"]:
            for part in message["content"] if isinstance(message["content"], list) else []:
                if part["type"] != "video_url":
                    continue
                name = part.get("uuid")
                if part["video_url"] is None:
                    if name not in self.kept:
                        return f"Cache miss for video at index {len(found)} but data is not provided."
                    packed = self.kept[name]
                else:
                    packed = base64.b64decode(part["video_url"]["url"].partition(",")[2])
                    if name is not None and self.keeps:
                        self.kept[name] = packed
                found.append(decoded(packed))
        return found

    def read(self, body: dict[str, Any], videos: Sequence[tuple[Frames, float]]) -> list[int]:
        """Return the ids of a conversation by the template, each video expanded."""
        messages = [
            {"role": m["role"], "content": [_placed(p) for p in m["content"]]}
            if isinstance(m["content"], list)
            else m
            for m in body["messages"]
        ]
        options = body.get("chat_template_kwargs") or {}
        text = rendered(
            body.get("chat_template") or self.template,
            messages,
            add_generation_prompt=body.get("add_generation_prompt", True),
            continue_final_message=body.get("continue_final_message", False),
            **options,
        )
        for frames, seconds in videos:
            pads = BARE.replace("video", "block") * (frames.shape[1] // 32 * (frames.shape[2] // 32))
            block = f"<{seconds + self.late:.1f} seconds><|vision_start|>{pads}<|vision_end|>"
            text = text.replace(self.place, block, 1)
        return token_ids(text.replace("<|block_pad|>", BARE))


def _placed(part: dict[str, Any]) -> dict[str, Any]:
    return part if part["type"] == "text" else {"type": part["type"].removesuffix("_url")}


def rendered(template: str, messages: Sequence[Any], **options: Any) -> str:
    """Return messages by a chat template, compiled as transformers does."""
    from jinja2.sandbox import ImmutableSandboxedEnvironment  # comes with an extra

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(template).render(messages=messages, **options)


def token_ids(text: str) -> list[int]:
    """Tokens of a text: special ones, words with their space, single characters."""
    return [int.from_bytes(hashlib.sha256(t.encode()).digest()[:4], "big") for t in TOKEN.findall(text)]


def decoded(packed: bytes) -> tuple[Frames, float]:
    """Return the two frames of a video, and the middle of their times by its frame rate."""
    with av.open(io.BytesIO(packed), "r") as container:
        stream = container.streams.video[0]
        rate = stream.average_rate
        assert rate is not None
        frames = np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(stream)])
    assert len(frames) == 2
    return frames.astype(np.uint8), float(1 / (2 * rate))


def scores(ids: Sequence[int], videos: Sequence[Frames]) -> tuple[float, float]:
    """Return two log-probabilities that change with every token and pixel."""
    seen = hashlib.sha256(json.dumps(list(ids)).encode())
    for frames in videos:
        seen.update(f"{frames.shape}".encode() + np.ascontiguousarray(frames).tobytes())
    share = (int.from_bytes(seen.digest()[:4], "big") + 1) / (2**32 + 2)
    return math.log(share), math.log(1 - share)


def naive_ids(head: str, times: Sequence[str], pads: int, tail: str) -> list[int]:
    """Return what a prompt should be read as: the text with every block written out."""
    blocks = (f"<{time} seconds><|vision_start|>{BARE * pads}<|vision_end|>" for time in times)
    return token_ids(head + "".join(blocks) + tail)


def refusal(message: str) -> dict[str, Any]:
    return {"error": {"message": message, "code": 400}}


@contextmanager
def template_server(**spec: Any) -> Iterator[TemplateServer]:
    """Serve from a thread, on a free port of this machine."""
    state = TemplateServer(**spec)
    listening = Listening(state)
    try:
        yield state
    finally:
        listening.stop()


class Listening:
    """A server in a thread of its own: while it is stopped nobody listens, and it starts again on the same port."""

    def __init__(self, state: TemplateServer) -> None:
        self._state, self._port = state, 0
        self.start()

    def start(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), _handler(self._state))
        self._port = self._server.server_address[1]
        self._state.url = f"http://127.0.0.1:{self._port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(state: TemplateServer) -> type[BaseHTTPRequestHandler]:
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer({})

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["content-length"]))))

        def _answer(self, body: dict[str, Any]) -> None:
            with lock:
                if self.path == "/metrics":
                    status, packed = 200, state.metrics().encode()
                else:
                    status, found = state.reply(self.path, body)
                    packed = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(packed)))
            self.end_headers()
            self.wfile.write(packed)

        def log_message(self, *words: Any) -> None:
            """Say nothing."""

    return Handler
