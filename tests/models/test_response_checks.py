from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from stepscore.errors import TransientModelError
from stepscore.models import (
    Answer,
    Generate,
    PredictProgress,
    Preference,
    PreferVideo,
    PrefixScores,
    ProgressPredictions,
    Prompt,
    Score,
    ScorePrefixes,
    Scores,
    ScoreSimilarity,
    Similarities,
    Turn,
    VideoFrames,
)
from stepscore.models.responses import MAX_ADDED_IN, MAX_ADDED_OUT, MAX_TOKENS, count_of, logprob_of

PROMPT = Prompt((Turn("user", ("how far?",)),))
TEXT = Generate(PROMPT, max_tokens=50)
SCORE = Score(PROMPT, ("yes", "no"))
PREFIXES = ScorePrefixes(VideoFrames("top", (0, 1, 2)), (1, 3), (PROMPT,), ("yes", "no"))


@pytest.mark.parametrize("value", [0, 1, 20, MAX_TOKENS])
def test_a_count_is_a_whole_number_within_a_bound(value: int) -> None:
    assert count_of(value) == value


@pytest.mark.parametrize(
    "value",
    [
        True,
        False,
        -1,
        -(10**30),
        10**30,
        MAX_TOKENS + 1,
        20.5,
        20.0,
        math.nan,
        math.inf,
        "20",
        None,
        [20],
        {},
        b"2",
    ],
)
def test_any_other_count_is_unknown(value: object) -> None:
    assert count_of(value) == 0


@pytest.mark.parametrize(
    ("value", "kept"), [(-1.5, -1.5), (0, 0.0), (-3, -3.0), (5e-7, 0.0), (-math.inf, -math.inf)]
)
def test_a_log_probability_is_at_most_0(value: float, kept: float) -> None:
    assert logprob_of(value) == kept


@pytest.mark.parametrize("value", [3.5, 1e-3, math.inf, 10**400, math.nan, True, False, "-1", None, [-1.0]])
def test_any_other_log_probability_is_unknown(value: object) -> None:
    assert math.isnan(logprob_of(value))


@pytest.mark.parametrize(
    ("request_", "made"), [(TEXT, Answer("x")), (SCORE, Scores((-1.0, -2.0), (False, False)))]
)
def test_counts_above_what_the_request_can_have_are_unknown(request_: Any, made: Any) -> None:
    from dataclasses import replace

    most_in, most_out = (
        n + m for n, m in zip(request_.token_bound(), (MAX_ADDED_IN, MAX_ADDED_OUT), strict=True)
    )
    believed = request_.check(replace(made, tokens_in=most_in, tokens_out=most_out), "m")
    assert (believed.tokens_in, getattr(believed, "tokens_out", None)) == (most_in, most_out)
    refused = request_.check(replace(made, tokens_in=most_in + 1, tokens_out=most_out + 1), "m")
    assert (refused.tokens_in, getattr(refused, "tokens_out", None)) == (0, 0)


def test_a_score_above_0_is_censored_and_bounds_nothing() -> None:
    found = SCORE.check(Scores((3.5, -1.0), (False, False)), "m")
    assert found == Scores((0.0, -1.0), (True, False))


def test_a_prefix_score_above_0_is_unknown() -> None:
    values = np.array([[[3.5, -1.0], [np.nan, 0.0]]])
    found = PREFIXES.check(PrefixScores(values), "m")
    assert isinstance(found, PrefixScores)
    np.testing.assert_array_equal(found.logprobs, [[[np.nan, -1.0], [np.nan, 0.0]]])


@pytest.mark.parametrize(
    ("request_", "response"),
    [
        (TEXT, Scores((-1.0,), (False,))),
        (TEXT, Answer(5)),  # type: ignore[arg-type]
        (TEXT, Answer("x" * 100_000)),
        (SCORE, Answer("yes")),
        (SCORE, Scores((-1.0,), (False,))),
        (SCORE, Scores((-1.0, -1.0), (False,))),
        (PREFIXES, PrefixScores(np.zeros((1, 2, 3)))),
        (PREFIXES, PrefixScores(np.zeros((1, 2, 2), dtype=np.int64))),
        (PREFIXES, Answer("x")),
    ],
)
def test_a_response_of_another_kind_or_shape_is_an_error(request_: Any, response: Any) -> None:
    with pytest.raises(TransientModelError, match="m returned something other than what was requested"):
        request_.check(response, "m")


def test_a_finish_reason_is_a_short_text() -> None:
    found = TEXT.check(Answer("x", "y" * 1000), "m")
    assert isinstance(found, Answer)
    assert found.finish == "y" * 40


VIDEO = VideoFrames("top", (0, 1, 2))
PROGRESS = PredictProgress(Prompt((Turn("user", ("open", VIDEO)),)))
PREFERENCE = PreferVideo(Prompt((Turn("user", ("A", VIDEO, "B", VIDEO)),)))


def test_predicted_progress_outside_of_0_to_1_is_unknown() -> None:
    values = np.array([0.25, 1.5, math.nan])
    found = PROGRESS.check(ProgressPredictions(values, values - 1, values * 0, 7), "m")
    assert isinstance(found, ProgressPredictions)
    np.testing.assert_array_equal(found.progress, [0.25, math.nan, math.nan])
    np.testing.assert_array_equal(found.success, [math.nan, 0.5, math.nan])
    np.testing.assert_array_equal(found.spread, [0, 0, math.nan])
    assert found.tokens_in == 7


@pytest.mark.parametrize(("value", "kept"), [(0.5, 0.5), (1, 1.0), (1.01, math.nan), (-math.inf, math.nan)])
def test_a_preference_is_a_probability_or_unknown(value: float, kept: float) -> None:
    found = PREFERENCE.check(Preference(value, 9), "m")
    assert isinstance(found, Preference)
    np.testing.assert_array_equal(found.first, kept)


@pytest.mark.parametrize(
    ("response", "request_"),
    [
        (ProgressPredictions(np.zeros(2), np.zeros(2), np.zeros(2)), PROGRESS),
        (ProgressPredictions(np.zeros(3), np.zeros(3), np.zeros(2)), PROGRESS),
        (Preference(0.5), PROGRESS),
        (Answer("0.5"), PREFERENCE),
    ],
)
def test_another_kind_or_number_of_predictions_is_an_error(response: Any, request_: Any) -> None:
    with pytest.raises(TransientModelError, match="something other"):
        request_.check(response, "m")


def test_a_cosine_outside_of_its_range_is_unknown_and_another_shape_an_error() -> None:
    request = ScoreSimilarity(VIDEO, texts=("open",))
    frames = np.array([[1.0000001], [-1.5], [math.nan]])
    found = request.check(Similarities(frames, np.eye(1)), "m")
    assert isinstance(found, Similarities)
    np.testing.assert_array_equal(found.frames, [[1.0], [math.nan], [math.nan]])
    for wrong in (Similarities(frames[:2], np.eye(1)), Similarities(frames, np.eye(2)), Answer("0.5")):
        with pytest.raises(TransientModelError, match="something other"):
            request.check(wrong, "m")
