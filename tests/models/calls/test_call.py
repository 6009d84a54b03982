from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscore.episodes import Clip
from stepscore.errors import ModelError
from stepscore.models import (
    Answer,
    DecodedMedia,
    FrameRef,
    Generate,
    GoalImage,
    Preference,
    PrefixScores,
    ProgressPredictions,
    Prompt,
    Request,
    Score,
    ScorePrefixes,
    Scores,
    Similarities,
    TiledFrames,
    TokenChoice,
    Turn,
    VideoFrames,
    VideoPrefix,
)
from stepscore.models.calls.call import Call, call_key

MODEL = {"name": "mock/x"}


def statement(text: str) -> Prompt:
    return Prompt((Turn("user", (VideoPrefix(), text)),), template="open")


STILL, VIDEO = FrameRef("top", 3, 64), VideoFrames("top", (0, 4, 8), 64)
PROMPT = Prompt((Turn("user", ("How far? ", STILL)),))
ASKED = Generate(PROMPT)
PREFIXES = ScorePrefixes(VIDEO, (1, 3), (statement("tail"),), (" True",))


def key(request: Request = ASKED, fingerprint: str = "f", **model: object) -> str:
    return call_key(fingerprint, request, {**MODEL, **model})


def test_equal_calls_have_one_key() -> None:
    again = Generate(Prompt((Turn("user", ("How far? ", FrameRef("top", 3, 64))),)))
    assert key() == key(again)
    assert len(key()) == 64


def user(*parts: object) -> Prompt:
    return Prompt((Turn("user", parts),))  # type: ignore[arg-type]


OTHERS: list[Request] = [
    Generate(user("How near? ", STILL)),
    Generate(user("How far? ", FrameRef("wrist", 3, 64))),
    Generate(user("How far? ", FrameRef("top", 4, 64))),
    Generate(user("How far? ", FrameRef("top", 3, 65))),
    Generate(user("How far? ", FrameRef("top", 3))),
    Generate(user(STILL, "How far? ")),
    Generate(user("How far? ", VideoFrames("top", (3,), 64))),
    Generate(user("How far? ", TiledFrames((STILL,), 1))),
    Generate(user("How far? ", GoalImage("top", 64))),
    Generate(Prompt((Turn("system", ("How far? ", STILL)),))),
    Generate(replace(PROMPT, prefill="It is")),
    Generate(replace(PROMPT, template="open")),
    replace(ASKED, max_tokens=9),
    replace(ASKED, temperature=0.1),
    replace(ASKED, top_p=0.5),
    replace(ASKED, seed=1),
    replace(ASKED, json=True),
    replace(ASKED, repeat=1),
    Score(PROMPT, ("yes",)),
    Score(PROMPT, ("no",)),
    PREFIXES,
    replace(PREFIXES, lengths=(2, 3)),
    replace(PREFIXES, prompts=(statement("another"),)),
    replace(PREFIXES, candidates=(" False",)),
]


def test_all_that_decides_an_answer_changes_the_key() -> None:
    keys = [key(), *map(key, OTHERS), key(fingerprint="g"), key(revision="r2"), key(name="mock/y")]
    assert len(set(keys)) == len(keys)


NUMBERS = st.floats(allow_nan=True, allow_infinity=True, width=64)


@given(st.lists(NUMBERS, max_size=6), st.integers(0, 10**9))
def test_scores_come_back_as_they_were(values: list[float], tokens: int) -> None:
    scores = Scores(tuple(values), tuple(value > -1 for value in values), tokens)
    again = type(scores).unpack(json.loads(json.dumps(scores.pack(), allow_nan=False)))
    assert isinstance(again, Scores)
    assert np.array_equal(again.logprobs, scores.logprobs, equal_nan=True)
    assert (again.censored, again.tokens_in) == (scores.censored, tokens)


@given(st.integers(1, 3), st.integers(1, 4), st.data())
def test_prefix_scores_come_back_as_they_were(tails: int, lengths: int, data: st.DataObject) -> None:
    flat = data.draw(st.lists(NUMBERS, min_size=tails * lengths * 2, max_size=tails * lengths * 2))
    scores = PrefixScores(np.array(flat).reshape(tails, lengths, 2), 7)
    again = type(scores).unpack(json.loads(json.dumps(scores.pack(), allow_nan=False)))
    assert isinstance(again, PrefixScores)
    assert np.array_equal(again.logprobs, scores.logprobs, equal_nan=True)
    assert again.tokens_in == 7


