"""The cost of a run: 10,000 recorded episodes (limit 3 ms each) and `stepscore --help` (0.5 s); best of 5."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import stepscore
from stepscore.testing import write_toy_rollouts

EPISODES = 10_000


def rollouts(folder: Path) -> Path:
    """10,000 episodes in a folder: links to one small video, a curve of 50 points for each, a manifest."""
    video = next(write_toy_rollouts(folder / "toys", scenes=1).glob("*/*.mp4"))
    source = folder / "source"
    source.mkdir()
    curve = "time_s,progress\n" + "".join(f"{i * 0.08:.2f},{i / 50}\n" for i in range(50))
    lines = []
    for i in range(EPISODES):
        (source / f"e{i:05d}.mp4").hardlink_to(video)
        (source / f"e{i:05d}.curve.csv").write_text(curve)
        lines.append(json.dumps({"video": f"e{i:05d}.mp4", "instruction": "push"}))
    (source / "manifest.jsonl").write_text("\n".join(lines) + "\n")
    return source


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = rollouts(folder)
        best = float("inf")
        for attempt in range(5):
            started = time.perf_counter()
            run = stepscore.score(
                stepscore.open_episodes(source), stepscore.get_judge("recorded"), out=folder / f"run{attempt}"
            )
            best = min(best, time.perf_counter() - started)
            assert run.judgements().column("error").null_count == EPISODES
        each = 1000 * best / EPISODES
        print(f"{EPISODES} recorded episodes: {each:.2f} ms an episode (limit 3)")
    seconds = []
    for _ in range(5):
        started = time.perf_counter()
        subprocess.run(
            [sys.executable, "-c", "from stepscore.cli.main import main; main()", "--help"],
            check=True,
            capture_output=True,
        )
        seconds.append(time.perf_counter() - started)
    print(f"stepscore --help: {min(seconds):.2f} s (limit 0.5)")
    if each > 3 or min(seconds) > 0.5:
        sys.exit(1)


if __name__ == "__main__":
    main()
