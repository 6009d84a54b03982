"""Clips of a labelled video as training examples: which frames, how they are perturbed, what is true of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from stepscore.judges.common import PromptTemplate
from stepscore.training.vlm.data.dataset import BoolArray, LabelledVideo
from stepscore.training.vlm.data.prompt_tree import Statement
from stepscore.types import FloatArray, Frames, IntArray

SHORT_CLIP_BLOCKS = 2
"""Clips of at most this many blocks show the last frames alone, not the video from its beginning."""
Playback = Literal["played", "frozen", "reversed"]
LOWEST_LOG_ODDS, LOG_ODDS_RISE, DONE_LOG_ODDS = -4.6, 3.4, 4.0
"""Log-odds that a task is completed: at progress 0, their rise up to just before success, and after success."""
WRONG_PER_DONE_PREFIX = 2
"""Wrong statements about every prefix at whose end the task is done."""
CERTAIN_LOG_ODDS = 3.9
"""Log-odds of a true subgoal; a false one has the negative."""
PARAPHRASE_PROB = 0.35


@dataclass(frozen=True, eq=False)
class SampledClip:
    """Frames of a video as one training example shows them.

    Attributes:
        video: The video they are from.
        frames: The frames, (2 B, size, size, 3).
        times: Their timestamps in seconds, as the prompt states them.
        source: Index of each frame in the video.
        playback: Whether the video is played, frozen or reversed.
    """

    video: LabelledVideo
    frames: Frames
    times: FloatArray
    source: IntArray
    playback: Playback

    def last_frame(self, block: int) -> int:
        """Return the video's index of the last frame of a block, 1 being the first block."""
        return int(self.source[2 * block - 1])

    def so_far(self, block: int) -> BoolArray:
        """Return which frames of the video have been shown or passed by the end of a block."""
        at = np.arange(len(self.video))
        first, last = int(self.source[0]), self.last_frame(block)
        low, high = min(first, last), max(first, last)
        if self.playback == "played":
            low = 0  # what happened before the first sampled frame is still in the recording
        return (at >= low) & (at <= high)


