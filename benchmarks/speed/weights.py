"""Training weights of a million frames: 2,000 episodes of 500 frames, each curve of 32 points.

Limit: under 2 s of processor time for each method, from curves to the file on disk.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from stepscore.curation import RunFrames, Weighting, lerobot_rabc, topreward_awr
from stepscore.curation.files import write_lerobot_progress, write_weights
from stepscore.curation.frames import EpisodeFrames

EPISODES, LENGTH, POINTS = 2_000, 500, 32
LIMIT_S = 2.0


def made_frames() -> RunFrames:
    rng = np.random.default_rng(0)
    times = np.linspace(0, (LENGTH - 1) / 30, POINTS)
    rising = np.linspace(0, 1, POINTS)
    return RunFrames(
        tuple(
            EpisodeFrames(
                id=f"episode_{i:06d}",
                number=i,
                first_index=i * LENGTH,
                n_frames=LENGTH,
                fps=30.0,
                task="push",
                success=bool(i % 2),
                times=times,
                values=np.clip(rising * rng.uniform(0.3, 1) + rng.normal(0, 0.03, POINTS), 0, 1),
            )
            for i in range(EPISODES)
        )
    )


def main() -> None:
    forms: dict[str, Callable[[RunFrames], Weighting]] = {
        "rabc": lambda frames: lerobot_rabc(frames, chunk_size=50),
        "awr": topreward_awr,
    }
    slow = False
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        for name, weigh in forms.items():
            frames = made_frames()
            began = time.process_time()
            weighting = weigh(frames)
            if weighting.by_lerobot:
                write_lerobot_progress(path, frames, provenance={})
            else:
                write_weights(path, weighting, provenance={})
            took = time.process_time() - began
            slow |= took > LIMIT_S
            print(f"{name:<16}{len(frames):>10,} frames {took:>6.2f} s")
    if slow:
        sys.exit(f"Slower than {LIMIT_S} s.")


if __name__ == "__main__":
    main()
