"""The live server gives out its page, the videos of its runs with byte ranges, and nothing else."""

from __future__ import annotations

import json
import os
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import pytest
import uvicorn

from stepscore.episodes import open_episodes
from stepscore.errors import OptionError, RunError
from stepscore.judges import get_judge
from stepscore.runs import score
from stepscore.runs.journal import Journal
from stepscore.server import LivePage, make_app, serve
from stepscore.server.serving import bind
from tests.media import write_video

TEMPLATE = '<script type="application/json" id="stepscore-data">__STEPSCORE_DATA__</script><script>1</script>'
SECRET = "the secret outside"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class Site(NamedTuple):
    port: int
    folder: Path

    def ask(self, target: str, *lines: str, method: str = "GET", host: str | None = None) -> Answer:
        """Send exactly this request target; a client library would tidy it up first."""
        sent = [f"{method} {target} HTTP/1.1", f"Host: {host or f'127.0.0.1:{self.port}'}", *lines]
        text = "\r\n".join([*sent, "Connection: close", "", ""])
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            connection.sendall(text.encode("latin-1"))
            received = b"".join(iter(lambda: connection.recv(1 << 16), b""))
        head, _, body = received.partition(b"\r\n\r\n")
        first, *rest = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
        return Answer(int(first.split()[1]), headers, body)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    (folder / "secret.txt").write_text(SECRET)
    for name in ("a", "b"):
        write_video(folder / "in" / f"{name}.mp4", 6)
    run = score(open_episodes(folder / "in"), get_judge("linear-time"), folder / "run")
    (run.path / "link.txt").symlink_to(folder / "secret.txt")
    (run.path / "up").symlink_to(folder)
    (folder / "in" / "link.mp4").symlink_to(folder / "secret.txt")
    live = LivePage([run.path], template=TEMPLATE)
    live.page()
    listening = bind(0)
    server = uvicorn.Server(uvicorn.Config(make_app(live), log_level="warning"))
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield Site(listening.getsockname()[1], folder)
    server.should_exit = True
    thread.join()
    listening.close()


def test_the_page_names_its_videos_by_number(site: Site) -> None:
    answer = site.ask("/")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/html")
    data = json.loads(answer.body.decode().split('id="stepscore-data">')[1].split("</script>")[0])
    assert data["live"] is True
    assert [file["src"] for file in data["files"]] == ["media/0", "media/1"]


def test_the_policy_lets_no_other_host_and_no_other_script_in(site: Site) -> None:
    policy = site.ask("/").headers["content-security-policy"]
    parts = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert parts["default-src"] == "'none'"
    assert re.fullmatch(r"'sha256-[A-Za-z0-9+/=]{44}'", parts["script-src"])
    assert not re.search(r"https?:|\*", policy)
    assert parts["connect-src"] == "'self'"


def test_a_video_comes_whole(site: Site) -> None:
    answer = site.ask("/media/0")
    assert answer.status == 200
    assert answer.body == (site.folder / "in" / "a.mp4").read_bytes()
    assert answer.headers["accept-ranges"] == "bytes"
    assert answer.headers["content-type"] == "video/mp4"
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("asked", ["0-9", "10-", "-25", "0-", "5-100000000"])
def test_a_part_of_a_video_comes_as_206(asked: str, site: Site) -> None:
    whole = (site.folder / "in" / "b.mp4").read_bytes()
    first, last = asked.split("-")
    if not first:
        start, end = len(whole) - int(last), len(whole)
    else:
        start, end = int(first), min(int(last) + 1, len(whole)) if last else len(whole)
    answer = site.ask("/media/1", f"Range: bytes={asked}")
    assert answer.status == 206
    assert answer.body == whole[start:end]
    assert answer.headers["content-range"] == f"bytes {start}-{end - 1}/{len(whole)}"
    assert answer.headers["content-length"] == str(end - start)


def test_a_part_that_is_not_there_is_416(site: Site) -> None:
    size = (site.folder / "in" / "a.mp4").stat().st_size
    answer = site.ask("/media/0", f"Range: bytes={size}-")
    assert (answer.status, answer.headers["content-range"], answer.body) == (416, f"bytes */{size}", b"")


