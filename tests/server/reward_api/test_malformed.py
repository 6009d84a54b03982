"""Requests that are wrong in every way get a clear 4xx, and cost no memory."""

from __future__ import annotations

import io
import json
import socket
import struct
import zlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlparse

import httpx2
import numpy as np
import pytest

from stepscore.server import Limits
from tests.server.reward_api.serving import TASK, multipart, npy, post, progress_sample, serving, video

LIMITS = Limits(body_mb=2, frames=16, pixels=4096, samples=4, read_s=2.0)
Case = tuple[str, str, dict[str, Any]]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(limits=LIMITS, token="a-token-of-the-tests") as address:
        yield address


HEADERS = {"Authorization": "Bearer a-token-of-the-tests"}


def each(*values: Any) -> tuple[Any, ...]:
    """These values, of any types."""
    return values


def header(text: bytes, version: bytes = b"\x01\x00", length: int | None = None) -> bytes:
    """A .npy file of this header and no data."""
    size = struct.pack("<H" if version[0] == 1 else "<I", len(text) if length is None else length)
    return b"\x93NUMPY" + version + size + text


def stated(descr: str = "|u1", shape: str = "(1, 8, 8, 3)", fortran: str = "False") -> bytes:
    return f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n".encode()


def bad_arrays() -> Iterator[tuple[str, bytes]]:
    data = bytes(8 * 8 * 3)
    for dtype in ("|i1", "<u2", "<f4", "<f8", "|b1", "|O", "<c8", "|S3", "<U3", "|V3", "<M8[s]"):
        yield f"dtype {dtype}", header(stated(dtype)) + data
    for kind in each(np.float32, np.float64, np.int64, np.uint16, np.bool_, np.complex64):
        yield f"array {kind.__name__}", npy(np.zeros((1, 8, 8, 3), kind))
    yield "an object", npy(np.array([{"a": 1}], dtype=object))
    for shape in (
        "(1, 8, 8)", "(8, 8, 3)", "(1, 8, 8, 4)", "(1, 8, 8, 1)", "(0, 8, 8, 3)", "(1, 0, 8, 3)", "(1, 8, 0, 3)",
        "()",
        "(3,)", "(1, 1, 8, 8, 3)", "(-1, 8, 8, 3)", "(1, -8, -8, 3)", "(2, 8, 8, 3)", "(1, 9, 8, 3)",
        "(1.0, 8, 8, 3)",
        "(True, 8, 8, 3)", "'abcd'", "(10**12, 8, 8, 3)", "(1000000000000, 8, 8, 3)", "(1, 1000000, 1000000, 3)",
        "(17, 8, 8, 3)", "(1, 65, 64, 3)", "(4294967296, 4294967296, 4294967296, 3)",
    ):  # fmt: skip
        yield f"shape {shape}", header(stated(shape=shape)) + data
    yield "Fortran order", header(stated(fortran="True")) + data
    for version in (b"\x00\x00", b"\x03\x00", b"\x09\x09", b"\xff\xff"):
        yield f"version {version!r}", header(stated(), version) + data
    for text in (
        b"",
        b"{",
        b"[]",
        b"{}",
        b"__import__('os').system('true')",
        b"\xff" * 60,
        b"(" * 2000,
        b"9" * 3000,
    ):
        yield f"header {text[:12]!r}", header(text) + data
    yield "a header that is longer than the file", header(stated(), length=60000) + data
    yield "a header of 4 GiB", header(stated(), b"\x02\x00", 0xFFFFFFFF) + data
    yield "cut", header(stated()) + data[:-1]
    yield "too long", header(stated()) + data + b"x"
    for start in (b"", b"\x93", b"\x93NUMPY", b"PK\x03\x04", b"\x80\x04\x95", b"GIF89a", b"\x00" * 64):
        yield f"file {start!r}", start
    archive = io.BytesIO()
    np.savez_compressed(archive, np.zeros((16, 64, 64, 3), np.uint8))
    yield "an archive", archive.getvalue()


