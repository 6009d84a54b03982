"""The camera check of a domain gate: the cameras it is trained on, what it lets pass, and its place in the file."""

from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from stepscore.episodes import open_episodes
from stepscore.errors import ModelError, OptionError
from stepscore.models import get_model
from stepscore.models.embedded import (
    CALIBRATION,
    FOLDER,
    GATE_FILE,
    DomainGate,
    gate_digest,
    load_gate,
    save_gate,
)
from stepscore.models.embedded.model import EmbeddedModel
from stepscore.models.qwen3vl import image_features
from stepscore.models.qwen3vl.network import Qwen3VLNetwork
from stepscore.sim import VIEWS, RolloutPlan, SimView
from stepscore.sim.env import choose_gl_backend
from stepscore.training.gate import camera_training
from stepscore.training.gate.camera_training import (
    CameraImage,
    add_camera_check,
    gate_views,
    train_camera_check,
)
from stepscore.training.gate.cameras import MARGIN, angle, held_out, random_camera, rendered, training_camera
from stepscore.training.gate.config import CameraConfig, GateConfig
from stepscore.training.gate.training import train_gate
from stepscore.types import Frames
from tests.models import tiny
from tests.models.embedded import scenes
from tests.paths import TINY_SIM

CONFIG = CameraConfig(scenes=10, n_augmentations=1, hidden_dim=16, steps=300)
TRAINED = [VIEWS["close"], VIEWS["left"]]


@pytest.fixture(scope="module")
def network() -> Qwen3VLNetwork:
    return tiny.network()


@pytest.fixture(scope="module")
def gate(network: Qwen3VLNetwork) -> DomainGate:
    """A gate that knows the drawn scenes and has no camera check."""
    config = GateConfig(components=16, hidden_dim=32, steps=200, n_ood_augmentations=1, bank_per_scene=40)
    return train_gate(network, scenes.in_distribution(), scenes.images("other", 24), config)


def drawn(seed: int) -> list[CameraImage]:
    """The drawn scenes from the camera ``close``, and upside down, as if another had taken them."""
    rng = np.random.default_rng(seed)
    return [
        CameraImage(np.ascontiguousarray(draw(rng)[::step]), view, number)
        for number in range(10)
        for draw in (scenes.trained, scenes.ring) * 2
        for view, step in (("close", 1), ("", -1))
    ]


class TestTrainingCameras:
    def test_none_looks_from_a_direction_that_is_held_out_or_near_another_view(self) -> None:
        rng = np.random.default_rng(0)
        others = [VIEWS["front"], VIEWS["top"]]
        for _ in range(500):
            camera = training_camera(rng, TRAINED)
            if min(angle(camera, view) for view in TRAINED) > MARGIN + 2:
                assert not held_out(camera.azimuth, camera.elevation)
            assert min(angle(camera, view) for view in others) > MARGIN

    def test_those_in_a_trained_direction_are_nearer_or_farther_than_any_view_of_the_simulator(self) -> None:
        rng = np.random.default_rng(1)
        drawn = [training_camera(rng, TRAINED) for _ in range(500)]
        beside = [c for c in drawn if min(angle(c, view) for view in TRAINED) < MARGIN]
        factors = [c.distance / min(TRAINED, key=lambda view: angle(c, view)).distance for c in beside]
        assert len(beside) > 50
        assert not [factor for factor in factors if 0.76 < factor < 1.29]
        corner = VIEWS["corner"].distance / VIEWS["close"].distance
        assert 0.76 < corner < 1.29

    def test_half_of_all_directions_are_held_out(self) -> None:
        rng = np.random.default_rng(2)
        cameras = [random_camera(rng) for _ in range(2000)]
        assert 0.45 < np.mean([held_out(c.azimuth, c.elevation) for c in cameras]) < 0.55
        assert all(-90 <= c.elevation <= -8 for c in cameras)


def first_frames(cameras: dict[str, SimView]) -> dict[str, Frames]:
    """Render a scene; in a process of its own, since the backend is chosen before MuJoCo is imported."""
    plan = RolloutPlan("drawer-open", "expert", 0, 5)
    ((_, found),) = rendered([plan], lambda _: cameras, None)
    return dict(found)


