"""A reward server in a thread, and requests as its clients send them."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import numpy as np

from stepscore.judges import Judge, TopReward
from stepscore.models import get_model
from stepscore.server import Limits, Scorer, make_reward_app
from stepscore.server.reward_api.serving import bind, serve_app
from stepscore.types import Frames

TASK = "move the block from the red bin to the blue bin"
MODEL = get_model("embedded", gate=False)


def live_judge(**options: Any) -> TopReward:
    chosen: dict[str, Any] = {"sampling": "causal", "min_first": 2, "size": 32} | options
    return TopReward(MODEL, **chosen)


@contextmanager
def serving(judge: Judge | None = None, run: Path | None = None, **options: Any) -> Iterator[str]:
    """Serve, and yield the URL; ``limits`` and what else the application takes are options."""
    scorer = Scorer(judge or live_judge(), options.pop("limits", Limits()), run)
    app = make_reward_app(scorer, **options)
    listening = bind("127.0.0.1", 0)
    listening.listen(256)
    started, servers = threading.Event(), list[Any]()

    def on_start(server: Any) -> None:
        servers.append(server)
        started.set()

    thread = threading.Thread(target=lambda: asyncio.run(serve_app(app, scorer, listening, on_start)))
    thread.start()
    assert started.wait(20)
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        servers[0].should_exit = True
        thread.join(60)
        listening.close()
        assert not thread.is_alive()


def video(n: int = 6, seed: int = 0, side: int = 32) -> Frames:
    return np.random.default_rng(seed).integers(0, 256, (n, side, side, 3)).astype(np.uint8)


def npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def progress_sample(frames: Any, task: str = TASK, **metadata: Any) -> dict[str, Any]:
    """A sample as Robometer's example client builds it; frames in nested lists, or the name of a file."""
    shape = list(np.shape(frames)) if not isinstance(frames, dict) else [0]
    return {
        "sample_type": "progress",
        "trajectory": {
            "frames": frames,
            "frames_shape": shape,
            "task": task,
            "id": "0",
            "metadata": {"subsequence_length": shape[0], **metadata},
            "video_embeddings": None,
        },
    }


def multipart(videos: Sequence[Frames], task: str = TASK, **metadata: Any) -> dict[str, Any]:
    """The request of Robometer's public clients, as arguments of an HTTP client."""
    names = [f"sample_{i}_trajectory_frames" for i in range(len(videos))]
    fields = {
        f"sample_{i}": json.dumps(progress_sample({"__numpy_file__": name}, task, **metadata))
        for i, name in enumerate(names)
    }
    files = {
        name: (f"{name}.npy", npy(frames), "application/octet-stream")
        for name, frames in zip(names, videos, strict=True)
    }
    return {"data": {**fields, "use_frame_steps": "false"}, "files": files}


def post(url: str, path: str, **content: Any) -> httpx2.Response:
    return httpx2.post(url + path, timeout=60, trust_env=False, **content)
