"""The time of one frame that is added to a live session of the embedded judge: p50, p99, and by the video's length.

``python -m benchmarks.rewards.live_frames [--sessions 10] [-o FILE.json]``. With ``odd="repeat"``, every frame is
scored. Limit: the 100th frame takes at most twice the time of the 20th (medians over sessions, of frames 95 to 104
and 15 to 24).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from stepscore.judges import TopReward
from stepscore.models import get_model

FRAMES, LIMIT = 110, 2.0


def measure(sessions: int, frames: int = FRAMES) -> Any:
    """Return the wall and CPU seconds of every added frame, shape (2, sessions, frames)."""
    judge = TopReward(get_model("embedded", gate=False), sampling="causal", min_first=2, max_frames=frames)
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (frames, 224, 224, 3)).astype(np.uint8)
    took = np.zeros((2, sessions, frames))
    for number in range(sessions):
        with judge.open("open the drawer", odd="repeat") as session:
            for index, image in enumerate(images):
                begun = time.perf_counter(), time.process_time()
                session.add(image)
                took[:, number, index] = time.perf_counter() - begun[0], time.process_time() - begun[1]
    return took


def summary(took: Any) -> dict[str, Any]:
    """Return the figures in milliseconds; the first two frames of a session load and warm up."""
    wall, cpu = 1000 * took[:, :, 2:]
    middle = [float(np.median(1000 * took[1, :, at - 5 : at + 5])) for at in (20, 100)]
    return {
        "sessions": took.shape[1],
        "wall_ms": {f"p{q}": round(float(np.percentile(wall, q)), 2) for q in (50, 99)},
        "cpu_ms": {f"p{q}": round(float(np.percentile(cpu, q)), 2) for q in (50, 99)},
        "cpu_ms_of_frame_20_and_100": [round(value, 2) for value in middle],
        "ratio": round(middle[1] / middle[0], 3),
    }


def main() -> None:
    """Measure, print and write the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sessions", type=int, default=10)
    parser.add_argument("-o", "--out", type=Path)
    options = parser.parse_args()
    figures = summary(measure(options.sessions))
    text = json.dumps(figures, indent=1)
    print(text)
    if options.out is not None:
        options.out.write_text(text + "\n")
    if figures["ratio"] > LIMIT:
        sys.exit(f"The 100th frame takes {figures['ratio']} times the time of the 20th; at most {LIMIT}.")


if __name__ == "__main__":
    main()
