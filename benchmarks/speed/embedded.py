"""The embedded judge: size on disk, seconds to load, and seconds for 16 prefixes of a bundled rollout.

Limits: under 25 MB; loading under 2 s; topreward's 16 prefixes, the gate's check of the first frame included, under
0.5 s beyond loading. Seconds are processor time of this process on one thread, importing torch and transformers
apart, the median of several rollouts, each new to the model, so that nothing comes from a cache.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import torch
from transformers import Qwen3VLForConditionalGeneration  # noqa: F401 - libraries are not the judge's time

from stepscore.cli.judging.demo import ROLLOUTS
from stepscore.episodes import Episode, open_episodes
from stepscore.judges import get_judge
from stepscore.models import Model, Request, Response
from stepscore.models.base import run_blocking
from stepscore.models.embedded.model import FOLDER, EmbeddedModel
from stepscore.models.requests import media_decoder, resolve

EPISODES, LONG = 8, 38
"""Rollouts that are judged, and the frames that topreward's 16 prefixes take."""


def judged(embedded: EmbeddedModel, episode: Episode) -> float:
    """Processor time that topreward's questions about an episode take, without decoding."""
    took = 0.0

    async def ask(request: Request, model: Model | None = None) -> Response:
        nonlocal took
        resolved = resolve(request, media_decoder(episode))
        started = time.process_time()
        response = await embedded.answer(resolved)
        took += time.process_time() - started
        return response

    judgement = run_blocking(get_judge("topreward", model=embedded).judge(episode, ask))
    assert judgement.curve is not None
    assert len(judgement.curve) == 16
    return took


def main() -> None:
    if not (FOLDER / "model.safetensors").is_file():
        sys.exit(f"No weights in {FOLDER}.")
    torch.set_num_threads(1)
    failed = []

    def check(name: str, value: float, limit: float, unit: str) -> None:
        bad = value > limit
        failed.extend([name] if bad else [])
        print(f"{name}: {value:.2f} {unit} (at most {limit}){'  FAILED' if bad else ''}")

    size = sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file())
    check("files of the judge", size / 2**20, 25, "MB")
    model = EmbeddedModel()
    started = time.process_time()
    parameters = sum(p.numel() for p in model.network.model.parameters())
    check("loading, the check of sharing included", time.process_time() - started, 2.0, "s")
    print(f"{parameters / 1e6:.2f} M parameters")
    episodes = [e for e in open_episodes(ROLLOUTS) if e.info is not None and e.info.n_frames >= LONG]
    judged(model, episodes[0])  # the first call of any kind warms up the libraries
    times = [judged(model, episodes[number]) for number in range(1, 1 + EPISODES)]
    check("16 prefixes of a bundled rollout, median", float(np.median(times)), 0.5, "s")
    if failed:
        sys.exit(f"Failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
