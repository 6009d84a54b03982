"""What was said about a subgoal, in words or in probabilities, as a verdict."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import get_args

import numpy as np

from stepscore.judges.common.parsing import Stated
from stepscore.models import Scores
from stepscore.types import Verdict, VerdictAnswer


def settle(name: str, votes: Sequence[Stated], end_s: float) -> Verdict:
    """The verdict of several answers about one subgoal: the most frequent, unknown on a tie."""
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


def weigh(name: str, scores: Scores, words: tuple[str, str]) -> Verdict:
    """The verdict of the words' probabilities. A hidden one is at most what is told, so it can only lose."""
    (yes, no), (yes_hidden, no_hidden) = scores.logprobs, scores.censored
    told = [
        f"P({word.strip()}) {'at most ' if hidden else '= '}{math.exp(value):.3g}"
        for word, value, hidden in zip(words, scores.logprobs, scores.censored, strict=True)
    ]
    why = ", ".join(told)
    answer: VerdictAnswer = "unknown"
    if yes > no and not yes_hidden:
        answer = "yes"
    elif no > yes and not no_hidden:
        answer = "no"
    hidden = yes_hidden or no_hidden or math.isnan(yes - no)
    score = math.nan if hidden else 1 / (1 + math.exp(min(no - yes, 700.0)))
    return Verdict(name, answer, score=score, why=why)