def sample_clip(
    video: LabelledVideo, blocks: int, rng: np.random.Generator, controls: Mapping[str, float]
) -> SampledClip:
    """Sample frames of a video, evenly spread up to a random end, with a little jitter.

    A clip of one or two blocks shows the last frames before that end.

    Args:
        video: The video.
        blocks: Pairs of frames.
        rng: Random generator.
        controls: Fractions of clips that are ``frozen`` and ``reversed``.
    """
    n = len(video)
    end = n if rng.random() < 0.5 else int(rng.integers(max(3, n // 3), n + 1)) if n > 3 else n
    first = 0 if blocks > SHORT_CLIP_BLOCKS else max(0, end - 1 - int(rng.integers(1, 5)) * blocks)
    spread = np.linspace(first, end - 1, 2 * blocks) + rng.uniform(-0.4, 0.4, 2 * blocks)
    spread[-1] = end - 1
    index = np.sort(np.clip(np.round(spread), 0, end - 1).astype(np.int64))
    draw = rng.random()
    playback: Playback = "played"
    source = index
    if draw < controls["frozen"]:
        playback = "frozen"
        source = np.full_like(index, 0 if rng.random() < 0.5 else int(rng.integers(0, n)))
    elif draw < controls["frozen"] + controls["reversed"]:
        playback, source = "reversed", index[::-1].copy()
    pace = rng.uniform(0.4, 2.0) if rng.random() < 0.5 else 1.0
    views = list(video.views)
    frames = video.views[views[int(rng.integers(len(views)))]][source]
    return SampledClip(video, frames, video.times[index] * pace, source, playback)


def completion_log_odds(potential: float, *, done: bool) -> float:
    """Return the target log-odds of the statement "the task is completed" at a frame."""
    return DONE_LOG_ODDS if done else LOWEST_LOG_ODDS + LOG_ODDS_RISE * min(max(potential, 0.0), 1.0)


@dataclass(frozen=True, eq=False)
class Texts:
    """The texts of statements about videos.

    Attributes:
        template: Sentence after a video, with ``{instruction}``.
        paraphrases: Paraphrases of each instruction.
        opposites: An instruction and the one that undoes it in the same scene.
        instructions: All instructions of the training set.
        subgoals: All subgoals of each.
    """

    template: PromptTemplate
    paraphrases: Mapping[str, Sequence[str]]
    opposites: Mapping[str, str]
    instructions: Sequence[str]
    subgoals: Mapping[str, Sequence[str]]

    def fill(self, text: str) -> str:
        """Return the sentence for an instruction or a subgoal."""
        return self.template.fill(instruction=text)

    def paraphrase(self, instruction: str, rng: np.random.Generator) -> str:
        """Return the instruction, or one of its paraphrases with probability ``PARAPHRASE_PROB``."""
        others = self.paraphrases.get(instruction, ())
        return str(rng.choice(list(others))) if others and rng.random() < PARAPHRASE_PROB else instruction

    def wrong(self, instruction: str, rng: np.random.Generator) -> str | None:
        """Return a statement that is false of videos with this instruction; ``None`` without another task."""
        opposite = self.opposites.get(instruction)
        if opposite is not None and rng.random() < 0.4:
            return self.paraphrase(opposite, rng)
        others = [text for text in self.instructions if text != instruction]
        if not others:
            return None
        other = str(rng.choice(others))
        own_subgoals = set(self.subgoals[instruction])
        other_subgoals = [text for text in self.subgoals[other] if text not in own_subgoals]
        if other_subgoals and rng.random() < 0.3:
            return str(rng.choice(other_subgoals))
        return self.paraphrase(other, rng)


def sample_statements(
    clip: SampledClip,
    texts: Texts,
    rng: np.random.Generator,
    *,
    max_prefixes: int,
    subgoal_fraction: float = 0.7,
    wrong_fraction: float = 0.3,
) -> list[Statement]:
    """Sample statements about prefixes: the instruction, a subgoal, which task it is, and false ones.

    Args:
        clip: The frames.
        texts: The texts to choose from.
        rng: Random generator.
        max_prefixes: Most prefixes with statements; the last one always has some.
        subgoal_fraction: Fraction of prefixes with a subgoal.
        wrong_fraction: Fraction of prefixes with a statement about something else. Where the task is done there
            are always ``WRONG_PER_DONE_PREFIX``: only there do the right instruction and others differ in value.
    """
    video, blocks = clip.video, len(clip.times) // 2
    chosen = np.arange(1, blocks + 1)
    if blocks > max_prefixes:
        chosen = np.append(np.sort(rng.choice(blocks - 1, max_prefixes - 1, replace=False) + 1), blocks)
    statements = []
    for block in chosen.tolist():
        frame = clip.last_frame(block)
        done = bool(video.success[frame])
        # A reversed video that begins with the finished task has not completed it, nor is it undone.
        if not (clip.playback == "reversed" and video.potential[frame] > 0.9):
            log_odds = completion_log_odds(float(video.potential[frame]), done=done)
            text = texts.fill(texts.paraphrase(video.instruction, rng))
            statements.append(Statement(block, text, log_odds, static=clip.playback == "frozen"))
        if video.subgoals and rng.random() < subgoal_fraction:
            statements += _subgoal_statement(clip, block, texts, rng)
        statements.append(_task_statement(clip, block, texts, rng))
        for _ in range(WRONG_PER_DONE_PREFIX if done else int(rng.random() < wrong_fraction)):
            other = texts.wrong(video.instruction, rng)
            if other is not None:
                statements.append(Statement(block, texts.fill(other), LOWEST_LOG_ODDS))
    return statements


def _task_statement(clip: SampledClip, block: int, texts: Texts, rng: np.random.Generator) -> Statement:
    """Return a statement of which task the video is of, done or not.

    To score a task's completion is to know which task is meant and how far it is, both at once; an untrained
    network learns the first by itself much sooner.
    """
    own = clip.video.instruction
    others = [text for text in texts.instructions if text not in (own, texts.opposites.get(own))]
    right = not others or rng.random() < 0.5
    instruction = own if right else str(rng.choice(others))
    before = texts.template.text.partition("{instruction}")[0]
    text = texts.fill(texts.paraphrase(instruction, rng)).removeprefix(before)
    return Statement(block, text, CERTAIN_LOG_ODDS if right else -CERTAIN_LOG_ODDS)


def _subgoal_statement(
    clip: SampledClip, block: int, texts: Texts, rng: np.random.Generator
) -> list[Statement]:
    """Return a statement of a subgoal; none where its truth cannot be seen in the frames of a short clip."""
    video = clip.video
    number = int(rng.integers(len(video.subgoals)))
    true = video.subgoals_true[:, number]
    subgoal = video.subgoals[number]
    holds = bool(true[clip.last_frame(block)])
    reached = bool(true[clip.so_far(block)].any()) if subgoal.mode == "ever" else holds
    if reached != holds and len(clip.times) <= 2 * SHORT_CLIP_BLOCKS:
        return []
    return [Statement(block, texts.fill(subgoal.name), CERTAIN_LOG_ODDS if reached else -CERTAIN_LOG_ODDS)]
