"""Subgoals as statements about the whole video, all of them weighed in one pass over it.

The question is TOPReward's: how probable is the word True after "this video shows ...: SUBGOAL"? The pictures are
read once, whatever the number of subgoals.
"""

from __future__ import annotations

import numpy as np

from stepscore.episodes import Episode, SampledFrames
from stepscore.judges.base import Ask
from stepscore.judges.common.prompts import load_prompt, video_prompt
from stepscore.models import PrefixScores, ScorePrefixes, VideoFrames
from stepscore.types import FloatArray

PROMPT = "statement"
WORDS = (" True", " False")


async def statement_scores(
    episode: Episode, moments: SampledFrames, size: int | None, ask: Ask
) -> FloatArray:
    """Log-probabilities of True and False after each subgoal's statement, (subgoals, 2); NaN where untold.

    Each view is asked on its own. What they say is averaged; a subgoal with a view of its own goes by that one.

    Args:
        episode: What is judged.
        moments: The frames that are shown.
        size: Longer side of a frame in pixels; ``None`` for the recorded size.
        ask: Who is asked.
    """
    body, cue = load_prompt(PROMPT).split_last_sentence()
    # The instruction goes along: it says what the scene is about, to a model that needs to know.
    claims = [*(subgoal.name for subgoal in episode.subgoals), episode.instruction]
    prompts = tuple(
        video_prompt(body.fill(instruction=claim.strip()), prefill=cue, template="open") for claim in claims
    )
    found: dict[str, FloatArray] = {}
    for view, indices in moments.indices.items():
        video = VideoFrames(view, tuple(indices.tolist()), size)
        response = await ask(ScorePrefixes(video, (len(indices),), prompts, WORDS))
        assert isinstance(response, PrefixScores)
        found[view] = np.asarray(response.logprobs, dtype=np.float64)[:-1, 0]
    fused = np.mean(list(found.values()), axis=0)
    return np.array(
        [
            found[subgoal.view][row] if subgoal.view in found else fused[row]
            for row, subgoal in enumerate(episode.subgoals)
        ]
    )
