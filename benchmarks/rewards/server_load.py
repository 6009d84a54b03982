"""Many clients at once on ``stepscore serve``: statuses, CPU of the server per scored frame, latency, memory.

``python -m benchmarks.rewards.server_load [--clients 64] [--seconds 60] [-o FILE.json]``. Every client sends videos
that were encoded beforehand, one after the other, and asks again after a 429 or 503. Limits: no other status than
200, 429 and 503; CPU seconds of the server per scored frame at most 1.25 times those of the offline judge on the same
videos; no client without an answer; resident memory in the last third at most 1.1 times that of the second third.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import numpy as np

from stepscore.episodes import Clip, Episode
from stepscore.judges import TopReward
from stepscore.models import get_model
from stepscore.models.calls import CallOptions, opened_chain
from tests.server.reward_api.serving import TASK, multipart

FRAMES, SIDE, VIDEOS = 8, 112, 16
CPU_LIMIT, MEMORY_LIMIT = 1.25, 1.1
JUDGE = ("--judge", "topreward", "--model", "embedded", "-M", "gate=false", "-J", f"size={SIDE}")


@dataclass
class Found:
    """What was measured.

    Attributes:
        statuses: How often each status was answered; -1 for a connection that failed.
        frames: Frames that were scored.
        answers: Answers of each client.
        latencies: Seconds of each answer.
        cpu_s: Of the server.
        memory_kb: Resident memory of the server, twice a second.
    """

    statuses: Counter[int] = field(default_factory=Counter)
    frames: int = 0
    answers: list[int] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    cpu_s: float = 0.0
    memory_kb: list[int] = field(default_factory=list)


def videos() -> list[Any]:
    """Return the videos that are sent."""
    rng = np.random.default_rng(0)
    return [rng.integers(0, 256, (FRAMES, SIDE, SIDE, 3)).astype(np.uint8) for _ in range(VIDEOS)]


def offline_cpu_per_frame(rounds: int = 3) -> float:
    """Return the CPU seconds per frame of the offline judge, the best of some rounds."""
    judge = TopReward(get_model("embedded", gate=False), sampling="causal", min_first=2, size=SIDE)
    clips = [Clip(each, np.arange(FRAMES) / judge.fps, np.arange(FRAMES)) for each in videos()]

    async def score_all(ask: Any) -> None:
        for clip in clips:
            await judge.score_clips({"main": clip}, TASK, ask)

    took = []
    with (
        tempfile.TemporaryDirectory() as folder,
        opened_chain(Path(folder), CallOptions(cache=False), judge.model) as chain,
    ):
        for _ in range(rounds + 1):  # the first loads the weights
            begun = time.process_time()
            asyncio.run(score_all(chain.ask_about(Episode("offline", TASK), [])))
            took.append((time.process_time() - begun) / (FRAMES * len(clips)))
    return min(took[1:])


def start_server(*options: str) -> tuple[subprocess.Popen[str], str]:
    """Start a server, and return it with its URL."""
    line = [sys.executable, "-m", "stepscore", "serve", *JUDGE, "--port", "0", *options]
    server = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert server.stdout is not None
    return server, server.stdout.readline().strip()


def cpu_of(pid: int) -> float:
    """Return the CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_of(pid: int) -> int:
    """Return the resident memory of a process in KB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1])


def load(url: str, pid: int, clients: int, seconds: float) -> Found:
    """Put a server under load."""
    found, lock = Found(answers=[0] * clients), threading.Lock()
    encoded = [httpx2.Request("POST", url, **multipart([each])) for each in videos()]
    bodies = [(each.read(), each.headers["content-type"]) for each in encoded]
    with httpx2.Client(trust_env=False, timeout=120) as first:  # loads the weights
        first.post(f"{url}/evaluate_batch_npy", content=bodies[0][0], headers={"Content-Type": bodies[0][1]})
    begun_cpu, until = cpu_of(pid), time.monotonic() + seconds

    def ask(number: int) -> None:
        with httpx2.Client(trust_env=False, timeout=120) as client:
            turn = number
            while time.monotonic() < until:
                body, kind = bodies[turn % len(bodies)]
                begun = time.monotonic()
                try:
                    status = client.post(
                        f"{url}/evaluate_batch_npy", content=body, headers={"Content-Type": kind}
                    ).status_code
                except httpx2.HTTPError:
                    status = -1
                with lock:
                    found.statuses[status] += 1
                    if status == 200:
                        found.frames += FRAMES
                        found.answers[number] += 1
                        found.latencies.append(time.monotonic() - begun)
                turn += status == 200
                if status in (429, 503):
                    time.sleep(0.1)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        found.memory_kb.append(memory_of(pid))
        time.sleep(0.5)
    found.cpu_s = cpu_of(pid) - begun_cpu
    return found


def summary(found: Found, offline: float) -> dict[str, Any]:
    """Return the figures, and which limit each of them is beyond."""
    third = max(1, len(found.memory_kb) // 3)
    middle, last = max(found.memory_kb[third : 2 * third] or [1]), max(found.memory_kb[-third:])
    per_frame = found.cpu_s / max(1, found.frames)
    latencies = np.array(found.latencies or [np.nan])
    figures: dict[str, Any] = {
        "statuses": {str(status): n for status, n in sorted(found.statuses.items())},
        "frames": found.frames,
        "cpu_ms_per_frame": round(1000 * per_frame, 3),
        "offline_cpu_ms_per_frame": round(1000 * offline, 3),
        "cpu_ratio": round(per_frame / offline, 3),
        "answers_of_a_client": [min(found.answers), max(found.answers)],
        "latency_s": {f"p{q}": round(float(np.percentile(latencies, q)), 3) for q in (50, 99)},
        "memory_mb": {"second_third": middle // 1024, "last_third": last // 1024},
    }
    beyond = [
        name
        for name, wrong in {
            "another status": bool(set(found.statuses) - {200, 429, 503}),
            "CPU": per_frame > CPU_LIMIT * offline,
            "a client without an answer": min(found.answers) == 0,
            "memory": last > MEMORY_LIMIT * middle,
        }.items()
        if wrong
    ]
    return {**figures, "beyond": beyond}


def main() -> None:
    """Measure, print and write the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("-o", "--out", type=Path)
    options = parser.parse_args()
    offline = offline_cpu_per_frame()
    server, url = start_server()
    try:
        found = load(url, server.pid, options.clients, options.seconds)
    finally:
        server.terminate()
        server.wait(60)
    figures = summary(found, offline)
    text = json.dumps({"clients": options.clients, "seconds": options.seconds, **figures}, indent=1)
    print(text)
    if options.out is not None:
        options.out.write_text(text + "\n")
    if figures["beyond"]:
        sys.exit(f"Beyond its limit: {', '.join(figures['beyond'])}")


if __name__ == "__main__":
    main()
