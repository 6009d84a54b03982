"""Sixteen frames of an episode against decoding it, and the memory that a long video takes.

    python -m benchmarks.speed.frames [--episodes 4] [--size 640x480]

The first part writes a LeRobot v3.0 dataset (AV1, a keyframe every second frame, all episodes of 480 frames
in one mp4), then takes 16 evenly spaced frames from each episode, from opening the dataset on, and compares
with decoding every frame of every episode in one pass over the file, as fast as PyAV does it: the same
decoder and conversion, nothing sought or matched. CPU seconds are compared, since wall seconds depend on what
else the machine does; both are printed. Frames are checked to be bit-identical first. Exit code 1 under a
ratio of 5, or when a video of 6,000 frames takes more than 200 MB.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import av
import numpy as np

from stepscore.episodes import open_episodes
from stepscore.episodes.lerobot.writing.writer import Recording, write_lerobot
from stepscore.episodes.video.packets import index_video
from stepscore.episodes.video.video_view import VideoView, plan_ranges
from stepscore.types import Frames

CAMERA = "observation.images.top"
LENGTH, WANTED, FPS = 480, 16, 30


class Cost(NamedTuple):
    """Processor and wall seconds of a piece of work."""

    wall_s: float
    cpu_s: float


def measured(work: Callable[[], Any], repeats: int) -> Cost:
    """The cheapest of several runs."""
    costs = []
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        costs.append(Cost(time.perf_counter() - wall, time.process_time() - cpu))
    return min(costs, key=lambda cost: cost.cpu_s)


def scene(episode: int, width: int, height: int) -> Iterator[dict[str, Frames]]:
    """A textured table over which a block moves: neither as easy as a drawing nor as hard as noise."""
    rng = np.random.default_rng(episode)
    coarse = rng.integers(60, 180, (height // 8 + 1, width // 8 + 1, 3), dtype=np.uint8)
    table = coarse.repeat(8, 0).repeat(8, 1)[:height, :width]
    side = height // 6
    for i in range(LENGTH):
        image = table.copy()
        left, top = int((width - side) * i / LENGTH), int((height - side) * (0.5 + 0.4 * np.sin(i / 40)))
        image[top : top + side, left : left + side] = (220, 40 + episode % 8 * 20, 50)
        yield {CAMERA: image}


def sixteen_each(root: Path) -> list[Frames]:
    return [episode.clip("top", count=WANTED).frames for episode in open_episodes(root)]


def decode_everything(path: Path) -> Iterator[Frames]:
    with av.open(str(path)) as container:
        # The same as the reader: one thread, so that CPU seconds compare like with like.
        container.streams.video[0].codec_context.thread_count = 1
        for frame in container.decode(video=0):
            yield np.asarray(frame.to_ndarray(format="rgb24"), dtype=np.uint8)


def frames_benchmark(episodes: int, width: int, height: int, repeats: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "dataset"
        recordings = (Recording("push the block", scene(k, width, height)) for k in range(episodes))
        write_lerobot(root, recordings, fps=FPS, codec="av1")
        path = next(root.glob("videos/*/*/*.mp4"))
        print(
            f"{episodes} episodes of {LENGTH} frames, {width}x{height}, AV1 GOP 2, in one mp4 of "
            f"{path.stat().st_size / 1e6:.1f} MB"
        )
        picked = np.round(np.linspace(0, LENGTH - 1, WANTED)).astype(int)
        wanted = {LENGTH * k + int(i) for k in range(episodes) for i in picked}
        oracle = [frame for number, frame in enumerate(decode_everything(path)) if number in wanted]
        assert np.array_equal(np.concatenate(sixteen_each(root)), np.stack(oracle)), "frames differ"
        index = index_video(path)
        packets = sum(run.last - run.first + 1 for run in plan_ranges(index, sorted(wanted)))
        fast = measured(lambda: sixteen_each(root), repeats)
        slow = measured(lambda: sum(1 for _ in decode_everything(path)), repeats)
        indexing = measured(lambda: index_video(path), repeats)
    ratio = slow.cpu_s / fast.cpu_s
    print(f"frames decoded: {packets} of {episodes * LENGTH} for {episodes * WANTED} wanted")
    print(f"indexing the file, once: {1e3 * indexing.cpu_s:.1f} ms")
    for name, cost in ((f"{WANTED} frames an episode", fast), ("every frame", slow)):
        each = Cost(*(1e3 * seconds / episodes for seconds in cost))
        print(f"{name:>22}: {each.cpu_s:8.1f} ms CPU an episode ({each.wall_s:.1f} ms wall)")
    print(f"ratio: {ratio:.1f} in CPU seconds, {slow.wall_s / fast.wall_s:.1f} in wall seconds (at least 5)")
    return ratio


def write_long_video(path: Path, n: int) -> None:
    """A 640x480 H.264 video with a keyframe every 250 frames, as cheap to make as one can be."""
    frame = av.VideoFrame.from_ndarray(next(scene(0, 640, 480))[CAMERA], format="rgb24").reformat(
        format="yuv420p"
    )
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=FPS, options={"preset": "ultrafast", "g": "250"})
        stream.width, stream.height, stream.pix_fmt = 640, 480, "yuv420p"
        for i in range(n):
            frame.pts = i
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def memory_mb(field: str) -> float:
    """VmRSS (now) or VmHWM (at most so far) of this process. Linux only.

    Not getrusage, whose peak a child inherits from the process that started it.
    """
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith(field))


def report_memory(path: Path) -> None:
    """Print how many MB 16 frames of the video add to this process at most."""
    before = memory_mb("VmRSS")
    view = VideoView(path)
    view.read(np.round(np.linspace(0, view.info().n_frames - 1, WANTED)).astype(int).tolist())
    print(memory_mb("VmHWM") - before)


def memory_benchmark() -> float:
    added = {}
    with tempfile.TemporaryDirectory() as folder:
        for n in (750, 6000):
            path = Path(folder) / f"{n}.mp4"
            write_long_video(path, n)
            command = [sys.executable, __file__, "--report-memory", str(path)]
            added[n] = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    for n, megabytes in added.items():
        print(f"16 frames of a 640x480 video of {n} frames add {megabytes:.0f} MB")
    return added[6000]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--episodes", type=int, default=4)
    parser.add_argument("--size", default="640x480")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--report-memory", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.report_memory:
        report_memory(options.report_memory)
        return
    width, height = (int(part) for part in options.size.split("x"))
    ratio = frames_benchmark(options.episodes, width, height, options.repeats)
    added_mb = memory_benchmark()
    sys.exit(ratio < 5 or added_mb > 200)


if __name__ == "__main__":
    main()
