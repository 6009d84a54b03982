"""An HDF5 file shows nothing but what lies in it, and no more than it can hold."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from stepscore._untrusted.hdf5_access import attribute, check_rows, checked_dataset, member, open_h5
from stepscore.episodes import open_episodes
from stepscore.episodes.video.hdf5_images import Hdf5ArrayView
from stepscore.errors import EpisodeError, StepScoreError, VideoError
from tests.media import numbered, numbers_of

SECRET = b"the content of a file of this machine " * 200
FRAMES = np.stack([numbered(i, 48, 32) for i in range(6)])
NAME = "data/demo_0/obs/agentview_image"
Make = Callable[[h5py.Group, Path], Any]


def external_storage(obs: h5py.Group, secret: Path) -> None:
    size = len(SECRET) // 12 * 12
    obs.create_dataset("agentview_image", (size // 12, 2, 2, 3), "u1", external=[(str(secret), 0, size)])


def external_link(obs: h5py.Group, secret: Path) -> None:
    with h5py.File(secret.with_suffix(".h5"), "w") as other:
        other["frames"] = FRAMES
    obs["agentview_image"] = h5py.ExternalLink(str(secret.with_suffix(".h5")), "/frames")


def virtual_dataset(obs: h5py.Group, secret: Path) -> None:
    with h5py.File(secret.with_suffix(".h5"), "w") as other:
        other["frames"] = FRAMES
    layout = h5py.VirtualLayout(FRAMES.shape, "u1")
    layout[:] = h5py.VirtualSource(str(secret.with_suffix(".h5")), "frames", FRAMES.shape)
    obs.create_virtual_dataset("agentview_image", layout)


def soft_link_to_a_link(obs: h5py.Group, secret: Path) -> None:
    with h5py.File(secret.with_suffix(".h5"), "w") as other:
        other["inside/frames"] = FRAMES
    obs["outside"] = h5py.ExternalLink(str(secret.with_suffix(".h5")), "/inside")
    obs["agentview_image"] = h5py.SoftLink("/data/demo_0/obs/outside/frames")


def link_in_a_circle(obs: h5py.Group, secret: Path) -> None:
    obs["agentview_image"] = h5py.SoftLink("/data/demo_0/obs/other")
    obs["other"] = h5py.SoftLink("/data/demo_0/obs/agentview_image")


def claims_terabytes(obs: h5py.Group, secret: Path) -> None:
    obs.create_dataset("agentview_image", (10**8, 1000, 900, 3), "u1", chunks=(1, 1000, 900, 3))


def chunk_of_a_gigabyte(obs: h5py.Group, secret: Path) -> None:
    obs.create_dataset(
        "agentview_image", (4, 12_000, 12_000, 3), "u1", chunks=(4, 12_000, 12_000, 3), compression="gzip"
    )


def many_pixels(obs: h5py.Group, secret: Path) -> None:
    obs.create_dataset(
        "agentview_image", (1, 20_000, 20_000, 3), "u1", chunks=(1, 1000, 1000, 3), compression="gzip"
    )
    obs["agentview_image"][0, :1000, :1000] = np.random.default_rng(0).integers(0, 255, (1000, 1000, 3))


def row_over_many_chunks(obs: h5py.Group, secret: Path) -> None:
    frames = obs.create_dataset(
        "agentview_image",
        (4000, 600, 600, 3),
        "u1",
        chunks=(4000, 60, 60, 3),
        compression="gzip",
        compression_opts=1,
    )
    part = np.zeros((4000, 60, 60, 3), np.uint8)
    part[:400] = np.random.default_rng(0).integers(0, 255, (400, 60, 60, 3), dtype=np.uint8)
    frames[:, :60, :60] = part


HOSTILE = [external_storage, external_link, virtual_dataset, soft_link_to_a_link, link_in_a_circle,
           claims_terabytes, chunk_of_a_gigabyte, many_pixels, row_over_many_chunks]  # fmt: skip


def robomimic(path: Path, make: Make | None = None) -> Path:
    """A file of two demonstrations, the first one made by ``make``."""
    (path.parent / "secret").write_bytes(SECRET)
    with h5py.File(path, "w") as file:
        for number in range(2):
            obs = file.create_group(f"data/demo_{number}/obs")
            if make is not None and number == 0:
                make(obs, path.parent / "secret")
            else:
                obs["agentview_image"] = FRAMES
    return path


@pytest.mark.parametrize("make", HOSTILE)
def test_nothing_outside_is_read_and_the_other_demonstration_is(tmp_path: Path, make: Make) -> None:
    view = Hdf5ArrayView(robomimic(tmp_path / "x.hdf5", make), NAME, 10.0)
    with pytest.raises(VideoError) as refused:
        view.read([0], 48)
    assert "x.hdf5" in str(refused.value)
    bad, good = open_episodes(tmp_path / "x.hdf5")
    assert numbers_of(good.clip(count=6).frames) == list(range(6))
    with pytest.raises(EpisodeError):
        bad.clip(count=1)


@pytest.mark.parametrize("where", ["/data", "/data/demo_0/obs", "/data/demo_0/rewards"])
def test_a_link_out_of_the_file_is_followed_nowhere(tmp_path: Path, where: str) -> None:
    with h5py.File(tmp_path / "other.h5", "w") as other:
        other["demo_0/obs/agentview_image"] = FRAMES
    with h5py.File(robomimic(tmp_path / "x.hdf5"), "a") as file:
        file.pop(where, None)
        file[where] = h5py.ExternalLink(str(tmp_path / "other.h5"), "/")
    with pytest.raises(StepScoreError, match="link to another file"):
        open_episodes(tmp_path / "x.hdf5")[0].clip(count=1)


def test_a_link_within_the_file_is_followed(tmp_path: Path) -> None:
    def soft_link(obs: h5py.Group, secret: Path) -> None:
        obs["stored"] = FRAMES
        obs["agentview_image"] = h5py.SoftLink("stored")

    view = Hdf5ArrayView(robomimic(tmp_path / "x.hdf5", soft_link), NAME, 10.0)
    assert numbers_of(view.read([1, 4])) == [1, 4]


@pytest.mark.parametrize("compression", [None, "gzip", "lzf"])
def test_frames_are_read_as_they_were_stored(tmp_path: Path, compression: str | None) -> None:
    def stored(obs: h5py.Group, secret: Path) -> None:
        obs.create_dataset(
            "agentview_image", data=FRAMES, compression=compression, chunks=compression and (1, 32, 48, 3)
        )

    view = Hdf5ArrayView(robomimic(tmp_path / "x.hdf5", stored), NAME, 10.0)
    np.testing.assert_array_equal(view.read(range(6)), FRAMES)


def test_black_frames_are_not_taken_for_a_claim(tmp_path: Path) -> None:
    """gzip makes a thousandth of them, which is as much as it can."""

    def black(obs: h5py.Group, secret: Path) -> None:
        obs.create_dataset(
            "agentview_image", data=np.zeros((200, 120, 160, 3), np.uint8), compression="gzip", shuffle=True
        )

    view = Hdf5ArrayView(robomimic(tmp_path / "x.hdf5", black), NAME, 10.0)
    assert not view.read([0, 199]).any()


def test_a_chunk_that_unpacks_to_more_than_its_size_is_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    path = tmp_path / "x.hdf5"
    with h5py.File(path, "w") as file:
        frames = file.create_dataset("f", (2, 500, 500, 3), "u1", chunks=(1, 500, 500, 3), compression="gzip")
        noise = rng.integers(0, 255, 700_000, dtype=np.uint8).tobytes()
        frames.id.write_direct_chunk((0, 0, 0, 0), zlib.compress(noise + bytes(3_000_000), 1))
    with open_h5(path) as file, pytest.raises(VideoError, match="holds more than its"):
        check_rows(checked_dataset(member(file, "f"), "f"), [1, 0], "f")


def test_a_filter_that_is_a_library_of_its_own_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.hdf5"
    with h5py.File(path, "w") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((10,))
        plist.set_filter(307, h5py.h5z.FLAG_OPTIONAL, ())
        h5py.h5d.create(file.id, b"f", h5py.h5t.NATIVE_UINT8, h5py.h5s.create_simple((10,)), plist)
    with open_h5(path) as file, pytest.raises(VideoError, match="filter 307; readable: gzip"):
        checked_dataset(member(file, "f"), "f")


def test_an_attribute_of_any_length_is_left_out(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.hdf5", "w", track_order=True) as file:
        file.attrs["fps"] = 30
        file.create_dataset("big", data=0).attrs.create("note", np.zeros((8000,)))
    with open_h5(tmp_path / "x.hdf5") as file:
        assert attribute(file, "fps") == 30
        assert attribute(file, "missing") is None
        assert len(attribute(member(file, "big"), "note")) == 8000


@pytest.mark.parametrize("kind", ["pipe", "device", "text", "folder"])
def test_only_regular_files_are_opened(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x.hdf5"
    {
        "pipe": lambda: os.mkfifo(path),
        "device": lambda: path.symlink_to("/dev/zero"),
        "text": lambda: path.write_text("text"),
        "folder": path.mkdir,
    }[kind]()
    with pytest.raises(VideoError, match=r"x\.hdf5"):
        Hdf5ArrayView(path, "f", 10.0).info()


def test_fifty_gigabytes_are_opened_and_a_row_is_read(tmp_path: Path) -> None:
    """Not compressed, in a sparse file: listing and reading a row touch nothing else."""

    def large(obs: h5py.Group, secret: Path) -> None:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        plist.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        space = h5py.h5s.create_simple((54_000, 480, 640, 3))
        frames = h5py.h5d.create(obs.id, b"agentview_image", h5py.h5t.NATIVE_UINT8, space, plist)
        h5py.Dataset(frames)[40_000] = numbered(77, 640, 480)

    path = robomimic(tmp_path / "x.hdf5", large)
    assert path.stat().st_size > 49e9
    first = open_episodes(path)[0]
    assert first.info is not None
    assert first.info.n_frames == 54_000
    assert numbers_of(first.clip(indices=[40_000]).frames) == [77]
