"""What one judgement takes: CPU seconds of loading, and of a film with 16 prefixes after it.

Measured in a process of its own: ``python -m embedded.timing`` (in ``benchmarks``) prints JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from stepscore.episodes import Episode

from .figures import Figure, plain

GROUP = "Time"
REPEATS = 5
LONG = 32
"""Frames that 16 prefixes of whole pairs take."""


def timing_figures(model: str, max_pixels: int, episodes: Sequence[Episode], datasets: Path) -> list[Figure]:
    """CPU seconds in a new process, on the shortest episode that has 16 prefixes."""
    long = [e for e in episodes if e.info is not None and e.info.n_frames >= LONG] or list(episodes)
    chosen = min(long, key=lambda e: (e.info.n_frames if e.info else 0, e.id))
    task, chunk, name = chosen.id.split("/")
    command = [
        sys.executable,
        "-m",
        "embedded.timing",
        model,
        str(max_pixels),
        str(datasets / task / chunk),
        name,
    ]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], check=True, capture_output=True, text=True)
    told = json.loads(done.stdout.splitlines()[-1])
    rows = (
        (f"CPU seconds a film of {told['prefixes']} prefixes, decoding included", "film", 0.5, REPEATS),
        ("CPU seconds of loading the model", "load", 2.0, 1),
        ("CPU seconds of importing torch and transformers", "import", None, 1),
    )
    method = f"median of {REPEATS}, one process"
    return [
        Figure(GROUP, label, plain(told[key], n, method), target, at_most=target is not None)
        for label, key, target, n in rows
    ]


def main() -> None:
    """Measure; see the module."""
    name, max_pixels, dataset, episode_id = sys.argv[1:]
    started = time.process_time()
    import torch  # noqa: F401
    import transformers  # noqa: F401

    imported = time.process_time()
    from stepscore import open_episodes

    from .asked import asked
    from .evaluate import Evaluation, judge_of
    from .testset import Wanted

    episode = open_episodes(dataset)[episode_id]
    episode = episode.with_views(list(episode.views)[:1])
    model = Evaluation(name, Path(), Wanted(0), max_pixels=int(max_pixels)).judge_model(batch=1)
    judge = judge_of(model)
    begun = time.process_time()
    first = asked(judge, episode, model)
    after_first = time.process_time()
    films = []
    for _number in range(REPEATS):
        before = time.process_time()
        asked(judge, episode, model)
        films.append(time.process_time() - before)
    film = sorted(films)[REPEATS // 2]
    assert first.judgement is not None
    assert first.judgement.curve is not None
    told = {
        "import": imported - started,
        "load": max(after_first - begun - film, 0.0),
        "film": film,
        "prefixes": len(first.judgement.curve),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
