"""The requests of public clients, rebuilt: Robometer's two forms and RLinf's, with their response fields."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest
from PIL import Image

from stepscore.judges import TopReward, get_judge
from stepscore.models import get_model
from stepscore.runs import open_run
from tests.server.reward_api.serving import (
    TASK,
    live_judge,
    multipart,
    post,
    progress_sample,
    serving,
    video,
)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving() as address:
        yield address


def scores(answer: httpx2.Response) -> tuple[list[list[float]], list[list[float]]]:
    assert answer.status_code == 200, answer.text
    content = answer.json()
    assert set(content) == {"outputs_preference", "outputs_progress", "outputs_success"}
    return content["outputs_progress"]["progress_pred"], content["outputs_success"]["success_probs"]


@pytest.mark.parametrize("n", [1, 4, 7])
def test_one_progress_value_for_every_frame(url: str, n: int) -> None:
    progress, success = scores(post(url, "/evaluate_batch_npy", **multipart([video(n)])))
    assert [len(values) for values in (*progress, *success)] == [n, n]
    assert all(0 <= value <= 1 for value in progress[0] + success[0])


def test_a_value_is_that_of_a_session_at_the_same_frame(url: str) -> None:
    frames = video(5)
    progress, _ = scores(post(url, "/evaluate_batch_npy", **multipart([frames])))
    with live_judge().open(TASK, odd="repeat") as session:
        for frame in frames:
            session.add(frame)
        np.testing.assert_allclose(progress[0][1:], session.curve.progress, atol=1e-5)


def test_json_multipart_and_channels_first_give_the_same(url: str) -> None:
    frames = [video(3, seed) for seed in (1, 2)]
    expected = scores(post(url, "/evaluate_batch_npy", **multipart(frames)))
    samples = [progress_sample(each.tolist()) for each in frames]
    listed = post(url, "/evaluate_batch", json={"samples": samples, "use_frame_steps": True})
    np.testing.assert_allclose(scores(listed), expected)
    turned = [np.ascontiguousarray(each.transpose(0, 3, 1, 2)) for each in frames]
    np.testing.assert_allclose(scores(post(url, "/evaluate_batch_npy", **multipart(turned))), expected)


def test_times_count_where_they_are_sent(url: str) -> None:
    plain = scores(post(url, "/evaluate_batch_npy", **multipart([video(5)])))[0]
    same = scores(post(url, "/evaluate_batch_npy", **multipart([video(5)], fps=2)))[0]
    slow = scores(post(url, "/evaluate_batch_npy", **multipart([video(5)], timestamps=[3, 13, 23, 33, 43])))[
        0
    ]
    assert plain == same
    assert not np.allclose(plain, slow, atol=1e-6)


def test_a_preference_has_robometers_fields(url: str) -> None:
    trajectories = [progress_sample(video(2, seed).tolist())["trajectory"] for seed in (1, 2)]
    sample = {
        "sample_type": "preference",
        "chosen_trajectory": trajectories[0],
        "rejected_trajectory": trajectories[1],
    }
    content = post(url, "/evaluate_batch", json={"samples": [sample]}).json()
    assert content["outputs_progress"] is None
    (p,), (one,) = (content["outputs_preference"][name] for name in ("prediction_probs", "predictions"))
    assert 0 < p < 1
    assert one == int(p > 0.5)
    assert content["outputs_preference"]["preference_labels"] == [1]


def test_health_and_model_info(url: str) -> None:
    health = httpx2.get(url + "/health", trust_env=False).json()
    assert health == {"status": "healthy", "available_gpus": 4, "total_gpus": 4}
    info = httpx2.get(url + "/model_info", trust_env=False).json()
    assert info["model_path"] == "embedded"
    assert info["experiment_config"]["judge"]["options"]["sampling"] == "causal"
    assert (info["calibrated"], info["validation"], info["validation_holds"]) == (False, None, False)
    assert httpx2.get(url + "/v1/models", trust_env=False).json()["data"][0]["id"] == "embedded"


def test_the_validation_record_is_shown_with_whether_it_holds() -> None:
    with serving(validation={"protocol_hash": "0", "judge": "topreward"}) as url:
        info = httpx2.get(url + "/model_info", trust_env=False).json()
    assert info["validation"]["judge"] == "topreward"
    assert not info["validation_holds"]


def test_unknown_is_null_unless_a_fill_is_asked_for() -> None:
    with serving(
        TopReward(get_model("embedded"), sampling="causal", min_first=2)
    ) as url:  # noise is out of distribution
        sent = multipart([video(3)])
        assert scores(post(url, "/evaluate_batch_npy", **sent))[0] == [[None] * 3]
        sent["data"]["fill"] = "0.25"
        assert scores(post(url, "/evaluate_batch_npy", **sent))[0] == [[0.25] * 3]


def test_any_judge_can_be_served() -> None:
    with serving(get_judge("linear-time")) as url:
        progress = scores(post(url, "/evaluate_batch_npy", **multipart([video(5)])))[0]
        refused = post(url, "/v1/sessions", json={"instruction": TASK})
    np.testing.assert_allclose(progress[0], np.arange(5) / 4, atol=0.01)
    assert refused.status_code == 422
    assert "topreward has" in refused.json()["error"]["message"]


def question(images: list[Any], text: str, **others: Any) -> dict[str, Any]:
    """The request that RLinf's ``EmbodiedAPIRewardWorker`` builds."""
    parts: list[dict[str, Any]] = []
    for image in images:
        file = io.BytesIO()
        Image.fromarray(image).save(file, format="JPEG", quality=95)
        data = base64.b64encode(file.getvalue()).decode()
        parts.append({"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{data}"}})
    content = [*parts, {"type": "text", "text": text}]
    return {"model": "judge", "messages": [{"role": "user", "content": content}], **others}


