"""The bare forward passes of what a judge asks: all frames are decoded beforehand, and nothing else is done.

``python -m benchmarks.scale.bare_passes`` is one of several processes that compute at the same time, as the worker
processes of a run do: it says ``ready`` when its model is loaded and warm, begins at a line on its standard input,
and prints the seconds it took.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import stepscore
from stepscore.episodes import Episode
from stepscore.judges import Judge
from stepscore.models import (
    BatchModel,
    Model,
    Request,
    get_model,
    media_decoder,
    run_blocking,
)

DEMO = Path(stepscore.__file__).parent / "cli" / "demo_data"
CHECKPOINT = Path(stepscore.__file__).parent / "models" / "embedded" / "checkpoint"


TEXT = {
    "hidden_size": 512,
    "intermediate_size": 1536,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 64,
}
VISION = {
    "depth": 6,
    "hidden_size": 256,
    "intermediate_size": 1024,
    "num_heads": 4,
    "out_hidden_size": 512,
    "deepstack_visual_indexes": [1, 3],
}


def demo_episodes(count: int) -> list[Episode]:
    """Return so many rollouts of the demo, some of them several times under other ids."""
    found = list(stepscore.open_episodes(DEMO))
    return [replace(found[i % len(found)], id=f"{i:04d}") for i in range(count)]


def write_small_qwen3vl(folder: Path) -> Path:
    """Write a checkpoint of a random Qwen3-VL: 26 M weights in the language model, 10 M in the vision encoder."""
    import torch
    from transformers import AutoModelForImageTextToText, Qwen3VLConfig

    torch.manual_seed(0)
    config = json.loads((CHECKPOINT / "config.json").read_text(encoding="utf-8"))
    config["text_config"] |= TEXT
    config["text_config"].pop("layer_types", None)
    config["text_config"]["rope_parameters"]["mrope_section"] = [12, 10, 10]
    config["vision_config"] |= VISION
    made = Qwen3VLConfig(**config)
    model = AutoModelForImageTextToText.from_config(made)
    model.save_pretrained(folder)
    for path in CHECKPOINT.iterdir():
        if "token" in path.name or path.name.startswith("chat_template"):
            shutil.copy(path, folder)
    return folder


def decoded_requests(episodes: Sequence[Episode], judge: Judge, model: Model) -> list[Request]:
    """Return what a judge asks about the episodes, with the frames; it is answered, so that the model is warm."""
    requests: list[Request] = []

    async def judge_one(episode: Episode) -> None:
        async def ask(request: Request, model: Model | None = model) -> Any:
            requests.append(request.resolved(media_decoder(episode)))
            assert model is not None
            return await model.answer(requests[-1])

        await judge.judge(episode, ask)

    for episode in episodes:
        run_blocking(judge_one(episode))
    return requests


def compute(model: Model, requests: Sequence[Request]) -> float:
    """Answer requests in passes of the model's batch, and return the seconds it took."""
    size = model.batch if isinstance(model, BatchModel) else 1

    async def answer_all() -> None:
        for start in range(0, len(requests), size):
            if isinstance(model, BatchModel) and size > 1:
                await model.answer_batch(requests[start : start + size])
            else:
                await model.answer(requests[start])

    started = time.perf_counter()
    run_blocking(answer_all())
    return time.perf_counter() - started


def compute_at_once(
    model: str, options: Mapping[str, object], count: int, processes: int, rounds: int, threads: int
) -> list[float]:
    """Return the seconds that several processes take for the passes of ``count`` episodes, in each of some rounds."""
    line = [sys.executable, "-m", "benchmarks.scale.bare_passes", model, json.dumps(options), str(count)]
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    started = [
        subprocess.Popen(
            [*line, str(part), str(processes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for part in range(processes)
    ]
    try:
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        return [max(_one_round(started)) for _ in range(rounds)]
    finally:
        for process in started:
            process.kill()
            process.wait()


def _one_round(processes: Sequence[subprocess.Popen[str]]) -> list[float]:
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return [float(process.stdout.readline()) for process in processes if process.stdout is not None]


def main() -> None:
    name, options, count, part, parts = sys.argv[1:]
    model = get_model(name, **json.loads(options))
    judge = stepscore.get_judge("topreward", model=model)
    requests = decoded_requests(demo_episodes(int(count))[int(part) :: int(parts)], judge, model)
    print("ready", flush=True)
    for _ in sys.stdin:
        print(compute(model, requests), flush=True)


if __name__ == "__main__":
    main()