def test_scenes_are_rendered_under_any_camera() -> None:
    cameras = {"close": VIEWS["close"], "other": random_camera(np.random.default_rng(0))}
    with ProcessPoolExecutor(1, get_context("spawn"), initializer=choose_gl_backend) as pool:
        found = pool.submit(first_frames, cameras).result()
    assert {name: frames.shape for name, frames in found.items()} == dict.fromkeys(cameras, (1, 224, 224, 3))
    assert np.mean(found["close"] != found["other"]) > 0.2


class TestCheck:
    def test_it_lets_its_camera_pass_and_no_other(self, network: Qwen3VLNetwork, gate: DomainGate) -> None:
        check = train_camera_check(network, gate, drawn(0), CONFIG)
        guarded = replace(gate, cameras=check)
        shown = drawn(1)
        features = image_features(network, [one.pixels for one in shown])
        passed = guarded.passes(guarded.fits(features))
        own = np.array([one.view == "close" for one in shown])
        assert passed[own].mean() >= 0.8
        assert not passed[~own].any()
        assert check.facts["held_out_refused"]["close"] <= 0.1  # one of 16

    def test_it_is_added_to_the_file_and_the_map_beside_it_stays_valid(
        self, network: Qwen3VLNetwork, gate: DomainGate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        save_gate(gate, tmp_path / GATE_FILE)
        before = gate_digest(tmp_path)
        content = json.loads(CALIBRATION.read_text(encoding="utf-8"))
        content["identity"]["gate"] = before
        (tmp_path / CALIBRATION.name).write_text(json.dumps(content), encoding="utf-8")
        monkeypatch.setattr(camera_training, "camera_images", lambda *_: drawn(0))
        monkeypatch.setattr(camera_training, "torch_network", lambda _: network)
        path, check = add_camera_check(tmp_path, CONFIG)
        read = load_gate(path)
        assert read.cameras is not None
        assert read.cameras.facts == check.facts
        features = image_features(network, [one.pixels for one in drawn(1)])
        guarded = replace(gate, cameras=check)
        same = read.passes(read.fits(features)) == guarded.passes(guarded.fits(features))
        assert same.mean() >= 0.95  # float16 may turn a borderline one
        after = json.loads((tmp_path / CALIBRATION.name).read_text(encoding="utf-8"))
        assert after["identity"]["gate"] == gate_digest(tmp_path) != before
        assert {**after, "identity": content["identity"]} == content

    def test_one_that_does_not_fit_its_gate_is_refused(
        self, network: Qwen3VLNetwork, gate: DomainGate, tmp_path: Path
    ) -> None:
        check = train_camera_check(network, gate, drawn(0), CONFIG)
        for wrong in (replace(check, of_scenes=check.of_scenes + 5), replace(check, first=check.first[:-1])):
            save_gate(replace(gate, cameras=wrong), tmp_path / GATE_FILE)
            with pytest.raises(ModelError, match="camera"):
                load_gate(tmp_path / GATE_FILE)

    def test_a_gate_of_cameras_that_the_simulator_does_not_have_gets_none(self, gate: DomainGate) -> None:
        assert gate_views(gate) == ("close",)
        with pytest.raises(OptionError, match="wrist"):
            gate_views(replace(gate, facts={"scenes": [["push it, wrist"]]}))


class TestPackagedGate:
    def test_it_refuses_trained_scenes_from_the_camera_corner(self) -> None:
        model = get_model("embedded")
        assert isinstance(model, EmbeddedModel)
        assert model._check is not None
        episodes = [one for one in open_episodes(TINY_SIM) if "corner" in one.views]
        assert len(episodes) >= 8
        frames = [one.clip("corner", indices=[0]).frames[0] for one in episodes]
        with pytest.warns(UserWarning, match="camera close"):
            passed = [
                model._check.accepts_images([frame], one.instruction)
                for one, frame in zip(episodes, frames, strict=True)
            ]
        assert np.mean(passed) <= 0.05

    def test_its_maps_are_those_of_this_gate(self) -> None:
        identity = json.loads(CALIBRATION.read_text(encoding="utf-8"))["identity"]
        assert identity["gate"] == gate_digest(FOLDER)
