"""Verdicts on a subgoal from a model's answers: in text, or as probabilities of two words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import get_args

import numpy as np

from stepscore.judges.common.parsing import SubgoalAnswer
from stepscore.models import Scores
from stepscore.types import Verdict, VerdictAnswer


def verdict_from_text(name: str, votes: Sequence[SubgoalAnswer], end_s: float) -> Verdict:
    """Return the most frequent answer about one subgoal, unknown on a tie; times after ``end_s`` are dropped."""
    counts: Counter[VerdictAnswer] = Counter(vote.answer for vote in votes)
    (answer, most), *others = counts.most_common()
    if others and others[0][1] == most:
        answer = "unknown"
    known = counts["yes"] + counts["no"]
    agreeing = [vote for vote in votes if vote.answer == answer]
    # Times are written beside the frames in hundredths, so that the last one may be written a little late.
    latest = end_s + 0.005
    times = [min(v.when_s, end_s) for v in agreeing if answer == "yes" and 0 <= v.when_s <= latest]
    why = next((vote.why for vote in agreeing if vote.why), "")
    if len(votes) > 1:
        tally = ", ".join(f"{counts[word]} {word}" for word in get_args(VerdictAnswer) if counts[word])
        why = f"{tally} of {len(votes)}. {why}".rstrip()
    return Verdict(
        name,
        answer,
        score=counts["yes"] / known if known else math.nan,
        when_s=float(np.median(times)) if times else math.nan,
        why=why,
    )


def verdict_from_scores(name: str, scores: Scores, words: tuple[str, str]) -> Verdict:
    """Return the more probable of the words for yes and no as a verdict.

    A censored log-probability is an upper bound, so its word cannot be the verdict.
    """
    (yes, no), (yes_censored, no_censored) = scores.logprobs, scores.censored
    probabilities = [
        f"P({word.strip()}) {'at most ' if censored else '= '}{math.exp(value):.3g}"
        for word, value, censored in zip(words, scores.logprobs, scores.censored, strict=True)
    ]
    answer: VerdictAnswer = "unknown"
    if yes > no and not yes_censored:
        answer = "yes"
    elif no > yes and not no_censored:
        answer = "no"
    unknown = yes_censored or no_censored or math.isnan(yes - no)
    score = math.nan if unknown else 1 / (1 + math.exp(min(no - yes, 700.0)))
    return Verdict(name, answer, score=score, why=", ".join(probabilities))
