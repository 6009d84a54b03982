"""Servers that lie: about themselves, or in the answers to questions about one episode."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

from tests.hostile import mutations as m
from tests.hostile.case import Case
from tests.hostile.good_inputs import SERVED, copy_good, judge_command
from tests.hostile.lying_server import sound

VICTIM = "close the box"
"""The instruction of the episode that the server lies about."""

STATUSES = (
    100,
    199,
    204,
    206,
    301,
    302,
    307,
    400,
    401,
    403,
    404,
    408,
    409,
    413,
    418,
    425,
    429,
    451,
    500,
    501,
    502,
    503,
    504,
    599,
    600,
    999,
)
HEADERS = (
    ("retry-after", "999999999"),
    ("retry-after", "-5"),
    ("retry-after", "nan"),
    ("retry-after", "Fri, 31 Dec 9999 23:59:59 GMT"),
    ("location", "http://127.0.0.1:9/?key={key}"),
    ("location", "file:///etc/passwd"),
    ("location", "\x1b[31m{key}"),
    ("set-cookie", "session={key}; Domain=127.0.0.1"),
    ("x-key", "{key}"),
    ("content-length", "5"),
    ("content-length", "-1"),
    ("content-length", "9" * 40),
    ("transfer-encoding", "chunked"),
    ("content-encoding", "zstd"),
    ("content-type", "text/html; charset={key}"),
    ("x", "y" * 200_000),
    ("bad header {key}", "z"),
)
MESSAGES = (
    '{"error": {"message": "invalid key {key}", "code": "insufficient_quota"}}',
    '{"error": "{key}"}',
    '{"error": {"message": ["{key}"], "code": {}}}',
    '{"detail": "{key}"}',
    "<html>{key}</html>",
    "{key}",
    "",
    "[" * 100_000,
)
RAW_RESPONSES = (
    "HTTP/9.9 200 OK\r\n\r\n{}",
    "HTTP/1.1 abc\r\n\r\n",
    "HTTP/1.1 200 {key}\r\nx: {key}\r\n{key}",
    "GARBAGE {key}\r\n\r\n",
    "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nabcde",
    "HTTP/1.1 200 OK\r\nx\0y: {key}\r\n\r\n{}",
    "\x16\x03\x01\x02\x00\x01",
    "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n",
    "HTTP/1.1 100 Continue\r\n\r\n" * 50,
)


def lie(rng: Random, where: str, about: str) -> tuple[dict[str, Any], str]:
    """Return what a server is to lie, and the lie in words."""
    question = {
        "messages": [],
        "logprobs": rng.random() < 0.6,
        "return_tokens_as_token_ids": rng.random() < 0.3,
    }
    good = json.dumps(sound("models" if where == "openapi" else where, question))
    made: dict[str, Any] = {
        "where": where,
        "about": about,
        "how": "plain",
        "status": 200,
        "headers": [],
        "body": good,
    }
    how = rng.random()
    if how < 0.45:
        value, what = _odd_answer(rng, where, question)
        made["body"] = value
    elif how < 0.6:
        made["status"], made["body"] = rng.choice(STATUSES), rng.choice(MESSAGES)
        made["headers"] = rng.sample(HEADERS, rng.choice((0, 1)))
        what = f"status {made['status']} {made['headers']!s:.60}: {made['body'][:40]}"
    elif how < 0.68:
        made["headers"] = [rng.choice(HEADERS)]
        what = f"header {made['headers'][0][0]}: {made['headers'][0][1][:40]}"
    elif how < 0.75:
        made["how"], made["body"] = "raw", rng.choice(RAW_RESPONSES)
        what = f"raw {made['body'][:40]!r}"
    else:
        made["how"] = rng.choice(
            (
                "endless",
                "long",
                "cut",
                "drip",
                "silent",
                "closed",
                "chunks",
                "gzip",
                "deflate",
                "br",
                "gzip-bomb",
                "deflate-bomb",
            )
        )
        made["body"] = made["body"][: rng.randrange(len(good))] if made["how"] in ("cut", "endless") else good
        what = made["how"]
    return made, f"{where}: {what}"


def _odd_answer(rng: Random, where: str, question: dict[str, Any]) -> tuple[str, str]:
    value = sound("models" if where == "openapi" else where, question)
    how = rng.random()
    if where == "chat" and how < 0.35:
        usage = {"prompt_tokens": m.odd_value(rng), "completion_tokens": m.odd_value(rng), "total_tokens": 1}
        value["usage"] = rng.choice((usage, m.odd_value(rng)))
        return m.dump_json(value), f"usage {value['usage']!s:.60}"
    if where == "chat" and how < 0.5 and value["choices"][0]["logprobs"]:
        listed = value["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
        odd: Any = rng.choice(
            (
                3.5,
                0.0001,
                -1e308,
                -0.0,
                "-1",
                None,
                True,
                [],
                "\x01nan\x01",
                "\x01infinity\x01",
                "\x01overflow\x01",
                "\x01digits\x01",
            )
        )
        for entry in listed[: rng.choice((1, len(listed)))]:
            entry["logprob"] = odd
        return m.dump_json(value), f"log-probability {odd!r}"
    if where == "chat" and how < 0.65:
        echoed = rng.choice(
            (
                "Bearer {key}",
                "{key}",
                '{"answer": "yes", "why": "{key}"}',
                "<score>{key}</score>",
                "<progress>{key}%</progress>",
            )
        )
        value["choices"][0]["message"]["content"] = echoed
        value["choices"][0]["finish_reason"] = value["id"] = "{key}"
        return json.dumps(value), f"echoes the key in {echoed!r}"
    if how < 0.75:
        text = rng.choice(
            (
                *m.RAW.values(),
                "",
                "null",
                "[]",
                "3",
                '"{key}"',
                "not JSON",
                "{}" * 5,
                '{"error": "{key}"}',
                "\ufeff{}",
                '{"a":1,"a":2}',
                "[" + "[]," * 2_000_000 + "1]",
            )
        )
        return text, f"body {text[:40]!r}"
    odd, what = m.odd_json(value, rng)
    return m.dump_json(odd), what


def make_server(rng: Random, here: Path, good: Path) -> Case:
    """Make a server that lies about itself, or in all answers; the run may end, but within its budget."""
    where = rng.choice(("models", "tokenize", "openapi", "chat", "chat"))
    lies, what = lie(rng, where, "")
    judge, backend = rng.choice(tuple(SERVED)), rng.choice(("openai-api", "vllm", "vllm"))
    line = [
        *judge_command(good / "jsonl" / "list.jsonl", f"{judge}@{backend}", here / "run"),
        "--max-calls",
        "9",
        "-E",
        "patience=20",
    ]
    _hasten(line, lies)
    commands = [
        line,
        rng.choice(
            (
                ["metrics", str(here / "run")],
                line,
                ["report", str(here / "run"), "-o", str(here / "page"), "--no-videos"],
            )
        ),
    ]
    return Case(f"{judge}@{backend} {what}", commands, lies=lies, max_calls=9)


def make_episode(rng: Random, here: Path, good: Path) -> Case:
    """Make a server that lies in the answers about one episode alone."""
    copy_good(good, "videos", here)
    judge = f"{rng.choice(tuple(SERVED))}@{rng.choice(('openai-api', 'vllm'))}"
    lies, what = lie(rng, "chat", VICTIM)
    line = [*judge_command(here / "source", judge, here / "run"), "-E", "patience=20"]
    _hasten(line, lies)
    commands = [line, ["cache", "export", str(here / "cache.jsonl")]]
    commands += [["metrics", str(here / "run")]] if rng.random() < 0.5 else []
    return Case(f"{judge} {what}", commands, f"videos.{judge}", lies=lies)


def _hasten(line: list[str], lies: dict[str, Any]) -> None:
    """Wait a short time alone for what never comes."""
    if lies["how"] in ("drip", "silent") or any(name == "content-length" for name, _ in lies["headers"]):
        line[line.index("timeout_s=20")] = "timeout_s=0.5"
