"""What a response may hold: checked once, before anything of it reaches the journal, the cache or the account.

A count of tokens is an integer from 1 to the most that its request can have, else it is unknown, which is 0 here:
every request has tokens. A log-probability is at most 0, else it is unknown, which is NaN; so is a probability or
predicted progress outside of 0 to 1. A response of another kind or shape than its request asks for is an error.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from stepscore.errors import TransientModelError
from stepscore.models.base import (
    Answer,
    Preference,
    PrefixScores,
    ProgressPredictions,
    Response,
    Scores,
    Similarities,
    StagePrediction,
    StagePredictions,
    TokenChoice,
)
from stepscore.models.calls.prices import max_request_tokens
from stepscore.models.requests import (
    Generate,
    PredictProgress,
    PredictStages,
    PreferVideo,
    Request,
    Score,
    ScoreSimilarity,
    frame_count,
)
from stepscore.types import FloatArray

MAX_TOKENS = 100_000_000
"""Most tokens of one call that are believed; the longest contexts have ten million."""

MAX_ADDED_IN = 16_384
MAX_ADDED_OUT = 131_072
"""Tokens beyond the most a request can have that are believed, as they may be billed: a gateway's own prompt, and
reasoning that the server does not count towards the limit of output tokens."""

MAX_LOGPROB = 1e-6
"""Largest log-probability that rounding explains; it counts as 0, and a larger one is unknown."""

MAX_COSINE_ERROR = 1e-5
"""By how much rounding explains a cosine outside of -1..1; beyond it, it is unknown."""

MIN_ANSWER_CHARS = 65_536
CHARS_PER_TOKEN = 16
"""Longest text that is taken from an answer: so many characters a requested token, and at least as many as above.
Judges search it with patterns whose time grows with its square."""


def count_of(value: object) -> int:
    """Return a count of tokens; 0, for unknown, where it is no integer (a boolean is none) from 0 to the bound."""
    if isinstance(value, bool) or not isinstance(value, int):
        return 0
    return value if 0 <= value <= MAX_TOKENS else 0


def logprob_of(value: object) -> float:
    """Return a log-probability; NaN, for unknown, where it is no number or above 0 by more than rounding."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.floating):
        return math.nan
    if not value <= MAX_LOGPROB:
        return math.nan
    return min(float(value), 0.0) if value > -1e300 else -math.inf


def check_response(response: Response, request: Request, where: str) -> Response:
    """Return a response with unknown in place of what cannot be true.

    Args:
        response: From a model or the cache.
        request: The request it answers.
        where: The model's name, for messages.

    Raises:
        TransientModelError: It is not of the kind, length or shape that the request asks for.
    """
    checked = _checked(response, request)
    if checked is None:
        raise TransientModelError(f"{where} returned something other than what was requested.")
    return _with_possible_counts(checked, request)


def _with_possible_counts(response: Response, request: Request) -> Response:
    """Return a response without a count of tokens that is more than its request can have."""
    if isinstance(response, StagePredictions | ProgressPredictions | Preference | Similarities):
        return response  # no server counts these
    most_in, most_out = max_request_tokens(request)
    if response.tokens_in > most_in + MAX_ADDED_IN:
        response = replace(response, tokens_in=0)
    if response.tokens_out > most_out + MAX_ADDED_OUT:
        response = replace(response, tokens_out=0)
    return response


