"""A frame that is added to a live video is a request of the call chain: recorded and counted, never cached."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

import stepscore
from stepscore.episodes import Episode
from stepscore.errors import BudgetError, CapabilityError
from stepscore.models import DecodedMedia, ScoreStream
from stepscore.models.api.openai import OpenAIModel
from stepscore.models.calls import Attempts, Budget, Call, CallOptions, opened_chain
from tests.models import tiny


def test_frames_of_a_live_video_go_through_the_chain(tmp_path: Path) -> None:
    model = stepscore.get_model("embedded", gate=False)
    prompts, clip, calls = tiny.statements(), tiny.clip(3), list[Call]()
    alone, live = (model.open_stream(prompts[0]) for _ in range(2))  # type: ignore[attr-defined]
    options = CallOptions(Budget(max_calls=3), cache_path=tmp_path / "cache.sqlite")

    async def asked() -> None:
        for index in range(3):
            frame = tiny.part(clip, index, index + 1)
            alone.append(frame)
            found = await ask(ScoreStream(live, DecodedMedia(frame, True), prompts, tiny.CANDIDATES), model)
            np.testing.assert_array_equal(found.logprobs[:, 0], alone.score(prompts, tiny.CANDIDATES))
        with pytest.raises(BudgetError, match="3 calls is spent"):
            await ask(ScoreStream(live, DecodedMedia(frame, True), prompts, tiny.CANDIDATES), model)

    with opened_chain(tmp_path, options, model) as chain:
        ask = chain.ask_about(Episode("live", "open it"), calls)
        asyncio.run(asked())
    assert [call.cached for call in calls] == [False] * 4
    assert calls[0].row()["prompt"].startswith("user: [live video]")
    assert Attempts(tmp_path / "attempts.sqlite").total().answered == 3


def test_a_model_without_streams_says_so() -> None:
    request = ScoreStream(None, DecodedMedia(tiny.clip(1), True), (), ())  # type: ignore[arg-type]
    with pytest.raises(CapabilityError, match="scores no live video; embedded"):
        asyncio.run(OpenAIModel("tiny", base_url="http://127.0.0.1:1/v1").answer(request))