def bad_samples() -> Iterator[tuple[str, Any]]:
    """What a field ``sample_0`` or an item of ``samples`` may not be; the frames of some are fine."""
    ok = progress_sample(video(2, side=8).tolist())
    yield from ((f"sample {value!r}", value) for value in each(None, 1, "text", [], [1], True, {}))
    for kind in each(None, "", "similarity", 3, [], {}):
        yield f"type {kind!r}", {**ok, "sample_type": kind}
    for trajectory in each(None, 1, "x", [], {}):
        yield f"trajectory {trajectory!r}", {**ok, "trajectory": trajectory}
    for task in each(None, "", "  ", 3, [], {}, "x" * 4001):
        yield f"task {str(task)[:9]!r}", {**ok, "trajectory": {**ok["trajectory"], "task": task}}
    for frames in each(
        None, 3, "x", [], [[]], [[[]]], [[[[]]]], [[[["a", "b", "c"]]]], [[[[1, 2]]]], [[[[1, 2, 300]]]],
        [[[[1, 2, -1]]]], [[[[1, 2, 0.5]]]], [[[[1, 2, None]]]], [[[[1, 2, 3]], [[1, 2, 3], [4, 5, 6]]]],
        {"__numpy_file__": "absent"}, {"__numpy_file__": 3}, {}, [[[[1, 2, 10**30]]]], [[[[True, False, True]]]],
    ):  # fmt: skip
        yield f"frames {str(frames)[:30]}", {**ok, "trajectory": {**ok["trajectory"], "frames": frames}}
    for metadata in each(
        3,
        "x",
        [1],
        {"fps": 0},
        {"fps": -1},
        {"fps": "2"},
        {"fps": 1e9},
        {"fps": True},
        {"fps": None},
    ):
        yield f"metadata {metadata}", {**ok, "trajectory": {**ok["trajectory"], "metadata": metadata}}
    for times in each(
        [],
        [0],
        [0, 1, 2],
        [1, 0],
        [0, 0],
        ["a", "b"],
        "x",
        [None, 1],
        [[0], [1]],
        {"a": 1},
        [0, 1e400],
    ):
        yield f"times {times}", {**ok, "trajectory": {**ok["trajectory"], "metadata": {"timestamps": times}}}
    yield "a preference of one", {"sample_type": "preference", "chosen_trajectory": ok["trajectory"]}


def bad_forms() -> Iterator[tuple[str, dict[str, Any]]]:
    """Bodies and content types that are no form."""
    kind = "multipart/form-data; boundary=b"
    part = b'--b\r\nContent-Disposition: form-data; name="sample_0"\r\n\r\n{}'
    for text in (
        b"", b"b", b"--", b"--b", b"--b--", b"--b\r\n", b"--b\r\n\r\n", part, part + b"\r\n", part + b"\r\n--b",
        part + b"\r\n--c--", b"\r\n" * 50, b"--b\n--b--", part.replace(b' name="sample_0"', b"") + b"\r\n--b--",
        part + b"\r\n" + part + b"\r\n--b--", part.replace(b"{}", b"\xff\xfe") + b"\r\n--b--",
        part.replace(b"{}", b"{") + b"\r\n--b--", part.replace(b"{}", b"[" * 5000) + b"\r\n--b--",
        part.replace(b"sample_0", b"sample_1") + b"\r\n--b--", part.replace(b"sample_0", b"x") + b"\r\n--b--",
    ):  # fmt: skip
        yield f"body {text[:40]!r} {len(text)}", {"content": text, "headers": {"Content-Type": kind}}
    for wrong in (
        "",
        "text/plain",
        "application/json",
        "multipart/form-data",
        "multipart/form-data; boundary=",
    ):
        yield f"content type {wrong!r}", {"content": part + b"\r\n--b--", "headers": {"Content-Type": wrong}}
    many = b"".join(
        b'--b\r\nContent-Disposition: form-data; name="f%d"; filename="f"\r\n\r\nx\r\n' % i
        for i in range(2100)
    )
    yield "too many parts", {"content": many + b"--b--", "headers": {"Content-Type": kind}}
    for fill in ("x", "-1", "2", "nan", "inf", "", "1e9", "0.5.5", "null", "true", "[]"):
        sent = multipart([video(1, side=8)])
        sent["data"]["fill"] = fill
        yield f"fill {fill!r}", sent
    gap = multipart([video(1, side=8)] * 2)
    gap["data"]["sample_5"] = gap["data"].pop("sample_1")
    yield "a gap between samples", gap
    yield "too many samples", multipart([video(1, side=8)] * 5)
    yield "too large", multipart([np.zeros((9, 300, 300, 3), np.uint8)])


