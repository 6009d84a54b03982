"""HDF5 files of robomimic, LIBERO and ACT."""

from __future__ import annotations

import builtins
import io
import json
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from PIL import Image

from stepscore.episodes import open_episodes
from stepscore.episodes.video.hdf5_images import Hdf5ArrayView
from stepscore.errors import MissingExtraError, OptionError, SourceError, VideoError
from stepscore.types import Frames
from tests.episodes.layout import lay
from tests.media import numbered, numbers_of

ENV = {"env_name": "PickPlaceCan", "env_kwargs": {"control_freq": 10, "robots": ["Panda"]}}


def images(n: int, first: int = 0) -> Frames:
    return np.stack([numbered(first + i, 48, 32) for i in range(n)])


def demos(
    path: Path,
    *demonstrations: Mapping[str, Any],
    attrs: Mapping[str, object] | None = None,
    cameras: Mapping[str, int] | None = None,
) -> Path:
    """A robomimic file; each demonstration gives ``rewards`` and ``attrs``, its first frame numbers it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        data = file.create_group("data")
        data.attrs.update(attrs if attrs is not None else {"env_args": json.dumps(ENV)})
        for number, fields in enumerate(demonstrations):
            demo = data.create_group(f"demo_{number}")
            demo.attrs.update(fields.get("attrs", {}))
            for camera, first in (cameras or {"agentview_image": 0}).items():
                demo[f"obs/{camera}"] = images(6, 100 * number + first)
            demo["obs/robot0_eef_pos"] = np.zeros((6, 3))
            demo["obs/agentview_depth"] = np.zeros((6, 32, 48), np.uint8)
            demo["dones"] = np.eye(1, 6, 5)[0]
            if "rewards" in fields:
                demo["rewards"] = fields["rewards"]
    return path


def act(path: Path, attrs: Mapping[str, object] | None = None, *, encoded: bool = False) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        file.attrs.update({"sim": False, "compress": encoded, **(attrs or {})})
        for camera, first in (("cam_left_wrist", 50), ("cam_high", 0)):
            frames = images(5, first)
            file[f"observations/images/{camera}"] = padded(frames) if encoded else frames
        file["observations/qpos"] = np.zeros((5, 14))
        file["action"] = np.zeros((5, 14))
    return path


def padded(frames: Frames) -> np.ndarray[Any, np.dtype[np.uint8]]:
    rows = []
    for frame in frames:
        buffer = io.BytesIO()
        Image.fromarray(frame).save(buffer, "JPEG", quality=95)
        rows.append(np.frombuffer(buffer.getvalue(), np.uint8))
    out = np.zeros((len(rows), max(map(len, rows))), np.uint8)
    for place, row in enumerate(rows):
        out[place, : len(row)] = row
    return out


def test_robomimic_demonstrations_are_episodes(tmp_path: Path) -> None:
    cameras = {"robot0_eye_in_hand_image": 50, "agentview_image": 0}
    path = demos(
        tmp_path / "can.hdf5", {"rewards": [0, 0, 0, 0, 0, 1]}, {"rewards": [0] * 6}, {}, cameras=cameras
    )
    episodes = open_episodes(path)
    assert episodes.reader == "hdf5"
    assert [e.id for e in episodes] == ["demo_0", "demo_1", "demo_2"]
    assert [e.labels.success for e in episodes] == [True, False, None]
    assert episodes[0].labels.success_mode == "ever"
    second = episodes[1]
    assert (second.instruction, second.task, second.robot) == ("Pick Place Can", "PickPlaceCan", "Panda")
    assert list(second.views) == ["agentview", "robot0_eye_in_hand"]
    clip = second.clip("robot0_eye_in_hand", indices=[4, 0, 0])
    assert numbers_of(clip.frames) == [154, 150, 150]
    assert np.allclose(clip.timestamps, [0.4, 0, 0])
    assert second.info is not None
    assert second.info[:5] == (6, 10.0, 48, 32, pytest.approx(0.6))


def test_libero_images_come_out_upright_and_with_their_instruction(tmp_path: Path) -> None:
    problem = {"language_instruction": list('"open the drawer"'), "problem_name": "libero"}
    attrs = {"problem_info": json.dumps(problem), "env_args": json.dumps({"env_name": "Libero_Kitchen"})}
    for convention in ("opengl", "opencv"):
        path = tmp_path / f"{convention}.hdf5"
        demos(path, {}, attrs={**attrs, "macros_image_convention": convention}, cameras={"agentview_rgb": 7})
    upside_down = open_episodes(tmp_path / "opengl.hdf5")[0]
    upright = open_episodes(tmp_path / "opencv.hdf5")[0]
    assert (upright.instruction, upright.task) == ("open the drawer", "open the drawer")
    stored, turned = upright.clip(count=6).frames, upside_down.clip(count=6).frames
    assert np.array_equal(turned, stored[:, ::-1])
    assert upright.info is not None
    assert upright.info.fps == 20.0


def test_an_episode_may_have_its_own_instruction(tmp_path: Path) -> None:
    attrs = {"ep_meta": json.dumps({"lang": "close the left drawer"})}
    assert open_episodes(demos(tmp_path / "a.h5", {"attrs": attrs}))[0].instruction == "close the left drawer"


def test_shaped_rewards_say_nothing_of_success(tmp_path: Path) -> None:
    episodes = open_episodes(demos(tmp_path / "a.h5", {"rewards": [0.1, 0.4, 0.9, 1, 1, 1]}, {"rewards": []}))
    assert [e.labels.success for e in episodes] == [None, None]


def test_act_files_are_one_episode_each(tmp_path: Path) -> None:
    act(tmp_path / "fold_towel" / "episode_0.hdf5")
    act(tmp_path / "fold_towel" / "episode_1.hdf5", {"instruction": "fold it twice", "fps": 30})
    first, second = open_episodes(tmp_path)
    assert (first.id, first.instruction) == ("fold_towel/episode_0", "fold towel")
    assert (second.id, second.instruction) == ("fold_towel/episode_1", "fold it twice")
    assert list(first.views) == ["cam_high", "cam_left_wrist"]
    assert first.info is not None
    assert second.info is not None
    assert (first.info.fps, second.info.fps) == (50.0, 30.0)
    assert numbers_of(first.clip("cam_left_wrist", count=5).frames) == [50, 51, 52, 53, 54]


def test_an_act_file_may_be_the_source(tmp_path: Path) -> None:
    (episode,) = open_episodes(act(tmp_path / "fold_towel" / "episode_0.hdf5"))
    assert (episode.id, episode.instruction) == ("episode_0", "fold towel")


def test_compressed_act_files_are_decoded(tmp_path: Path) -> None:
    raw, packed = act(tmp_path / "raw.hdf5"), act(tmp_path / "packed.hdf5", encoded=True)
    (one,), (other,) = open_episodes(raw), open_episodes(packed)
    expected, given = one.clip("cam_high", count=5).frames, other.clip("cam_high", count=5).frames
    assert numbers_of(given) == numbers_of(expected) == [0, 1, 2, 3, 4]
    assert np.abs(given.astype(int) - expected).mean() < 6
    assert len(one.fingerprint) == len(other.fingerprint) == 64


def test_a_folder_of_files_prefixes_ids_and_can_tell_policies(tmp_path: Path) -> None:
    demos(tmp_path / "pi0" / "can.hdf5", {}, {})
    demos(tmp_path / "act" / "can.hdf5", {})
    episodes = open_episodes(tmp_path, policy_from=1)
    assert [(e.id, e.policy) for e in episodes] == [
        ("act/can/demo_0", "act"),
        ("pi0/can/demo_0", "pi0"),
        ("pi0/can/demo_1", "pi0"),
    ]
    with pytest.raises(OptionError, match=r"1 = act"):
        open_episodes(tmp_path, policy_from=2)


def test_frames_are_resized_like_any_other(tmp_path: Path) -> None:
    (episode,) = open_episodes(demos(tmp_path / "a.h5", {}))
    assert episode.clip(count=2, size=24).frames.shape == (2, 16, 24, 3)


def test_views_are_picklable_and_their_digest_tells_them_apart(tmp_path: Path) -> None:
    path = demos(tmp_path / "a.h5", {}, {})
    one, other = open_episodes(path)
    assert pickle.loads(pickle.dumps(one)) == one
    assert one.fingerprint != other.fingerprint
    view = Hdf5ArrayView(path, "data/demo_0/obs/agentview_image", 10.0)
    assert view.digest() == pickle.loads(pickle.dumps(view)).digest()
    assert view.digest() != Hdf5ArrayView(path, view.dataset, 10.0, bottom_up=True).digest()


def test_a_damaged_file_is_an_error_alone_and_a_problem_among_others(tmp_path: Path) -> None:
    good = demos(tmp_path / "good.hdf5", {})
    lay(tmp_path, "bad.hdf5", content="this is text")
    (tmp_path / "cut.hdf5").write_bytes(good.read_bytes()[:3000])
    with h5py.File(tmp_path / "other.hdf5", "w") as file:
        file["stuff"] = [1]
    with h5py.File(tmp_path / "none.hdf5", "w") as file:
        file.create_group("data")
    demos(tmp_path / "json.hdf5", {}, attrs={"env_args": "{"})
    (tmp_path / "empty.hdf5").touch()
    for name in ("bad", "cut", "other", "none", "json"):
        with pytest.raises(SourceError, match=name):
            open_episodes(tmp_path / f"{name}.hdf5")
    episodes = open_episodes(tmp_path)
    assert [e.id for e in episodes] == ["good/demo_0"]
    assert sorted(problem.where for problem in episodes.problems) == [
        "bad.hdf5",
        "cut.hdf5",
        "empty.hdf5",
        "json.hdf5",
        "none.hdf5",
        "other.hdf5",
    ]


def test_what_breaks_after_listing_is_a_video_error(tmp_path: Path) -> None:
    path = demos(tmp_path / "a.h5", {})
    (episode,) = open_episodes(path)
    with h5py.File(path, "a") as file:
        del file["data/demo_0/obs/agentview_image"]
    with pytest.raises(VideoError, match="agentview_image"):
        episode.clip(count=1)
    with h5py.File(path, "a") as file:
        file["data/demo_0/obs/agentview_image"] = np.zeros((3, 2))
    with pytest.raises(VideoError, match="expected"):
        episode.clip(count=1)
    path.unlink()
    with pytest.raises(VideoError, match="Cannot read"):
        episode.views["agentview"].digest()


def test_an_episode_with_no_frames_says_so(tmp_path: Path) -> None:
    path = demos(tmp_path / "a.h5", {})
    with h5py.File(path, "a") as file:
        del file["data/demo_0/obs/agentview_image"]
        file["data/demo_0/obs/agentview_image"] = np.zeros((0, 32, 48, 3), np.uint8)
    with pytest.raises(VideoError, match="no frames"):
        open_episodes(path)[0].clip(count=1)


def test_a_demonstration_without_cameras_is_listed_without_views(tmp_path: Path) -> None:
    path = demos(tmp_path / "low_dim.hdf5", {"rewards": [0, 1]}, cameras={"proprio": 0})
    with h5py.File(path, "a") as file:
        del file["data/demo_0/obs/proprio"]
    (episode,) = open_episodes(path)
    assert (dict(episode.views), episode.labels.success) == ({}, True)


def test_without_h5py_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = demos(tmp_path / "a.h5", {})
    real = builtins.__import__

    def no_h5py(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "h5py":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_h5py)
    with pytest.raises(MissingExtraError, match=r"stepscore\[hdf5\]"):
        open_episodes(path)


def test_a_folder_of_videos_with_logs_in_hdf5_is_a_folder_of_videos(tmp_path: Path) -> None:
    lay(tmp_path, "pour/a.mp4")
    with h5py.File(tmp_path / "pour" / "trajectory.h5", "w") as file:
        file["joints"] = np.zeros(3)
    assert open_episodes(tmp_path).reader == "folder"
