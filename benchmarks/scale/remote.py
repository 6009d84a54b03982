"""A dataset on an S3-compatible server and on the Hub: bytes read against the bytes of the frames that were needed.

``python -m benchmarks.scale.remote`` writes a LeRobot dataset of 24 episodes and two cameras for each codec, puts it
into a bucket (moto) and onto a small Hub (that of the tests, asked by the real client), both on loopback, and reads
16 frames of one camera of every fourth episode, as ``topreward`` would. Needed are the packets from the keyframe
before a frame up to the frame itself; beside them, headers, the fingerprint and the columns of labels are read. Fails
where more than half as much again is read as needed, or frames differ.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from stepscore.episodes import Episodes, open_episodes
from stepscore.episodes.lerobot.writing import Codec, Recording, write_lerobot
from stepscore.episodes.remote import RemoteVideo
from stepscore.episodes.sampling import sample_indices
from stepscore.episodes.video.video_view import VideoView, plan_ranges
from tests.episodes.remote.fake_hub import fake_hub, use_hub
from tests.episodes.remote.stores import s3_environment, s3_server, upload

EPISODES, FRAMES, FPS, EVERY, COUNT = 24, 200, 30, 4, 16
LIMIT = 1.5
"""Most bytes read for each byte needed."""


def recordings() -> Iterator[Recording]:
    """Noisy scenes that move: packets of about the size of a real camera's at 240 x 320."""
    rng = np.random.default_rng(20)
    scene = rng.integers(0, 255, (30, 40, 3), dtype=np.uint8).repeat(8, 0).repeat(8, 1)
    for number in range(EPISODES):
        yield Recording(f"task {number % 4}", steps(scene, number))


def steps(scene: np.ndarray, number: int) -> Iterator[dict[str, object]]:
    rng = np.random.default_rng(number)
    for frame in range(FRAMES):
        image = np.roll(scene, 2 * frame + 7 * number, axis=1)
        noisy = np.clip(image + rng.integers(-8, 8, image.shape), 0, 255).astype(np.uint8)
        yield {
            "observation.images.top": noisy,
            "observation.images.wrist": noisy[::-1],
            "observation.state": np.full(7, frame, dtype=np.float32),
            "next.success": frame > FRAMES // 2,
        }


def needed_bytes(view: VideoView, indices: list[int]) -> int:
    """Bytes of the packets from the keyframe of each frame up to the frame."""
    index, frames = view.frames_in_file()
    parts = plan_ranges(index, sorted(frames[indices].tolist()))
    return int(sum(index.packet_bytes[part.first : part.last + 1, 1].sum() for part in parts))


def read_frames(here: Episodes, there: Episodes) -> int:
    """Read frames of some episodes on both sides; returns the bytes needed for them."""
    needed = 0
    for local, remote in zip(here[::EVERY], there[::EVERY], strict=True):
        indices = sample_indices(local.view("top").timestamps(), local.id, count=COUNT).tolist()
        far, near = remote.view("top"), local.view("top")
        assert isinstance(near, VideoView)
        assert isinstance(far, RemoteVideo)
        assert local.fingerprint == remote.fingerprint
        if not np.array_equal(near.read(indices), far.read(indices)):
            sys.exit(f"{local.id}: frames differ")
        needed += needed_bytes(near, indices)
    return needed


class Sent(NamedTuple):
    """What a server sent."""

    video: int
    everything: int
    requests: int


@contextmanager
def bucket(local: Path, folder: Path) -> Iterator[tuple[str, Callable[[], Sent]]]:
    """Put a dataset into a bucket; yields its address, and what tells how much was sent since."""
    with s3_server() as (address, traffic), pytest.MonkeyPatch.context() as patch:
        for name, value in {**s3_environment(address), "STEPSCORE_CACHE": str(folder)}.items():
            patch.setenv(name, value)
        import s3fs

        s3fs.S3FileSystem.clear_instance_cache()
        s3fs.S3FileSystem().mkdir(f"robots-{local.name}")
        source = upload(local, f"s3://robots-{local.name}/blocks")
        traffic.sent.clear()
        traffic.requests = 0

        def sent() -> Sent:
            video = sum(
                count for path, count in traffic.sent.items() if path.endswith(".mp4") and "top" in path
            )
            return Sent(video, traffic.total, traffic.requests)

        yield source, sent


@contextmanager
def repository(local: Path, folder: Path) -> Iterator[tuple[str, Callable[[], Sent]]]:
    """Put a dataset onto a Hub; yields its repo id, and what tells how much was sent since."""
    with fake_hub() as hub, pytest.MonkeyPatch.context() as patch:
        use_hub(patch, hub, folder)
        hub.page = 1000
        hub.upload(local, "robots/blocks")

        def sent() -> Sent:
            video = sum(asked.sent for asked in hub.asked if ".mp4" in asked.path and "top" in asked.path)
            return Sent(video, sum(asked.sent for asked in hub.asked), len(hub.asked))

        yield "robots/blocks", sent


STORES = {"s3": bucket, "hub": repository}


def measure(codec: Codec, folder: Path) -> Iterator[tuple[float, str]]:
    """Yield bytes of video read for each byte needed, and a line of the table, for each store."""
    local = write_lerobot(folder / codec, recordings(), fps=FPS, codec=codec, episodes_per_file=12)
    whole = sum(path.stat().st_size for path in local.rglob("*") if path.is_file())
    for name, store in STORES.items():
        with store(local, folder / f"cache-{codec}-{name}") as (source, sent):
            needed = read_frames(open_episodes(local), open_episodes(source))
            video, everything, requests = sent()
        line = (
            f"{name:5} {codec:5} {whole / 1e6:9.2f} {needed / 1e6:9.2f} {video / 1e6:9.2f} {everything / 1e6:9.2f} "
            f"{video / needed:8.3f} {everything / needed:8.3f} {requests:9}"
        )
        yield video / needed, line


def main() -> None:
    print(
        f"{EPISODES} episodes of {FRAMES} frames, two cameras; {COUNT} frames of one camera of {EPISODES // EVERY}\n"
        "store codec   dataset    needed     video       all   video/     all/  requests\n"
        "                   MB        MB   read MB   read MB   needed   needed"
    )
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for codec in ("h264", "av1"):
            for ratio, line in measure(codec, Path(folder)):
                print(line, flush=True)
                worst = max(worst, ratio)
    if worst > LIMIT:
        sys.exit(f"{worst:.2f} bytes of video read for each byte needed; at most {LIMIT}.")


if __name__ == "__main__":
    main()
