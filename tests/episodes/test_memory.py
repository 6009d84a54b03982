"""Files that claim gigabytes take megabytes: each is tried in a process of its own, whose peak is measured.

As a script it makes every hostile file below a folder, tries it and prints what it ended in and the peak in MB.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

MAX_ADDED_MB = 400
"""Most that any of them may add to the process; the largest image that is read takes 120 MB, and a copy of it."""


def hostile(folder: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the name of a hostile file and a function that reads it."""
    import h5py
    import pyarrow as pa
    import pyarrow.parquet as pq

    from stepscore.episodes import open_episodes
    from stepscore.episodes.image_ops import read_image
    from stepscore.episodes.labels.subgoals import read_subgoals
    from stepscore.episodes.video.video_view import VideoView
    from tests.episodes import bombs
    from tests.episodes.lerobot.datasets import change_info, dataset

    images = {
        "goal.png": bombs.png(13_000, 13_000),
        "small.gif": bombs.gif(16_000, 16_000),
        "large.gif": bombs.gif(65_535, 65_535),
        "moving.png": bombs.png(8_000, 8_000, frames=20),
    }
    for name, content in images.items():
        (folder / name).write_bytes(content)
        yield f"{name} as an image", partial(read_image, folder / name, 64)
        yield f"{name} as a video", partial(VideoView(folder / name).read, [0], 64)
    large = bombs.mp4_claiming(folder / "x.mp4", 80_000_000, 100_000_000)
    yield "an mp4 of 80 million frames", lambda: VideoView(large).info()
    with h5py.File(folder / "x.hdf5", "w") as file:
        shape = (10**8, 1000, 900, 3)
        file.create_dataset("data/demo_0/obs/agentview_image", shape, "u1", chunks=(1, 1000, 900, 3))
    yield "HDF5 of 270 TB", lambda: open_episodes(folder / "x.hdf5")[0].clip(count=4, size=64)
    codes = pa.DictionaryArray.from_arrays(pa.array([0] * 2_000_000, pa.int32()), pa.array(["x" * 1000]))
    pq.write_table(pa.table({"episode_id": codes, "progress": [0.5] * 2_000_000}), folder / "x.parquet")
    yield "curves of one text, two million times", lambda: open_episodes(folder / "x.parquet")
    root = dataset(folder / "lerobot", lengths=(2,))
    change_info(root, video_path="{chunk_index:>999999999}")
    yield "a format spec in a template", lambda: open_episodes(root)[0].clip("top", count=1)
    aliases = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    for i in range(1, 10):
        aliases += f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n"
    (folder / "list.yaml").write_text(
        aliases + "episodes: [{video: x.mp4, instruction: x, metadata: {a: *a9}}]\n"
    )
    yield "aliases in a manifest", lambda: open_episodes(folder / "list.yaml")
    (folder / "subgoals.yaml").write_text(aliases)
    yield "aliases in subgoals", lambda: read_subgoals(folder / "subgoals.yaml")
    (folder / "deep.jsonl").write_text('{"video": ' + "[" * 5_000_000)
    yield "five million brackets", lambda: open_episodes(folder / "deep.jsonl")


def peak_mb() -> float:
    """VmHWM, the most that this process had in memory; getrusage's is inherited from the one that started it."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def main(folder: Path) -> None:
    """Try each and print a line of JSON: name, what it ended in, and the MB it added to the peak."""
    import resource
    import warnings

    import numpy as np

    from stepscore.errors import StepScoreError

    warnings.simplefilter("ignore")
    # A fault ends in a MemoryError here, and not in the end of the machine.
    resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
    np.zeros(1)
    for name, read in hostile(folder):
        before = peak_mb()
        try:
            ended = type(read()).__name__
        except StepScoreError as error:
            ended = f"refused: {str(error)[:100]}"
        print(json.dumps([name, ended, peak_mb() - before]), flush=True)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_file_that_claims_gigabytes_takes_megabytes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.episodes.test_memory", str(tmp_path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == 15
    assert [line for line in lines if not line[1].startswith("refused: ")] == []
    assert [line for line in lines if line[2] > MAX_ADDED_MB] == []


if __name__ == "__main__":
    main(Path(sys.argv[1]))
