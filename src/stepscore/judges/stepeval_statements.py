"""Subgoals as statements about the whole video, all of them scored in one pass over it.

The question is TOPReward's: how probable is the word True after "this video shows ...: SUBGOAL"?
"""

from __future__ import annotations

import numpy as np

from stepscore.episodes import Episode, SampledFrames
from stepscore.judges.base import Ask
from stepscore.judges.common.prompts import load_prompt, video_prompt
from stepscore.models import ScorePrefixes, VideoFrames
from stepscore.types import FloatArray

PROMPT = "statement"
WORDS = (" True", " False")


async def statement_scores(
    episode: Episode, sampled: SampledFrames, size: int | None, ask: Ask
) -> FloatArray:
    """Return log-probabilities of True and False after each subgoal's statement, (subgoals, 2); NaN if unknown.

    Each view is scored separately and the mean is taken; a subgoal with a ``view`` takes the score of that view.
    """
    body, cue = load_prompt(PROMPT).split_last_sentence()
    # The instruction is included for models that recognise the scene by it.
    claims = [*(subgoal.name for subgoal in episode.subgoals), episode.instruction]
    prompts = tuple(
        video_prompt(body.fill(instruction=claim.strip()), prefill=cue, template="open") for claim in claims
    )
    by_view: dict[str, FloatArray] = {}
    for view, indices in sampled.indices.items():
        video = VideoFrames(view, tuple(indices.tolist()), size)
        response = await ask(ScorePrefixes(video, (len(indices),), prompts, WORDS))
        by_view[view] = np.asarray(response.logprobs, dtype=np.float64)[:-1, 0]
    mean = np.mean(list(by_view.values()), axis=0)
    return np.array(
        [
            by_view[subgoal.view][row] if subgoal.view in by_view else mean[row]
            for row, subgoal in enumerate(episode.subgoals)
        ]
    )
