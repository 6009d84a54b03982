"""The embedded judge in NumPy against the same checkpoint in torch, on one thread each, in one run.

Limits: files under 30 MB; log-probabilities of 16 prefixes within 1e-4 nats of torch's on every bundled rollout, and
every generated text identical; no more processor time than torch for the same prefixes; importing and loading takes
less than torch takes to be imported. Processor time, so that a busy machine changes little; the two take turns.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence

import numpy as np
import torch

from stepscore.cli.judging.demo import ROLLOUTS
from stepscore.episodes import Episode, open_episodes
from stepscore.models import (
    DecodedMedia,
    Generate,
    Model,
    PrefixScores,
    Prompt,
    Request,
    Turn,
    VideoPrefix,
    get_model,
)
from stepscore.models.base import SyncMethods
from stepscore.models.blocking import run_blocking
from stepscore.models.embedded.model import FOLDER, trained_side
from stepscore.models.requests import ScorePrefixes
from stepscore.models.responses import Answer, Response

PREFIXES = tuple(range(2, 33, 2))
QUESTION = "The robot is asked to {}. Which actions remain, and how far is it, in percent?"
LOADS = {
    "numpy": "from stepscore.models import get_model; get_model('embedded')._engine.network",
    "torch": f"from stepscore.models import get_model; get_model({f'hf/{FOLDER}'!r}).network",
}


def answered(model: Model, request: Request) -> tuple[Response, float]:
    """Return a response and the processor time it took."""
    started = time.process_time()
    response = run_blocking(model.answer(request))
    return response, time.process_time() - started


def requests_of(episode: Episode) -> tuple[ScorePrefixes, Generate]:
    """Return topreward's 16 prefixes of an episode, and a question to be answered in words."""
    clip = episode.clip(count=32, size=224)
    lengths = tuple(length for length in PREFIXES if length <= len(clip))
    prompt = Prompt(
        (
            Turn(
                "user",
                (VideoPrefix(), f"The above video shows a robot that completes: {episode.instruction}"),
            ),
        ),
        prefill=" The answer is:",
        template="open",
    )
    prefixes = ScorePrefixes(DecodedMedia(clip, video=True), lengths, (prompt,), (" True", " False"))
    asked = Prompt((Turn("user", (DecodedMedia(clip, video=True), QUESTION.format(episode.instruction))),))
    return prefixes, Generate(asked, max_tokens=48)


def compare(models: Sequence[Model], episodes: Sequence[Episode]) -> tuple[float, int, list[float]]:
    """Return the largest difference in nats, the number of texts that differ, and each model's processor time."""
    worst, differ, times = 0.0, 0, [0.0] * len(models)
    for number, episode in enumerate(episodes):
        prefixes, question = requests_of(episode)
        scored, texts = [], []
        for which, model in enumerate(models):
            response, took = answered(model, prefixes)
            assert isinstance(response, PrefixScores)
            times[which] += took if number else 0.0  # the first call of any kind warms up the libraries
            scored.append(response.logprobs)
            answer = answered(model, question)[0]
            assert isinstance(answer, Answer)
            texts.append(answer.text)
        worst = max(worst, float(np.abs(scored[0] - scored[1]).max()))
        differ += texts[0] != texts[1]
    return worst, differ, times


def load_time(code: str) -> float:
    """Return the processor time of a new process that imports and loads."""
    timed = f"import time, os; {code}; t = os.times(); print(t.user + t.system)"
    return float(
        subprocess.run([sys.executable, "-c", timed], capture_output=True, text=True, check=True).stdout
    )


def main() -> None:
    if not (FOLDER / "model.safetensors").is_file():
        sys.exit(f"No weights in {FOLDER}.")
    torch.set_num_threads(1)
    failed = []

    def check(name: str, value: float, limit: float, unit: str) -> None:
        bad = value > limit
        failed.extend([name] if bad else [])
        print(f"{name}: {value:.3g} {unit} (at most {limit:g}){'  FAILED' if bad else ''}")

    size = sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file())
    check("files of the judge", size / 2**20, 30, "MB")
    pixels = trained_side(FOLDER) ** 2
    models = [get_model("embedded", gate=False), get_model(f"hf/{FOLDER}", max_pixels=pixels)]
    assert all(isinstance(model, SyncMethods) for model in models)
    episodes = list(open_episodes(ROLLOUTS))
    worst, differ, times = compare(models, episodes)
    check(f"largest difference to torch, {len(episodes)} rollouts", worst, 1e-4, "nats")
    check(f"texts that differ from torch's, of {len(episodes)}", differ, 0, "texts")
    print(f"processor time for 16 prefixes: NumPy {times[0] / (len(episodes) - 1):.3f} s a rollout")
    check("processor time, NumPy over torch", times[0] / times[1], 1.0, "times")
    loads = {name: load_time(code) for name, code in LOADS.items()}
    print(f"import and load: NumPy {loads['numpy']:.2f} s, torch {loads['torch']:.2f} s")
    check("import and load, NumPy over torch", loads["numpy"] / loads["torch"], 0.5, "times")
    if failed:
        sys.exit(f"Failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
