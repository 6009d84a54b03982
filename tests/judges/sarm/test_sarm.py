"""The judge sarm: every frame is looked at once, and a video that is still recorded is scored as the whole one is."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepscore.episodes import Clip, Episode, open_episodes
from stepscore.episodes.lerobot.signals import read_state
from stepscore.errors import CapabilityError, EpisodeError, ModelError, OptionError, UnknownNameError
from stepscore.judges import get_judge
from stepscore.judges.sarm.judge import Sarm
from stepscore.judges.sarm.session import trailing_mean_s
from stepscore.models import Generate, Prompt, Turn, get_model
from stepscore.models.sarm.model import SarmModel
from stepscore.runs import CallOptions
from stepscore.runs.dry_run import dry_run
from stepscore.runs.protocol import protocol_of
from tests.judges.asked import run_judge
from tests.models.sarm import tiny_sarm
from tests.paths import TINY_SIM


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sarm")


@pytest.fixture(scope="module")
def clip(place: Path) -> str:
    return f"hf/{tiny_sarm.clip_folder(place / 'clip')}"


@pytest.fixture(scope="module")
def causal(place: Path, clip: str) -> SarmModel:
    made = get_model(f"sarm/{tiny_sarm.checkpoint(place / 'causal', clip, views=('corner', 'gripper'))}")
    assert isinstance(made, SarmModel)
    return made


@pytest.fixture(scope="module")
def episode() -> Episode:
    return open_episodes(TINY_SIM)[3]


def curve_of(judge: Sarm, episode: Episode, out: Path) -> dict[str, np.ndarray]:
    run = run_judge(judge, episode, out)
    assert run.judgements().to_pylist()[0]["error"] is None, run.judgements().to_pylist()
    table = run.curves()
    return {
        name: np.array(table[name].to_pylist(), dtype=float)
        for name in table.column_names
        if name not in ("episode_id", "judge", "protocol")
    }


def test_a_run_has_progress_stage_and_probabilities_at_every_frame(
    causal: SarmModel, episode: Episode, tmp_path: Path
) -> None:
    found = curve_of(Sarm(causal), episode, tmp_path)
    frames = len(next(iter(episode.views.values())).timestamps())
    assert len(found["progress"]) == frames
    chances = np.stack([found[f"p_stage_{k}"] for k in range(3)], axis=1)
    np.testing.assert_allclose(chances.sum(1), 1.0, atol=1e-5)
    stage = chances.argmax(1)
    np.testing.assert_array_equal(found["stage"], stage)
    points = np.array(tiny_sarm.PROCEDURE.breakpoints)
    wanted = points[stage] + found["share"] * (points[stage + 1] - points[stage])
    np.testing.assert_allclose(found["progress"], wanted, atol=1e-5)
    np.testing.assert_allclose(found["dense"], found["progress"])
    assert "sparse" in found
    assert "raw" not in found


@pytest.mark.parametrize("smooth_s", [0.0, 0.35])
@pytest.mark.parametrize("decode", ["argmax", "expected"])
def test_a_video_that_is_still_recorded_is_scored_as_the_whole_one(
    causal: SarmModel, episode: Episode, tmp_path: Path, smooth_s: float, decode: Any
) -> None:
    judge = Sarm(causal, smooth_s=smooth_s, decode=decode)
    whole = curve_of(judge, episode, tmp_path)
    session = judge.open(episode.instruction, list(episode.views))
    n, at, parts = len(whole["progress"]), 0, []
    for step in [1, 2, 1, 5, 3, *[4] * 20]:
        indices = range(at, min(at + step, n))
        if not indices:
            break
        clips = {
            view: episode.clip(view, indices=indices, size=causal.frame_encoder.side)
            for view in episode.views
        }
        parts.append(session.add(clips))
        at += step
    for name in ("progress", "share", "p_stage_1", "sparse"):
        online = np.concatenate([p.progress if name == "progress" else p.channels[name] for p in parts])
        np.testing.assert_allclose(online, whole[name], atol=2e-6, err_msg=name)
    assert len(session._times) < n  # a video of hours stays small


def test_what_comes_after_changes_nothing_before_it(
    causal: SarmModel, episode: Episode, place: Path, clip: str
) -> None:
    frames = {v: episode.clip(v, indices=range(16), size=32) for v in episode.views}
    other = {v: Clip(255 - c.frames, c.timestamps, c.indices) for v, c in frames.items()}
    mixed = [np.concatenate([frames[v].frames[:9], other[v].frames[9:]]) for v in causal.config.views]
    plain = [frames[v].frames for v in causal.config.views]
    times, all_frames = frames["corner"].timestamps, np.arange(16)

    def progress(model: SarmModel, views: list[np.ndarray]) -> np.ndarray:
        features = model.encode_images(views)
        return model.predict(times, features, "x", tiny_sarm.DRAWER, all_frames).heads["dense"].progress

    before, after = progress(causal, plain), progress(causal, mixed)
    np.testing.assert_allclose(before[:9], after[:9], atol=1e-6)
    assert np.abs(before[9:] - after[9:]).max() > 1e-3
    both = tiny_sarm.checkpoint(place / "both", clip, causal=False, views=("corner", "gripper"))
    sees = SarmModel(str(both))
    assert np.abs(progress(sees, plain) - progress(sees, mixed))[:9].max() > 1e-4


def test_every_frame_is_encoded_once(
    causal: SarmModel, episode: Episode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    encoder = type(causal.frame_encoder)
    plain = encoder.encode_images
    monkeypatch.setattr(
        encoder, "encode_images", lambda self, frames: seen.append(len(frames)) or plain(self, frames)
    )
    found = curve_of(Sarm(causal), episode, tmp_path)
    assert sum(seen) == len(found["progress"]) * len(episode.views)


def test_fewer_points_are_the_same_points(causal: SarmModel, episode: Episode, tmp_path: Path) -> None:
    whole = curve_of(Sarm(causal), episode, tmp_path / "a")
    some = curve_of(Sarm(causal, fps=3.0), episode, tmp_path / "b")
    assert 2 < len(some["progress"]) < len(whole["progress"])
    at = np.searchsorted(whole["time_s"], some["time_s"] - 1e-6)
    np.testing.assert_allclose(some["progress"], whole["progress"][at], atol=2e-6)
    assert len(curve_of(Sarm(causal, max_frames=5), episode, tmp_path / "c")["progress"]) == 5


def test_a_state_is_looked_at_where_the_checkpoint_takes_one(
    clip: str, episode: Episode, tmp_path: Path
) -> None:
    columns = ("observation.state",)
    rows = read_state(episode, columns)
    folder = tiny_sarm.checkpoint(tmp_path / "s", clip, state=columns, state_size=rows.shape[1])
    judge = Sarm(SarmModel(str(folder)))
    whole = curve_of(judge, episode, tmp_path / "run")
    frames = episode.clip("corner", indices=range(6), size=32)
    online = judge.open(episode.instruction, ["corner"]).add(frames, rows[:6])
    np.testing.assert_allclose(online.progress, whole["progress"][:6], atol=2e-6)
    other = judge.open(episode.instruction, ["corner"]).add(frames, rows[:6] + 5.0)
    assert np.abs(other.progress - online.progress).max() > 1e-4
    with pytest.raises(OptionError, match=r"observation\.state"):
        judge.open(episode.instruction, ["corner"]).add(frames)


def test_smoothing_and_checkpoint_are_in_the_protocol(causal: SarmModel) -> None:
    plain, smooth = protocol_of(Sarm(causal)), protocol_of(Sarm(causal, smooth_s=0.5))
    assert plain.differences(smooth) == ["judge.options.smooth_s is 0.0, not 0.5"]
    model = plain.content["model"]
    assert isinstance(model, dict)
    assert {"weights", "encoder", "causal", "mode"} <= set(model)


def test_a_dry_run_counts_a_call_and_every_image(causal: SarmModel, episode: Episode) -> None:
    counted = dry_run([episode], Sarm(causal), CallOptions(cache=False))
    frames = len(next(iter(episode.views.values())).timestamps())
    assert (counted.failed, counted.calls, counted.images) == (0, 1, 2 * frames)


def test_the_trailing_mean_looks_back_so_many_seconds() -> None:
    rng = np.random.default_rng(0)
    times, values = np.cumsum(rng.uniform(0.05, 0.2, 30)), rng.random(30)
    naive = [np.mean([v for s, v in zip(times, values, strict=True) if t - 0.5 < s <= t]) for t in times]
    np.testing.assert_allclose(trailing_mean_s(times, values, 0.5), naive, atol=1e-12)


def test_a_bidirectional_checkpoint_scores_no_video_that_is_still_recorded(place: Path, clip: str) -> None:
    folder = tiny_sarm.checkpoint(place / "offline", clip, causal=False)
    with pytest.raises(CapabilityError, match="-T causal=true"):
        Sarm(SarmModel(str(folder))).open("open the drawer", ["corner"])


def test_a_task_it_was_not_trained_on_is_an_error_that_lists_those_it_was(
    place: Path, clip: str, episode: Episode, tmp_path: Path
) -> None:
    folder = tiny_sarm.checkpoint(place / "two", clip, tasks=("push a", "push b"))
    run = run_judge(Sarm(SarmModel(str(folder))), episode, tmp_path)
    (row,) = run.judgements().to_pylist()
    assert "push a, push b" in row["error"]
    with pytest.raises(EpisodeError, match="push a"):
        Sarm(SarmModel(str(folder))).open("dance", ["corner"])


def test_a_view_it_was_trained_with_must_be_there(
    causal: SarmModel, episode: Episode, tmp_path: Path
) -> None:
    run = run_judge(Sarm(causal), episode, tmp_path, views=["corner"])
    assert "gripper" in run.judgements().to_pylist()[0]["error"]
    with pytest.raises(UnknownNameError, match="gripper"):
        Sarm(causal).open("open the drawer", ["corner"])


def test_frames_are_added_in_order(causal: SarmModel, episode: Episode) -> None:
    session = Sarm(causal).open(episode.instruction, list(episode.views))
    clips = {view: episode.clip(view, indices=[2, 3], size=32) for view in episode.views}
    session.add(clips)
    with pytest.raises(OptionError, match="in order"):
        session.add(clips)


def test_the_model_string_and_what_it_refuses(causal: SarmModel, clip: str, tmp_path: Path) -> None:
    assert causal.name.startswith("sarm/")
    again = pickle.loads(pickle.dumps(causal))
    assert again.describe() == causal.describe()
    with pytest.raises(ModelError, match="stepscore train sarm"):
        _ = SarmModel(str(tmp_path)).config
    with pytest.raises(CapabilityError, match="--judge sarm"):
        causal.generate(Generate(Prompt((Turn("user", ("Is it open?",)),))))
    with pytest.raises(CapabilityError, match="sarm/CHECKPOINT"):
        get_judge("sarm", model="mock/yes")
    with pytest.raises(OptionError, match="argmax"):
        Sarm(causal, decode="mean")  # type: ignore[arg-type]


def test_another_encoder_than_it_was_trained_on_is_refused(place: Path, clip: str, tmp_path: Path) -> None:
    from tests.models import tiny

    made = tiny.tokenizer()
    other = tiny.save(tmp_path, tiny.qwen3vl(made), made)
    folder = tiny_sarm.checkpoint(place / "moved", clip)
    with pytest.raises(ModelError, match="another encoder"):
        _ = SarmModel(str(folder), encoder=f"hf/{other}").frame_encoder
    (place / "clip2").mkdir()
    for path in Path(clip.removeprefix("hf/")).iterdir():
        (place / "clip2" / path.name).write_bytes(path.read_bytes())
    assert SarmModel(str(folder), encoder=f"hf/{place / 'clip2'}").frame_encoder.side == 32
