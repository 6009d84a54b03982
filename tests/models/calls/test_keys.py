"""Keys of calls hold through moves and renames: an answer that was paid for is never asked again for a name."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from stepscore.episodes import Clip
from stepscore.models import (
    DecodedMedia,
    FrameRef,
    Generate,
    GoalImage,
    PredictProgress,
    PredictStages,
    PreferVideo,
    Prompt,
    Request,
    Score,
    ScorePrefixes,
    ScoreSimilarity,
    ScoreStream,
    TiledFrames,
    Turn,
    TypedRequest,
    VideoFrames,
    VideoPrefix,
)
from stepscore.models.calls.call import call_key
from stepscore.models.schemas import Constant
from stepscore.models.tagged import plain

STILL, GOAL, VIDEO = FrameRef("top", 3, 64), GoalImage("wrist"), VideoFrames("top", (0, 4, 8), 64)
TILE = TiledFrames((STILL, FrameRef("wrist", 5)), 2)
CLIP = Clip(np.arange(24, dtype=np.uint8).reshape(2, 2, 2, 3), np.array([0.0, 0.5]), np.array([0, 5]))
PROMPT = Prompt(
    (
        Turn("system", ("Judge.",)),
        Turn("user", ("How far? ", STILL, GOAL, TILE, VIDEO)),
    ),
    prefill="About",
)
STATEMENT = Prompt(
    (Turn("user", (VideoPrefix(), "It is done.")),), prefill=" The answer is:", template="open"
)
OTHER = VideoFrames("wrist", (1, 5), 32)
LATER = dataclasses.replace(CLIP, timestamps=np.array([1.0, 1.5]))
SCHEMA = Constant(1)
GOLDEN: list[tuple[Request, str]] = [
    (
        Generate(PROMPT, max_tokens=9, temperature=0.5, top_p=0.9, seed=3, json=True, repeat=1),
        "d815a057cdb0f724cbeb4926c2e4402a967abaf9004d6deb0544dfa66734f89f",
    ),
    (Score(PROMPT, (" yes", " no"), 2), "87033a664a557f2226077ee059f359d7700cf514083c5e8d242879106cbb662c"),
    (
        ScorePrefixes(VIDEO, (1, 3), (STATEMENT,), (" True", " False")),
        "812218cbde80c7349d768e4ad1883fca71211691a8b7770bacedfee7e26f382b",
    ),
    (
        Generate(Prompt((Turn("user", (DecodedMedia(CLIP, video=True),)),))),
        "bea8b669e869238f114e5d76ef4372ab48a6162a50ac1d595f04f30b28954bd8",
    ),
    (
        PredictStages(
            (VIDEO,), "open the drawer", "drawer-open", (0, 2), "expected", ((0.5, 1.0), (0.25, 2.0))
        ),
        "ce7eb2582d8fd373fe3e45918065dd76149b6da08230f3ae799a36147f5320c1",
    ),
    (
        PredictProgress(Prompt((Turn("user", ("The task is 'open'. ", VIDEO)),))),
        "4be0856efff137f768b1b2d0b9228ec386bbd983b1857ea04df8448f035f9d12",
    ),
    (
        PreferVideo(Prompt((Turn("user", ("A: ", VIDEO, "B: ", DecodedMedia(CLIP, video=True), "?")),))),
        "119e0bafb4e6f5efc65e0095673f5fa9608d5138715dd4d6bffa57cc7413c552",
    ),
    (
        ScoreSimilarity(VIDEO, (GOAL, STILL), ("open the drawer",)),
        "3d264fa7818dfb12fb7ec99744790b3788bac0ba31762c06d19d6f2f9343ece7",
    ),
]


@pytest.mark.parametrize(
    ("request_", "golden"),
    GOLDEN,
    ids=["generate", "score", "prefixes", "decoded", "stages", "progress", "preference", "similarity"],
)
def test_a_key_is_what_it_always_was(request_: Request, golden: str) -> None:
    assert call_key("fingerprint", request_, {"name": "mock/x", "weights": "abc"}) == golden


def stored(value: object) -> dict[str, Any]:
    return {name: item for name, item in plain(value).items() if name != "is"}


ALL_FIELDS: dict[type[Request], tuple[Request, dict[str, object]]] = {
    Generate: (
        Generate(PROMPT, seed=1),
        {
            "prompt": Prompt((Turn("user", ("Other",)),)),
            "max_tokens": 7,
            "temperature": 0.5,
            "top_p": 0.5,
            "seed": 2,
            "json": True,
            "repeat": 1,
            "top_k": 5,
            "top_logprobs": 3,
            "schema": SCHEMA,
        },
    ),
    Score: (Score(PROMPT, (" a",)), {"prompt": STATEMENT, "candidates": (" b",), "repeat": 1}),
    ScorePrefixes: (
        ScorePrefixes(VIDEO, (1,), (STATEMENT,), (" a",)),
        {"video": OTHER, "lengths": (2,), "prompts": (PROMPT,), "candidates": (" b",), "repeat": 1},
    ),
    ScoreStream: (
        ScoreStream(None, DecodedMedia(CLIP, True), (STATEMENT,), (" a",)),  # type: ignore[arg-type]
        {"video": DecodedMedia(LATER, True), "prompts": (PROMPT,), "candidates": (" b",)},
    ),
    PredictStages: (
        PredictStages((VIDEO,), "open", "drawer"),
        {
            "videos": (OTHER,),
            "instruction": "close",
            "task": "door",
            "frames": (0,),
            "decode": "expected",
            "state": ((0.5,),),
        },
    ),
    PredictProgress: (PredictProgress(PROMPT), {"prompt": STATEMENT}),
    PreferVideo: (PreferVideo(PROMPT), {"prompt": STATEMENT}),
    ScoreSimilarity: (ScoreSimilarity(VIDEO), {"video": OTHER, "images": (STILL,), "texts": ("open",)}),
}
"""A request of each type, and another value of each of its fields."""

OUTSIDE = {"stream"}
"""Fields that are state in this process: a request with one is never cached."""


def concrete(kind: type[Any] = TypedRequest) -> set[type[Any]]:
    """Every request type with a tag, a subclass of a subclass as well."""
    found = {each for sub in kind.__subclasses__() for each in concrete(sub)}
    return found | ({kind} if "tag" in vars(kind) else set())


def test_every_request_type_is_here() -> None:
    known = {kind for kind in concrete() if kind.__module__.startswith("stepscore.")}
    assert known == ALL_FIELDS.keys()
    assert {type(request) for request, _ in GOLDEN} == known - {ScoreStream}


@pytest.mark.parametrize("kind", ALL_FIELDS, ids=lambda kind: kind.tag)
def test_every_field_enters_the_key(kind: type[Request]) -> None:
    request, others = ALL_FIELDS[kind]
    fields = {field.name: field.default for field in dataclasses.fields(request)}
    outside = fields.keys() & OUTSIDE
    assert not (outside and request.cached)
    assert others.keys() == fields.keys() - outside
    keys = {
        call_key("f", dataclasses.replace(request, **{name: value}), {}) for name, value in others.items()
    }
    assert len(keys | {call_key("f", request, {})}) == len(others) + 1
    assert {*stored(request), *request.later} == fields.keys() - outside
    assert all(fields[name] == usual for name, usual in request.later.items())


def test_a_field_that_came_later_changes_the_key_only_where_it_is_used() -> None:
    plain = Generate(PROMPT)
    assert call_key("f", dataclasses.replace(plain, top_k=None), {}) == call_key("f", plain, {})
    assert call_key("f", dataclasses.replace(plain, top_k=50), {}) != call_key("f", plain, {})
    assert call_key("f", dataclasses.replace(plain, top_logprobs=10), {}) != call_key("f", plain, {})

    def tiled(tile: TiledFrames) -> str:
        return call_key("f", Generate(Prompt((Turn("user", (tile,)),))), {})

    for field in ({"cell": 64}, {"stretch": True}, {"gap": 5}):
        assert tiled(dataclasses.replace(TILE, **field)) != tiled(TILE)
