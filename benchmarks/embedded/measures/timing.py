"""The cost of one judgement: CPU seconds of loading, and of a video with 16 prefixes after it.

Measured in a process of its own: ``python -m benchmarks.embedded.measures.timing`` prints JSON. The videos are
rollouts that come with the package, each new to the model, so that nothing comes from a cache.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.embedded.figures import Figure
from stepscore.metrics.stats import mean_estimate

GROUP = "Time"
VIDEOS, LONG = 8, 32
"""Rollouts to judge, and the fewest frames of each: 16 prefixes of whole pairs need them."""
ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def timing_figures(model: str, max_pixels: int | None) -> list[Figure]:
    """CPU seconds in a new process with one thread: of bundled rollouts, of loading, of the libraries."""
    command = [sys.executable, "-m", "benchmarks.embedded.measures.timing", model, json.dumps(max_pixels)]
    alone = {**os.environ, **dict.fromkeys(ONE_THREAD, "1")}
    done = subprocess.run(
        command, cwd=Path(__file__).parents[3], check=True, stdout=subprocess.PIPE, text=True, env=alone
    )
    measured = json.loads(done.stdout.splitlines()[-1])
    rows = (
        (
            f"CPU seconds of a bundled rollout, {measured['prefixes']} prefixes, decoding included",
            "videos",
            0.5,
        ),
        ("CPU seconds of loading, the check of sharing and the first call included", "load", 2.0),
        ("CPU seconds of importing torch and transformers", "import", None),
    )
    return [
        Figure(GROUP, label, mean_estimate(measured[key]), target, at_most=target is not None)
        for label, key, target in rows
    ]


def main() -> None:
    """Measure; see the module."""
    name, max_pixels = sys.argv[1:]
    started = time.process_time()
    import torch
    from transformers import Qwen3VLForConditionalGeneration  # noqa: F401 - libraries are not the judge's time

    torch.set_num_threads(1)
    imported = time.process_time()
    from benchmarks.embedded.evaluate import PREFIXES, Evaluation, judge_of
    from benchmarks.embedded.run_judge import run_judge
    from stepscore.cli.judging.demo import ROLLOUTS
    from stepscore.episodes import open_episodes

    model = Evaluation(name, max_pixels=json.loads(max_pixels)).product_model()
    judge = judge_of(model)
    long = [e for e in open_episodes(ROLLOUTS) if e.info is not None and e.info.n_frames >= LONG]
    took = []
    for episode in long:
        before = time.process_time()
        found = run_judge(judge, episode, model).judgement
        spent = time.process_time() - before
        assert found is not None
        assert found.curve is not None
        assert len(found.curve) == PREFIXES
        if found.curve.coverage:  # a video that the gate refused was not judged, and takes nearly nothing
            took.append(spent)
        if len(took) > VIDEOS:
            break
    first, *videos = took
    measured = {
        "import": [imported - started],
        # The first video loads the model; what it takes beyond the others is loading.
        "load": [max(first - sorted(videos)[len(videos) // 2], 0.0)],
        "videos": videos,
        "prefixes": PREFIXES,
    }
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