def test_head_tells_the_size_without_the_bytes(site: Site) -> None:
    for target in ("/media/0", "/"):
        answer = site.ask(target, method="HEAD")
        whole = site.ask(target)
        assert (answer.status, answer.body) == (200, b"")
        assert answer.headers["content-length"] == str(len(whole.body))


def attempts() -> list[str]:
    """Ways to ask for something else, as they go over the wire."""
    wanted = ["secret.txt", "run/run.json", "run/link.txt", "run/up/secret.txt", "in/a.mp4", "in/link.mp4"]
    ups = [
        "../",
        "..%2f",
        "..%2F",
        "%2e%2e/",
        "%2e%2e%2f",
        "%252e%252e%252f",
        "%25252e%25252e%25252f",
        "..%5c",
        "..\\",
        "%2e%2e%5c",
        "..%c0%af",
        "..%u2215",
        "....//",
        "..;/",
        ".%00./",
        "%ef%bc%8e%ef%bc%8e/",
    ]
    found = [f"/media/{up * depth}{name}" for up in ups for depth in (1, 3) for name in wanted[:3]]
    found += [f"/{up}{name}" for up in ups for name in wanted[1:4]]
    found += [f"/{name}" for name in wanted]
    found += [
        f"/media/0{tail}"
        for tail in ("%00", "%00.mp4", "/", "/..", "/../1", "%2f..%2f1", ";a", ".mp4", "%20")
    ]
    found += [
        f"/media/{number}"
        for number in ("-1", "2", "00", "+0", "0x0", "1e0", "٠".encode().hex(), "%d9%a0", "")
    ]
    found += ["/media", "/media/9" + "9" * 300, "//", "//etc/passwd", "/etc/passwd", "/%2fetc%2fpasswd"]
    found += [
        "/media//etc/passwd",
        "/media/%2fetc%2fpasswd",
        "/media/file:%2f%2f%2fetc%2fpasswd",
        "/media/~root",
    ]
    found += ["/docs", "/redoc", "/openapi.json", "/index.html", "/.", "/..", "/./", "/%2e", "/static/app.js"]
    return found


def test_over_a_hundred_ways_out_lead_nowhere(site: Site) -> None:
    tried = attempts()
    tried += [f"/media/{quote(str(path), safe='')}" for path in site.folder.rglob("*")]
    tried += [f"/media/{path}" for path in site.folder.rglob("*")]
    tried += [str(path) for path in site.folder.rglob("*")]
    tried += [f"http://127.0.0.1:{site.port}/secret.txt", "file:///etc/passwd"]
    assert len(set(tried)) > 150
    for target in dict.fromkeys(tried):
        answer = site.ask(target)
        assert answer.status == 404, target
        assert SECRET.encode() not in answer.body, target


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
def test_nothing_but_reading_is_answered(method: str, site: Site) -> None:
    for target in ("/", "/media/0"):
        assert site.ask(target, "Content-Length: 0", method=method).status == 404


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "x@127.0.0.1"]
)
def test_a_name_that_is_not_this_machine_leads_nowhere(host: str, site: Site) -> None:
    assert site.ask("/", host=host).status == 404
    assert site.ask("/media/0", host=host).status == 404


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "127.0.0.1", "[::1]:80"])
def test_this_machine_may_be_called_by_its_names(host: str, site: Site) -> None:
    assert site.ask("/media/0", host=host).status == 200


def test_a_link_put_in_the_place_of_a_video_is_not_followed(site: Site) -> None:
    video, kept = site.folder / "in" / "a.mp4", site.folder / "kept.mp4"
    os.rename(video, kept)
    try:
        video.symlink_to(site.folder / "secret.txt")
        assert site.ask("/media/0").status == 404
        video.unlink()
        assert site.ask("/media/0").status == 404
    finally:
        os.rename(kept, video)
    assert site.ask("/media/0").status == 200


def test_it_listens_on_the_loopback_interface_alone() -> None:
    listening = bind(0)
    try:
        assert listening.getsockname()[0] == "127.0.0.1"
    finally:
        listening.close()