def _checked(response: Response, request: Request) -> Response | None:
    if isinstance(request, Generate):
        return _checked_answer(response, request) if isinstance(response, Answer) else None
    if isinstance(request, Score):
        return _checked_scores(response, request) if isinstance(response, Scores) else None
    if isinstance(request, PredictStages):
        if not isinstance(response, StagePredictions) or not all(map(_fits, response.heads.values())):
            return None
        return replace(response, tokens_in=count_of(response.tokens_in))
    if isinstance(request, PredictProgress):
        n = frame_count(request.prompt)
        return _checked_progress(response, n) if isinstance(response, ProgressPredictions) else None
    if isinstance(request, PreferVideo):
        if not isinstance(response, Preference):
            return None
        return Preference(float(_probabilities(np.float64(response.first))), count_of(response.tokens_in))
    if isinstance(request, ScoreSimilarity):
        return _checked_similarities(response, request) if isinstance(response, Similarities) else None
    if not isinstance(response, PrefixScores):
        return None
    shape = (len(request.prompts), len(request.lengths), len(request.candidates))
    if response.logprobs.shape != shape or response.logprobs.dtype.kind != "f":
        return None
    values = np.asarray(response.logprobs, dtype=np.float64)
    known = np.where(values <= MAX_LOGPROB, np.minimum(values, 0.0), np.nan)
    counts = (count_of(count) for count in (response.tokens_in, response.tokens_out, response.tokens_reused))
    return PrefixScores(known, *counts)


def _fits(head: StagePrediction) -> bool:
    n = len(head.shares)
    return head.probabilities.shape == (n, len(head.stages)) and head.shares.shape == head.progress.shape == (
        n,
    )


def _checked_progress(response: ProgressPredictions, n: int) -> ProgressPredictions | None:
    arrays = [np.asarray(a, dtype=np.float64) for a in (response.progress, response.success, response.spread)]
    if any(array.shape != (n,) for array in arrays):
        return None
    progress, success, spread = map(_probabilities, arrays)
    return ProgressPredictions(progress, success, spread, count_of(response.tokens_in))


def _checked_similarities(response: Similarities, request: ScoreSimilarity) -> Similarities | None:
    n, r = request.shape
    frames, references = (np.asarray(a, dtype=np.float64) for a in (response.frames, response.references))
    if frames.shape != (n, r) or references.shape != (r, r):
        return None
    return Similarities(_cosines(frames), _cosines(references), count_of(response.tokens_in))


def _cosines(values: FloatArray) -> FloatArray:
    """Return values with NaN in place of those outside of -1..1 by more than rounding."""
    return np.where(np.abs(values) <= 1 + MAX_COSINE_ERROR, np.clip(values, -1, 1), np.nan)


def _probabilities(values: FloatArray | np.float64) -> FloatArray:
    """Return values with NaN in place of those outside of 0..1."""
    return np.where((values >= 0) & (values <= 1), values, np.nan)


def _checked_answer(response: Answer, request: Generate) -> Answer | None:
    longest = max(MIN_ANSWER_CHARS, CHARS_PER_TOKEN * request.max_tokens)
    if not isinstance(response.text, str) or len(response.text) > longest:
        return None
    finish = response.finish if isinstance(response.finish, str) else "stop"
    counts = count_of(response.tokens_in), count_of(response.tokens_out)
    mass = response.schema_mass
    return Answer(
        response.text,
        finish[:40],
        *counts,
        choices=_checked_choices(response, request),
        schema_mass=mass if request.schema is not None and mass is not None and 0 <= mass <= 1 else None,
    )


def _checked_choices(response: Answer, request: Generate) -> tuple[TokenChoice, ...]:
    """Return the log-probabilities of an answer's tokens; none where there are more tokens than were requested."""
    if not request.top_logprobs or len(response.choices) > request.max_tokens:
        return ()
    return tuple(
        TokenChoice(
            choice.token,
            tuple(pair for pair in choice.top[: request.top_logprobs] if not math.isnan(logprob_of(pair[1]))),
        )
        for choice in response.choices
    )


def _checked_scores(response: Scores, request: Score) -> Scores | None:
    n = len(request.candidates)
    if len(response.logprobs) != n or len(response.censored) != n:
        return None
    values = [logprob_of(value) for value in response.logprobs]
    pairs = zip(values, response.censored, strict=True)
    return Scores(
        # A censored number is a bound: nothing is above 0.
        tuple(0.0 if math.isnan(value) else value for value in values),
        tuple(bool(hidden) or math.isnan(value) for value, hidden in pairs),
        count_of(response.tokens_in),
        count_of(response.tokens_out),
    )
