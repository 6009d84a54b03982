"""Keys of calls hold through moves and renames: an answer that was paid for is never asked again for a name."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from stepscore.episodes import Clip
from stepscore.models import (
    DecodedMedia,
    FrameRef,
    Generate,
    GoalImage,
    Prompt,
    Request,
    Score,
    ScorePrefixes,
    TiledFrames,
    Turn,
    VideoFrames,
)
from stepscore.models.calls.keys import TAGS, call_key

STILL, GOAL, FILM = FrameRef("top", 3, 64), GoalImage("wrist"), VideoFrames("top", (0, 4, 8), 64)
TILE = TiledFrames((STILL, FrameRef("wrist", 5)), 2)
CLIP = Clip(np.arange(24, dtype=np.uint8).reshape(2, 2, 2, 3), np.array([0.0, 0.5]), np.array([0, 5]))
PROMPT = Prompt(
    (
        Turn("system", ("Judge.",)),
        Turn("user", ("How far? ", STILL, GOAL, TILE, FILM)),
        Turn("assistant", ("About",)),
    ),
    continued=True,
)
GOLDEN: list[tuple[Request, str]] = [
    (
        Generate(PROMPT, max_tokens=9, temperature=0.5, top_p=0.9, seed=3, json=True, repeat=1),
        "5930a809940ecbaaf5235a416d5d027ba6e545a33c2abbc15cd3371d1b8eb665",
    ),
    (Score(PROMPT, (" yes", " no"), 2), "76fee782b0b8cf66a69a478d4fb5e3374fd315139639219e666222d31f39afa2"),
    (
        ScorePrefixes(FILM, (1, 3), "head", ("tail", "other"), (" True", " False")),
        "e0c3721869e6c96b043de078108ac980c8ceb20ae9bd00fd7004cef58fc627de",
    ),
    (
        Generate(Prompt((Turn("user", (DecodedMedia(CLIP, video=True),)),))),
        "0ef99fdc7952ae90ffb968676a427a3e99e95755d5ccf9f7c50f9f8252d0475d",
    ),
]


@pytest.mark.parametrize(("request_", "golden"), GOLDEN, ids=["generate", "score", "prefixes", "shown"])
def test_a_key_is_what_it_always_was(request_: Request, golden: str) -> None:
    assert call_key("fingerprint", request_, {"name": "mock/x", "weights": "abc"}) == golden


@pytest.mark.parametrize("kind", TAGS, ids=lambda kind: TAGS[kind].tag)
def test_every_field_enters_the_key(kind: type) -> None:
    assert set(TAGS[kind].fields) == {field.name for field in dataclasses.fields(kind)}