def test_a_port_in_use_is_an_error_that_names_another(site: Site) -> None:
    live = LivePage([site.folder / "run"], template=TEMPLATE)
    with pytest.raises(OptionError, match="--port 0"):
        serve(live, site.port, lambda address: None)


def test_the_page_grows_with_its_run_and_videos_keep_their_numbers(tmp_path: Path) -> None:
    write_video(tmp_path / "in" / "b.mp4", 4)
    score(open_episodes(tmp_path / "in"), get_judge("linear-time"), tmp_path / "run")
    live = LivePage([tmp_path / "run"], template=TEMPLATE)
    first = live.page()
    assert live.page() is first
    write_video(tmp_path / "in" / "a.mp4", 4)
    score(open_episodes(tmp_path / "in"), get_judge("linear-time"), tmp_path / "run")
    assert b'"n":2' in live.page()
    found = [live.media(number) for number in range(3)]
    assert [media and media.path.name for media in found] == ["b.mp4", "a.mp4", None]


def test_newer_data_come_once_and_only_if_the_run_has_changed(tmp_path: Path) -> None:
    write_video(tmp_path / "in" / "b.mp4", 4)
    score(open_episodes(tmp_path / "in"), get_judge("linear-time"), tmp_path / "run")
    live = LivePage([tmp_path / "run"], template=TEMPLATE)
    first = json.loads(live.page().decode().split('id="stepscore-data">')[1].split("</script>")[0])
    assert first["version"]
    assert live.data(first["version"]) is None
    write_video(tmp_path / "in" / "a.mp4", 4)
    score(open_episodes(tmp_path / "in"), get_judge("linear-time"), tmp_path / "run")
    # A page that is open is not answered with new numbers while the pause after the last ones goes on.
    live._next_s = time.monotonic() + 1000
    assert live.data(first["version"]) is None
    live._next_s = 0.0
    newer = json.loads(live.data(first["version"]) or b"null")
    assert newer["runs"][0]["n"] == 2
    assert newer["version"] != first["version"]
    assert live.data(newer["version"]) is None
    # Another server's version, or none, is not current.
    assert json.loads(live.data("") or b"null")["version"] == newer["version"]


def test_a_run_is_running_while_a_process_writes_to_it(tmp_path: Path) -> None:
    write_video(tmp_path / "in" / "a.mp4", 4)
    score(open_episodes(tmp_path / "in"), get_judge("linear-time"), tmp_path / "run")
    live = LivePage([tmp_path / "run"], template=TEMPLATE)
    assert b'"running":false' in live.page()
    with Journal(tmp_path / "run" / "journal.jsonl"):
        assert b'"running":true' in live.page()
    assert b'"running":false' in live.page()


def test_traces_come_by_number_and_nothing_else_does(site: Site) -> None:
    data = json.loads(site.ask("/data").body)
    assert data["traces"]["served"] == [0, 1]
    answer = site.ask("/traces/0")
    assert (answer.status, json.loads(answer.body)["episode"]) == (200, [])  # videos alone have no signals
    for target in (
        "/traces/2",
        "/traces/-1",
        "/traces/00",
        "/traces/",
        "/traces/x",
        "/traces/0/..",
        "/data/",
    ):
        assert site.ask(target).status == 404, target
    assert site.ask(f"/data?version={data['version']}").status == 204
    assert site.ask("/data", host="evil.example").status == 404
    assert site.ask("/data", "Content-Length: 0", method="POST").status == 404


def test_a_run_that_cannot_be_read_is_a_line_that_the_browser_asks_for_again(tmp_path: Path) -> None:
    write_video(tmp_path / "in" / "a.mp4", 4)
    score(open_episodes(tmp_path / "in"), get_judge("linear-time"), tmp_path / "run")
    live = LivePage([tmp_path / "run"], template=TEMPLATE)
    live.page()
    with (tmp_path / "run" / "journal.jsonl").open("a") as journal:
        journal.write("{damaged}\n")
    live._next_s = 0.0
    with pytest.raises(RunError, match="line 2"):
        live.data("old")