RLINF = (
    f"You are currently performing the task: {TASK}. You are given two synchronized 5-frame videos from different "
    "camera views (main view and third-person view) of the same robot action window. Judge whether the action trend "
    "is positive, negative, or unclear. Answer with exactly one word: positive, negative, or unclear."
)


def test_the_trend_is_one_word(url: str) -> None:
    asked = question([*video(5), *video(5, 1)], RLINF, max_tokens=16, temperature=0.0)
    answer = post(url, "/v1/chat/completions", json=asked)
    assert answer.status_code == 200, answer.text
    content = answer.json()
    assert content["choices"][0]["message"]["content"] in ("positive", "negative", "unclear")
    assert len(content["stepscore"]["progress"]) == 5  # of both cameras together
    one = question(list(video(4)), f"Task: {TASK}\n\nEvaluate the task.")
    assert len(post(url, "/v1/chat/completions", json=one).json()["stepscore"]["progress"]) == 4


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ([0.1, 0.3, 0.5], "positive"),
        ([0.5, 0.4, 0.1], "negative"),
        ([0.1, 0.12], "unclear"),
        ([0.1, np.nan], "unclear"),
        ([np.nan, 0.1, 0.4], "positive"),
        ([np.nan], "unclear"),
    ],
)
def test_what_gives_positive_negative_and_unclear(values: list[float], word: str) -> None:
    from stepscore.server.reward_api.chat import trend
    from stepscore.types import Curve

    assert trend(Curve(np.arange(len(values)) / 2, np.array(values)), 0.05) == word


def test_every_score_is_kept_in_the_run(tmp_path: Path) -> None:
    with serving(run=tmp_path / "run") as url:
        progress = scores(post(url, "/evaluate_batch_npy", **multipart([video(3), video(4, 1)])))[0]
        session = post(url, "/v1/sessions", json={"instruction": TASK}).json()["session"]
        post(url, f"/v1/sessions/{session}/frames", **frames_of(video(4)))
    run = open_run(tmp_path / "run")
    assert run.judgements().column("episode_id").to_pylist() == [
        "session_00000003",
        "video_00000001",
        "video_00000002",
    ]
    assert run.calls().num_rows == 1 + 1 + 2
    curves = run.curves()
    kept = [row["progress"] for row in curves.to_pylist() if row["episode_id"] == "video_00000002"]
    assert sorted([progress[0], progress[1]], key=len)[1] == pytest.approx(kept)
    assert run.info["status"] == "finished"
    assert run.protocol.content["judge"]["options"]["sampling"] == "causal"  # type: ignore[index]
    with serving(run=tmp_path / "run") as url:  # the same server goes on with it
        scores(post(url, "/evaluate_batch_npy", **multipart([video(3)])))
    assert open_run(tmp_path / "run").judgements().num_rows == 4


def frames_of(frames: Any, view: str = "main") -> dict[str, Any]:
    from tests.server.reward_api.serving import npy

    return {"files": {view: (f"{view}.npy", npy(frames), "application/octet-stream")}}
