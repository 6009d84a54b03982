"""A short slice of the load test, back-pressure, and a server that is stopped while it scores."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest

from benchmarks.rewards.server_load import load, memory_of, start_server, summary
from stepscore.runs import open_run
from stepscore.server import Limits
from stepscore.types import Curve, Judgement
from tests.server.reward_api.serving import TASK, multipart, post, serving, video


class SlowJudge:
    """Takes a while for each video, without a model."""

    name, version, models, fps = "slow", 1, (), 2.0

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def options(self) -> dict[str, object]:
        return {}

    async def judge(self, episode: Any, ask: Any) -> Judgement:
        await asyncio.sleep(self.seconds)
        times = episode.views["main"].timestamps()
        return Judgement(Curve(times, np.linspace(0, 1, len(times))))


def at_once(url: str, clients: int, **content: Any) -> tuple[Counter[int], list[httpx2.Response]]:
    answers: list[httpx2.Response] = []
    threads = [
        threading.Thread(
            target=lambda: answers.append(post(url, "/evaluate_batch_npy", **multipart([video(2)])))
        )
        for _ in range(clients)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Counter(answer.status_code for answer in answers), answers


def test_what_waits_too_long_is_refused_at_once() -> None:
    limits = Limits(waiting=2, at_once=1)
    with serving(SlowJudge(0.4), limits=limits) as url:
        statuses, answers = at_once(url, 12)
    assert set(statuses) == {200, 429}
    assert statuses[200] >= 3
    assert {answer.headers["retry-after"] for answer in answers if answer.status_code == 429} == {"1"}


def test_a_judge_that_takes_too_long_is_a_503() -> None:
    with serving(SlowJudge(30.0), limits=Limits(answer_s=0.2)) as url:
        answer = post(url, "/evaluate_batch_npy", **multipart([video(2)]))
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


def test_memory_of_requests_is_bounded() -> None:
    limits = Limits(memory_mb=0.02, at_once=1)
    with serving(SlowJudge(0.4), limits=limits) as url:
        statuses, _ = at_once(url, 8)
    assert set(statuses) == {200, 503}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_slice_of_the_load_test() -> None:
    server, url = start_server()
    try:
        found = load(url, server.pid, clients=8, seconds=3.0)
        assert memory_of(server.pid) > 0
    finally:
        server.terminate()
        assert server.wait(60) in (0, 130, 143)
    figures = summary(found, offline=1.0)
    assert set(found.statuses) <= {200, 429, 503}
    assert min(found.answers) > 0
    assert figures["beyond"] == []


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[Any, str]]:
    started, url = start_server("-o", str(tmp_path / "run"), "-S", "at-once=1")
    yield started, url
    started.kill()


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGTERM")
def test_sigterm_in_mid_batch_answers_or_refuses_every_request(
    server: tuple[Any, str], tmp_path: Path
) -> None:
    process, url = server
    statuses: list[int] = []
    post(url, "/evaluate_batch_npy", **multipart([video(2, side=112)]))  # loads the weights
    session = post(url, "/v1/sessions", json={"instruction": TASK}).json()["session"]
    frames = {"files": {"main": ("main.npy", _npy(video(4, side=112)), "application/octet-stream")}}
    assert post(url, f"/v1/sessions/{session}/frames", **frames).status_code == 200

    def ask(number: int) -> None:
        statuses.append(
            post(url, "/evaluate_batch_npy", **multipart([video(8, number, side=112)] * 2)).status_code
        )

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    metrics = ""
    for _ in range(200):  # until all have arrived, and some are not scored yet
        metrics = httpx2.get(url + "/metrics", trust_env=False).text
        if int(metrics.split("\nstepscore_videos_waiting ")[1].split()[0]) >= 4:
            break
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    for thread in threads:
        thread.join()
    assert process.wait(60) in (0, 130, 143)
    assert len(statuses) == 8
    assert set(statuses) <= {200, 503}
    run = open_run(tmp_path / "run")
    assert run.judgements().num_rows == 1 + 2 * statuses.count(200) + 1  # the open session is kept, too
    assert run.info["status"] == "finished"


def _npy(array: Any) -> bytes:
    from tests.server.reward_api.serving import npy

    return npy(array)
