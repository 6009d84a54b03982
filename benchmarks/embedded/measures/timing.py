"""What one judgement takes: CPU seconds of loading, and of a film with 16 prefixes after it.

Measured in a process of its own: ``python -m benchmarks.embedded.measures.timing`` prints JSON. The films are
rollouts that come with the package, each new to the model, so that nothing is remembered.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.embedded.figures import Figure
from stepscore.metrics.stats.intervals import mean_estimate

GROUP = "Time"
FILMS, LONG = 8, 32
"""Rollouts that are judged, and the frames that 16 prefixes of whole pairs take."""
ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def timing_figures(model: str, max_pixels: int | None) -> list[Figure]:
    """CPU seconds in a new process with one thread: of bundled rollouts, of loading, of the libraries."""
    command = [sys.executable, "-m", "benchmarks.embedded.measures.timing", model, json.dumps(max_pixels)]
    alone = {**os.environ, **dict.fromkeys(ONE_THREAD, "1")}
    done = subprocess.run(
        command, cwd=Path(__file__).parents[3], check=True, stdout=subprocess.PIPE, text=True, env=alone
    )
    told = json.loads(done.stdout.splitlines()[-1])
    rows = (
        (f"CPU seconds of a bundled rollout, {told['prefixes']} prefixes, decoding included", "films", 0.5),
        ("CPU seconds of loading, the check of sharing and the first call included", "load", 2.0),
        ("CPU seconds of importing torch and transformers", "import", None),
    )
    return [
        Figure(GROUP, label, mean_estimate(told[key]), target, at_most=target is not None)
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
    from benchmarks.embedded.run_judge import asked
    from stepscore.cli.general.demo import ROLLOUTS
    from stepscore.episodes import open_episodes

    model = Evaluation(name, max_pixels=json.loads(max_pixels)).product_model()
    judge = judge_of(model)
    long = [e for e in open_episodes(ROLLOUTS) if e.info is not None and e.info.n_frames >= LONG]
    took = []
    for episode in long:
        before = time.process_time()
        found = asked(judge, episode, model).judgement
        spent = time.process_time() - before
        assert found is not None
        assert found.curve is not None
        assert len(found.curve) == PREFIXES
        if found.curve.coverage:  # a film that the gate refused was not judged, and takes nearly nothing
            took.append(spent)
        if len(took) > FILMS:
            break
    first, *films = took
    told = {
        "import": [imported - started],
        # The first film loads the model; what it takes beyond the others is loading.
        "load": [max(first - sorted(films)[len(films) // 2], 0.0)],
        "films": films,
        "prefixes": PREFIXES,
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
