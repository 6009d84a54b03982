"""Sessions over HTTP, and a judge by URL: the same points as in this process."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest

from stepscore.episodes import Clip
from stepscore.errors import ModelError, OptionError, UnavailableError
from stepscore.rewards import RemoteJudge
from stepscore.server import Limits
from tests.server.reward_api.serving import MODEL, TASK, live_judge, post, serving, video


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving() as address:
        yield address


def test_a_remote_session_equals_one_in_process(url: str) -> None:
    remote, frames = RemoteJudge(url), video(7)
    clip = Clip(frames, np.arange(7) / 4, np.arange(7))  # every other frame is shown
    with remote.open(TASK) as there, live_judge().open(TASK) as here:
        for part in (slice(0, 3), slice(3, 7)):
            given = Clip(clip.frames[part], clip.timestamps[part], clip.indices[part])
            far, near = there.add(given), here.add(given)
            np.testing.assert_allclose(far.progress, near.progress, atol=1e-6)
        assert there.shown == here.shown == 4
        np.testing.assert_allclose(there.curve.channels["margin"], here.curve.channels["margin"], atol=1e-6)
        assert len(there.finish()) == len(here.finish()) == 0
    assert remote.fps == 2.0
    assert remote.info["protocol_hash"]
    remote.close()


def test_a_growing_video_costs_only_its_new_frames(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network, encoded = MODEL._engine.network, list[int]()  # type: ignore[attr-defined]
    encode = network.vision.encode
    monkeypatch.setattr(
        network.vision,
        "encode",
        lambda frames, blocks: encoded.extend(map(len, blocks)) or encode(frames, blocks),
    )
    with RemoteJudge(url).open(TASK) as session:
        for frame in video(8):
            session.add(frame)
    assert sum(encoded) == 8


def test_several_cameras_and_larger_images(url: str) -> None:
    with RemoteJudge(url).open(TASK, ["a", "b"], odd="repeat") as session:
        frame = video(1, side=48)[0]
        session.add({"a": frame, "b": frame})
        curve = session.add({"a": frame, "b": frame})
        assert {"logp_true:a", "logp_true:b"} < set(curve.channels)
        with pytest.raises(ModelError, match=r"a \.npy file for each view: a, b"):
            session.add({"a": frame})
        with pytest.raises(OptionError, match="uint8"):
            session.add({"a": frame.astype(float), "b": frame})


def test_what_is_wrong_with_a_session_is_said(url: str) -> None:
    remote = RemoteJudge(url)
    with pytest.raises(ModelError, match="instruction of 1 to"):
        remote.open("")
    with pytest.raises(ModelError, match="list of 1 to 16 different names"):
        remote.open(TASK, ["a", "a"])
    with pytest.raises(ModelError, match="wait or repeat"):
        remote.open(TASK, odd="skip")
    with remote.open(TASK) as session:
        session.add(Clip(video(1), np.array([1.0]), np.arange(1)))
        with pytest.raises(ModelError, match="Frames come in order"):
            session.add(Clip(video(1), np.array([0.5]), np.arange(1)))
    with pytest.raises(ModelError, match="no open session"):
        session.add(video(1))
    with pytest.raises(OptionError, match="http://"):
        RemoteJudge("127.0.0.1:8000")
    with pytest.raises(UnavailableError):
        RemoteJudge("http://127.0.0.1:1").open(TASK)


def test_idle_sessions_are_closed_and_their_number_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepscore.server.reward_api.app._TICK_S", 0.05)
    with serving(limits=Limits(sessions=1, idle_s=0.3)) as url:
        first = post(url, "/v1/sessions", json={"instruction": TASK})
        assert first.status_code == 201
        second = post(url, "/v1/sessions", json={"instruction": TASK})
        assert (second.status_code, second.headers["retry-after"]) == (429, "1")
        for _ in range(100):
            if post(url, "/v1/sessions", json={"instruction": TASK}).status_code == 201:
                break
            time.sleep(0.05)
        else:
            pytest.fail("the idle session was not closed")