@given(st.text(), st.text(max_size=6))
def test_texts_come_back_as_they_were(text: str, finish: str) -> None:
    answer = Answer(text, finish, 3, 4)
    assert Answer.unpack(json.loads(json.dumps(answer.pack()))) == answer
    assert "choices" not in answer.pack()
    scored = replace(answer, choices=(TokenChoice("5", (("5", -0.1), ("6", -2.5))),))
    assert Answer.unpack(json.loads(json.dumps(scored.pack()))) == scored


def test_half_a_surrogate_pair_in_a_question_is_a_question() -> None:
    assert key(Generate(user("you said \ud83d"))) != key(Generate(user("you said ?")))


def test_an_unknown_kind_is_no_answer() -> None:
    with pytest.raises(ModelError, match="another kind, 'nothing'"):
        Answer.unpack({"kind": "nothing"})


def test_a_row_says_what_was_asked_and_answered() -> None:
    call = Call("e", "k", ASKED, Answer("half way", tokens_in=9, tokens_out=2), cached=True, attempts=3)
    row = call.row()
    assert row["prompt"] == 'user: How far? [frame {"is": "frame", "view": "top", "index": 3, "size": 64}]'
    assert row["answer"] == "half way"
    assert (row["kind"], row["tokens_in"], row["tokens_out"]) == ("generate", 9, 2)
    assert json.loads(row["frames"]) == [{"is": "frame", "view": "top", "index": 3, "size": 64}]
    fresh = Call("e", "k", ASKED, Answer("half way", tokens_in=9, tokens_out=2), attempts=1, latencies=[0.5])
    assert fresh.row() == row, "a row does not depend on the cache, on retries or on time"


def test_a_row_of_scores_is_json_also_where_they_are_unknown() -> None:
    row = Call("e", "k", PREFIXES, PrefixScores(np.array([[[math.nan, -math.inf]]]))).row()
    strict = json.loads(row["answer"], parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert strict["logprobs"] == [None, "-inf"]


def test_prefix_questions_are_readable() -> None:
    assert PREFIXES.as_text().startswith("user: [video {")
    assert PREFIXES.as_text().endswith("prefixes of [1, 3] frames]tail")


def test_images_are_counted() -> None:
    tile = TiledFrames((STILL, STILL, STILL), 2)
    assert Call("e", "k", Generate(user(STILL, VIDEO, tile, GoalImage("top")))).images == 1 + 3 + 1 + 1
    assert Call("e", "k", PREFIXES).images == 3


def test_images_in_hand_are_known_by_their_pixels() -> None:
    def shown(value: int) -> Request:
        frames = np.full((1, 2, 2, 3), value, np.uint8)
        return Generate(user(DecodedMedia(Clip(frames, np.zeros(1), np.zeros(1, np.int64)))))

    assert key(shown(1)) == key(shown(1))
    assert key(shown(1)) != key(shown(2))


def test_predictions_of_heads_are_stored_and_read_again() -> None:
    values = np.array([0.25, math.nan, 1.0])
    packed = json.loads(json.dumps(ProgressPredictions(values, 1 - values, values * 0, 12).pack()))
    found = ProgressPredictions.unpack(packed)
    assert isinstance(found, ProgressPredictions)
    np.testing.assert_array_equal(found.progress, values)
    np.testing.assert_array_equal(found.success, 1 - values)
    np.testing.assert_array_equal(found.spread, values * 0)
    assert found.tokens_in == 12
    for first in (0.75, math.nan):
        again = Preference.unpack(json.loads(json.dumps(Preference(first, 3).pack())))
        assert isinstance(again, Preference)
        np.testing.assert_array_equal(again.first, first)
    with pytest.raises(ModelError, match="malformed"):
        ProgressPredictions.unpack({"kind": "progress", "progress": [0.5]})


def test_similarities_are_stored_and_read_again() -> None:
    frames, references = np.array([[0.25, math.nan], [-1.0, 1.0]]), np.eye(2)
    found = Similarities.unpack(json.loads(json.dumps(Similarities(frames, references).pack())))
    assert isinstance(found, Similarities)
    np.testing.assert_array_equal(found.frames, frames)
    np.testing.assert_array_equal(found.references, references)
    with pytest.raises(ModelError, match="malformed"):
        Similarities.unpack(
            {"kind": "similarities", "frames": [[1.0], [1.0, 2.0]], "references": [], "tokens_in": 0}
        )
