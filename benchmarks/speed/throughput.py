"""A run against the bare forward passes of the same requests: wall time, the model in this process.

The 32 rollouts of the demo by topreward, with the embedded judge and with the same network by torch (a small
Qwen3-VL). Bare: all frames are decoded beforehand, and the model answers one request after another. A run also lists
and fingerprints the episodes, decodes their frames, keeps its journal and writes its tables; frames are decoded while
the model scores another episode, on a second core: the model computes on one thread, as the embedded judge always
does. Best of 5 in turns; limit 1.11 times.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import torch

import stepscore
from stepscore.episodes import Episode, Episodes
from stepscore.judges import Judge
from stepscore.models import Model, Request, Response, get_model, media_decoder, resolve, run_blocking
from stepscore.runs import CallOptions

DEMO = Path(stepscore.__file__).parent / "cli" / "demo_data"
CHECKPOINT = Path(stepscore.__file__).parent / "models" / "embedded" / "checkpoint"
ROUNDS, LIMIT = 5, 1.11


def decoded_requests(episodes: Episodes, judge: Judge, model: Model) -> list[Request]:
    """What a judge asks about the episodes, with the frames; answers it, so that the model is loaded and warm."""
    requests: list[Request] = []

    async def judge_one(episode: Episode) -> None:
        async def ask(request: Request, model: Model | None = model) -> Response:
            requests.append(resolve(request, media_decoder(episode)))
            assert model is not None
            return await model.answer(requests[-1])

        await judge.judge(episode, ask)

    for episode in episodes:
        run_blocking(judge_one(episode))
    return requests


def bare(model: Model, requests: list[Request]) -> None:
    async def answer_all() -> None:
        for request in requests:
            await model.answer(request)

    run_blocking(answer_all())


def whole(episodes: Episodes, judge: Judge) -> None:
    with tempfile.TemporaryDirectory() as folder:
        stepscore.score(episodes, judge, Path(folder) / "run", call_options=CallOptions(cache=False))


def main() -> None:
    torch.set_num_threads(1)
    episodes = stepscore.open_episodes(DEMO)
    worst = 0.0
    for name, model in {
        "embedded (NumPy)": get_model("embedded"),
        "the same Qwen3-VL by torch": get_model(f"hf/{CHECKPOINT}", max_pixels=128 * 128),
    }.items():
        judge = stepscore.get_judge("topreward", model=model)
        requests = decoded_requests(episodes, judge, model)
        took: dict[str, list[float]] = {"bare": [], "run": []}
        for _ in range(ROUNDS):
            for kind, seconds in took.items():
                started = time.perf_counter()
                if kind == "bare":
                    bare(model, requests)
                else:
                    whole(episodes, judge)
                seconds.append(time.perf_counter() - started)
        ratio = min(took["run"]) / min(took["bare"])
        worst = max(worst, ratio)
        print(
            f"{name}: {len(requests)} forward passes {min(took['bare']):.2f} s, run {min(took['run']):.2f} s, "
            f"{ratio:.3f} times (limit {LIMIT})",
            flush=True,
        )
    if worst > LIMIT:
        sys.exit(1)


if __name__ == "__main__":
    main()
