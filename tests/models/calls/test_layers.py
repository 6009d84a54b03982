"""Each layer of the call chain alone."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from stepscore._threads import Threads
from stepscore.errors import TransientModelError
from stepscore.models import (
    Answer,
    PrefixScores,
    Prompt,
    Request,
    Response,
    ScorePrefixes,
    Turn,
    VideoFrames,
    VideoPrefix,
)
from stepscore.models.calls import Call, CallOptions, RunAccount
from stepscore.models.calls.call import Asker
from stepscore.models.calls.layers.cache import Cache
from stepscore.models.calls.layers.decoding import Decoding
from stepscore.models.calls.layers.model_layer import ModelLayer
from stepscore.models.calls.layers.sharing import Sharing
from stepscore.models.calls.layers.split import Split
from stepscore.models.mock import MockModel
from tests.models.calls.book import FRAME, REQUEST, decode


@dataclass
class Inner:
    """The layer inside; keeps what reaches it."""

    calls: list[Call] = field(default_factory=list)
    decoded: list[Request | None] = field(default_factory=list)

    async def answer(self, call: Call) -> Response:
        self.calls.append(call)
        self.decoded.append(call.decoded)
        await asyncio.sleep(0)
        unknown: Response = call.request.unknown("inside")
        return unknown


def asked(calls: list[Call], request: Request = REQUEST, key: str = "k") -> Call:
    return Call("e", key, request, asker=Asker("e", "f", decode, calls))


def account(folder: Path) -> RunAccount:
    return RunAccount(folder, CallOptions(cache_path=folder / "c.sqlite"))


def test_split_asks_a_server_for_each_prefix_by_itself_and_notes_each() -> None:
    statement = Prompt((Turn("user", (VideoPrefix(), "done?")),), template="open")
    request = ScorePrefixes(VideoFrames("top", (0, 5, 9)), (1, 3), (statement,), ("yes",))
    for served, lengths in ((True, [(1,), (3,)]), (False, [(1, 3)])):
        model, inner, calls = MockModel("x", served=served, prefix_sharing="none"), Inner(), list[Call]()
        response = asyncio.run(Split(inner, model, {}).answer(asked(calls, request, "")))
        assert isinstance(response, PrefixScores)
        assert response.logprobs.shape == (1, 2, 1)
        assert [one.lengths for call in calls if isinstance(one := call.request, ScorePrefixes)] == lengths
        assert calls == inner.calls
        assert len({call.key for call in calls} - {""}) == len(calls)


def test_a_hit_of_the_cache_asks_nobody(tmp_path: Path) -> None:
    book, inner, call = account(tmp_path), Inner(), asked([])
    book.end(asyncio.run(book.begin("k", "mock/x", None, None)), "answered", None, Answer("kept"))
    assert asyncio.run(Cache(inner, book, MockModel("x"), None).answer(call)) == Answer("kept")
    assert (call.cached, call.response, inner.calls) == (True, Answer("kept"), [])


def test_what_is_stored_and_is_no_answer_is_forgotten_and_asked_for(tmp_path: Path) -> None:
    book, inner, call = account(tmp_path), Inner(), asked([])
    book.end(
        asyncio.run(book.begin("k", "mock/x", None, None)),
        "answered",
        None,
        PrefixScores(np.zeros((1, 1, 1))),
    )
    assert asyncio.run(Cache(inner, book, MockModel("x"), None).answer(call)) == Answer("inside")
    assert (call.cached, len(inner.calls)) == (False, 1)
    assert asyncio.run(book.find("k", Answer)) is None


def test_of_calls_that_are_the_same_one_is_asked(tmp_path: Path) -> None:
    inner, calls = Inner(), [asked([]) for _ in range(3)]
    layer = Sharing(inner, account(tmp_path), MockModel("x"))

    async def together() -> list[Response]:
        return await asyncio.gather(*map(layer.answer, calls))

    assert asyncio.run(together()) == [Answer("inside")] * 3
    assert [call.cached for call in calls] == [False, True, True]
    assert inner.calls == calls[:1]


def test_frames_are_there_for_the_layers_inside_and_are_dropped_then() -> None:
    inner, call = Inner(), asked([])
    asyncio.run(Decoding(inner, Threads(1, "decode")).answer(call))
    assert inner.decoded[0] is not None
    assert inner.decoded[0].media() == [FRAME]
    assert call.decoded is None


class Slow(MockModel):
    async def answer(self, request: Request) -> Response:
        await asyncio.sleep(60)
        return Answer("late")


@pytest.mark.parametrize("served", [True, False])
def test_a_served_model_that_does_not_answer_in_time_is_lost(*, served: bool) -> None:
    layer = ModelLayer(Slow("x", served=served), timeout_s=0.01)
    call = asked([])
    call.decoded = REQUEST

    async def answer() -> Response:
        async with asyncio.timeout(0.2):
            return await layer.answer(call)

    with pytest.raises(TransientModelError if served else TimeoutError):
        asyncio.run(answer())