def png(width: int, height: int) -> bytes:
    """The head of an image of any size, which holds next to nothing."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(b"\0" * 4096))
        + chunk(b"IEND", b"")
    )


def bad_questions() -> Iterator[tuple[str, Any]]:
    import base64

    def data_url(content: bytes, kind: str = "png") -> str:
        return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"

    def ask(*parts: Any) -> dict[str, Any]:
        return {"messages": [{"role": "user", "content": list(parts)}]}

    text = {"type": "text", "text": f"Task: {TASK}"}
    for value in each(
        None, 1, [], {}, {"messages": 3}, {"messages": []}, {"messages": [3]}, {"messages": [{}]}
    ):
        yield f"question {value}", value
    yield "no image", ask(text)
    yield "words alone", {"messages": [{"role": "user", "content": "hello"}]}
    yield "another role", {"messages": [{"role": "system", "content": [text]}]}
    for url in each(
        None, 3, "", "http://127.0.0.1:1/x.png", "file:///etc/hosts", "data:text/html;base64,AA==",
        "data:image/png,xx",
        "data:image/png;base64,", "data:image/png;base64,!!!", data_url(b"no image"),
        data_url(b"GIF89a" + b"\0" * 50),
        data_url(png(8, 8)[:40]), data_url(png(100_000, 100_000)), data_url(png(65, 64)), data_url(png(0, 8)),
        data_url(b"<svg/>"), data_url(b"\xff\xd8\xff\xe0" + b"\0" * 40, "jpeg"),
    ):  # fmt: skip
        yield f"image {str(url)[:40]}", ask({"type": "image_url", "image_url": {"url": url}}, text)
    from tests.server.reward_api.test_requests import question

    fine = question(list(video(2, side=8)), f"Task: {TASK}")
    yield "no words", question(list(video(1, side=8)), "")
    yield "a stream", {**fine, "stream": True}
    yield "several answers", {**fine, "n": 2}
    yield "too many images", question(list(video(17, side=8)), "x")
    yield "two sizes", question([*video(1, side=8), *video(1, side=9)], "x")


def bad_sessions() -> Iterator[Case]:
    for value in each(None, 1, [], {}, {"instruction": 3}, {"instruction": ""}, {"instruction": "x" * 4001}):
        yield f"session {str(value)[:30]}", "/v1/sessions", {"json": value}
    for views in each(None, [], "main", [""], [3], ["a", "a"], ["x" * 101], list(map(str, range(17)))):
        yield f"views {str(views)[:30]}", "/v1/sessions", {"json": {"instruction": TASK, "views": views}}
    yield "task", "/v1/sessions", {"json": {"instruction": TASK, "task": 3}}
    yield "odd", "/v1/sessions", {"json": {"instruction": TASK, "odd": "x"}}
    for name in ("x", "%00", "..%2f..", "x" * 300):
        yield f"frames of {name[:9]}", f"/v1/sessions/{name}/frames", multipart([video(1, side=8)])


def cases() -> list[Case]:
    found: list[Case] = []
    for name, content in bad_arrays():
        sample = json.dumps(progress_sample({"__numpy_file__": "f"}))
        sent = {"data": {"sample_0": sample}, "files": {"f": ("f.npy", content, "application/octet-stream")}}
        found.append((name, "/evaluate_batch_npy", sent))
    for name, sample in bad_samples():
        text = json.dumps({"samples": [sample]})
        found.append((name, "/evaluate_batch", {"content": text}))
        if not name.startswith("frames [") or len(found) % 2:
            form = {"data": {"sample_0": json.dumps(sample)}, "files": {"x": b""}}
            found.append((f"{name}, form", "/evaluate_batch_npy", form))
    texts = (
        "",
        "{",
        "[]",
        "3",
        "null",
        '"x"',
        "{}",
        '{"samples": 3}',
        '{"samples": []}',
        "[" * 100_000,
        "NaN",
        "1e999",
        "{]",
        "\x00",
    )
    found += [(f"JSON {text[:12]}", "/evaluate_batch", {"content": text}) for text in texts]
    found.append(("invalid UTF-8", "/evaluate_batch", {"content": b'{"samples": "\xff"}'}))
    found += [(name, "/evaluate_batch_npy", sent) for name, sent in bad_forms()]
    found += [(name, "/v1/chat/completions", {"json": value}) for name, value in bad_questions()]
    return found + list(bad_sessions())


def test_300_malformed_requests_get_a_clear_4xx(url: str) -> None:
    import resource

    every = cases()
    assert len(every) >= 300
    client = httpx2.Client(base_url=url, headers=HEADERS, timeout=30, trust_env=False)
    before, wrong = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, []
    for name, path, sent in every:
        answer = client.post(path, **sent)
        message = answer.json()["error"]["message"] if 400 <= answer.status_code < 500 else ""
        if len(message) < 10 or len(message) > 400:
            wrong.append((name, answer.status_code, answer.text[:200]))
    assert not wrong
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kilobytes
    fine = client.post("/evaluate_batch_npy", **multipart([video(2, side=8)]))
    assert fine.status_code == 200
    metrics = client.get("/metrics").text
    assert 'status="400"' in metrics
    assert 'status="500"' not in metrics
    assert "stepscore_request_bytes 0\n" in metrics


@pytest.mark.parametrize(
    "authorization", [None, "", "Bearer", "Bearer wrong", "Basic YTpi", "a-token-of-the-tests", "Bearer \xe9"]
)
@pytest.mark.parametrize(
    "path", ["/evaluate_batch", "/v1/sessions", "/v1/chat/completions", "/evaluate_batch_npy"]
)
def test_a_wrong_token_is_refused_before_the_body_is_read(
    url: str, authorization: str | None, path: str
) -> None:
    headers = {} if authorization is None else {"Authorization": authorization.encode("latin-1")}
    answer = post(url, path, content=b"x" * 1000, headers=headers)
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")


def test_metrics_and_model_info_need_the_token_and_health_does_not(url: str) -> None:
    for path, status in (("/metrics", 401), ("/model_info", 401), ("/v1/models", 401), ("/health", 200)):
        assert httpx2.get(url + path, trust_env=False).status_code == status


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://example.org"},
        {"Origin": "null"},
        {"Host": "example.org"},
        {"Host": "127.0.0.1.example.org"},
    ],
)
def test_web_pages_are_refused(url: str, headers: dict[str, str]) -> None:
    answer = post(url, "/evaluate_batch", json={}, headers=HEADERS | headers)
    assert answer.status_code == 403
    assert not any(name.startswith("access-control") for name in answer.headers)


def test_other_paths_and_methods(url: str) -> None:
    for method, path, status in (
        ("GET", "/x", 404),
        ("GET", "/evaluate_batch", 405),
        ("PUT", "/v1/sessions", 405),
    ):
        answer = httpx2.request(method, url + path, headers=HEADERS, trust_env=False)
        assert answer.status_code == status
        assert answer.json()["error"]["code"] == status


def test_a_client_that_sends_nothing_is_not_waited_for(url: str) -> None:
    at = urlparse(url)
    with socket.create_connection((at.hostname, at.port), timeout=20) as client:
        lines = ("POST /evaluate_batch HTTP/1.1", f"Host: {at.netloc}", "Content-Length: 100")
        client.sendall("\r\n".join([*lines, f"Authorization: {HEADERS['Authorization']}", "", "{"]).encode())
        assert b"408" in client.recv(4096).splitlines()[0]
    with socket.create_connection((at.hostname, at.port), timeout=20) as client:
        chunked = ("POST /evaluate_batch HTTP/1.1", f"Host: {at.netloc}", "Transfer-Encoding: chunked")
        client.sendall("\r\n".join([*chunked, f"Authorization: {HEADERS['Authorization']}", "", ""]).encode())
        block = b"10000\r\n" + b"x" * 65536 + b"\r\n"
        try:
            for _ in range(64):
                client.sendall(block)
        except OSError:
            pass
        assert b"413" in client.recv(4096).splitlines()[0]
