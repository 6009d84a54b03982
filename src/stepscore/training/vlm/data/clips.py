"""Clips of a labelled video as training examples: which frames, how they are perturbed, what is true of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stepscore.judges.common import PromptTemplate
from stepscore.training.vlm.data.dataset import LabelledVideo
from stepscore.training.vlm.data.prompt_tree import Statement
from stepscore.types import BoolArray, FloatArray, Frames, IntArray

SHORT_CLIP_BLOCKS = 2
"""Clips of at most this many blocks show only the last frames, not the video from its beginning."""
FIXED_RATE_PROB = 0.6
"""Probability that a longer clip samples at a fixed rate from the first frame on."""
MAX_CLOCK_OFFSET_S = 20.0
"""Latest stated time of a first frame."""
LOWEST_LOG_ODDS, LOG_ODDS_RISE, DONE_LOG_ODDS = -4.6, 3.4, 4.0
"""Log-odds that a task is completed: at progress 0, their rise up to just before success, and after success."""
WRONG_PER_DONE_PREFIX = 2
"""Wrong statements about every prefix at whose end the task is done."""
CERTAIN_LOG_ODDS = 3.9
"""Log-odds of a true subgoal; a false one has the negative."""
PARAPHRASE_PROB = 0.5
SENTENCES = (
    "{0} please",
    "Now {0}",
    "Robot, {0}!",
    "The task is to {0}.",
    "{0}, and nothing else",
    "Could you {0}?",
)
"""Sentences around an instruction. Those with which an audit rewords one are not among them."""
SENTENCE_PROB = 0.15
TWICE = ("Do this twice: {0}.", "{0}, two times", "{0}, then do it once more", "Two times in a row, {0}")
"""Instructions to do a task two times."""


@dataclass(frozen=True, eq=False)
class SampledClip:
    """Frames of a video as one training example shows them.

    Attributes:
        video: The video they are from.
        frames: The frames, (2 B, size, size, 3).
        times: Their timestamps in seconds, as the prompt states them.
        source: Index of each frame in the video, rising.
    """

    video: LabelledVideo
    frames: Frames
    times: FloatArray
    source: IntArray

    def last_frame(self, block: int) -> int:
        """Return the video's index of the last frame of a block, 1 being the first block."""
        return int(self.source[2 * block - 1])

    def so_far(self, block: int) -> BoolArray:
        """Return which frames of the video have been shown or passed by the end of a block."""
        # What happened before the first sampled frame is still in the recording.
        return np.arange(len(self.video)) <= self.last_frame(block)

    @property
    def is_short(self) -> bool:
        """Whether it shows only the last frames."""
        return len(self.times) <= 2 * SHORT_CLIP_BLOCKS

    @property
    def is_static(self) -> bool:
        """Whether nothing moves in it."""
        return bool((self.frames == self.frames[0]).all())

    def success(self, block: int) -> float:
        """Return whether the task is done at the end of a block: 1, 0, or NaN where that is unknown.

        Of a clip of the whole video the verdict on the episode says it, if no label says it of the last frame.
        """
        known = float(self.video.success[self.last_frame(block)])
        verdict = self.video.episode.labels.success
        whole = not self.is_short and bool(self.so_far(block).all())
        return float(verdict) if np.isnan(known) and whole and verdict is not None else known


def sample_clip(video: LabelledVideo, blocks: int, rng: np.random.Generator) -> SampledClip:
    """Sample frames of a video up to a random end.

    At a fixed rate from the first frame on, as a live session sees it; or evenly spread up to the end, with a little
    jitter. A clip of one or two blocks shows the last frames before that end.

    Args:
        video: The video.
        blocks: Pairs of frames, at most; a clip at a fixed rate may have fewer.
        rng: Random generator.
    """
    n = len(video)
    end = n if rng.random() < 0.5 else int(rng.integers(max(3, n // 3), n + 1)) if n > 3 else n
    if blocks > SHORT_CLIP_BLOCKS and rng.random() < FIXED_RATE_PROB:
        index = _at_fixed_rate(end, blocks, rng)
    else:
        first = 0 if blocks > SHORT_CLIP_BLOCKS else max(0, end - 1 - int(rng.integers(1, 5)) * blocks)
        spread = np.linspace(first, end - 1, 2 * blocks) + rng.uniform(-0.4, 0.4, 2 * blocks)
        spread[-1] = end - 1
        index = np.sort(np.clip(np.round(spread), 0, end - 1).astype(np.int64))
    views = list(video.views)
    frames = video.views[views[int(rng.integers(len(views)))]][index]
    return SampledClip(video, frames, video.times[index] + _clock_offset(rng), index)


def _at_fixed_rate(end: int, blocks: int, rng: np.random.Generator) -> IntArray:
    """Return every frame, or every second, third or fourth, from the first; an even number, the last one twice."""
    step = max(int(rng.integers(1, 5)), -(-end // (2 * blocks)))
    index = np.arange(0, end, step)
    return index if len(index) % 2 == 0 else np.append(index, index[-1])


def _clock_offset(rng: np.random.Generator) -> float:
    """Return the seconds that the stated timestamps are late: mostly none."""
    return float(rng.uniform(0, MAX_CLOCK_OFFSET_S)) if rng.random() < 0.2 else 0.0


def completion_log_odds(potential: float, *, done: bool) -> float:
    """Return the target log-odds of the statement "the task is completed" at a frame; NaN where it is unknown.

    Args:
        potential: Progress at the frame, NaN where unknown.
        done: Whether the task is done there.
    """
    return DONE_LOG_ODDS if done else LOWEST_LOG_ODDS + LOG_ODDS_RISE * float(np.clip(potential, 0.0, 1.0))


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
        """Return the instruction, or one of its paraphrases with probability ``PARAPHRASE_PROB``.

        With probability ``SENTENCE_PROB`` it is part of a sentence.
        """
        others = self.paraphrases.get(instruction, ())
        text = str(rng.choice(list(others))) if others and rng.random() < PARAPHRASE_PROB else instruction
        return str(rng.choice(SENTENCES)).format(text) if rng.random() < SENTENCE_PROB else text

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

    None is about what has no label there.

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
    statements, static = [], clip.is_static
    for block in chosen.tolist():
        frame = clip.last_frame(block)
        success = clip.success(block)
        done = success == 1.0
        log_odds = completion_log_odds(float(video.potential[frame]), done=done)
        # Successes without the progress of failures would be learned as "always completed".
        if video.has_progress and not (np.isnan(success) or np.isnan(log_odds)):
            text = texts.fill(texts.paraphrase(video.instruction, rng))
            statements.append(Statement(block, text, log_odds, static=static))
            statements += _twice_statement(clip, block, texts, rng)
        if video.subgoals and rng.random() < subgoal_fraction:
            statements += _subgoal_statement(clip, block, texts, rng)
        statements.append(_task_statement(clip, block, texts, rng))
        for _ in range(WRONG_PER_DONE_PREFIX if done else int(rng.random() < wrong_fraction)):
            other = texts.wrong(video.instruction, rng)
            if other is not None:
                statements.append(Statement(block, texts.fill(other), LOWEST_LOG_ODDS))
    return statements


def _twice_statement(
    clip: SampledClip, block: int, texts: Texts, rng: np.random.Generator
) -> list[Statement]:
    """Return a statement that the task was done two times, of a video that plays a success twice; else none.

    Half of it is done after the first time, and nothing in a frame tells the two times apart.
    """
    video, first = clip.video, clip.video.again_from
    if first is None or clip.is_short or video.success[first - 1] != 1.0:
        return []
    frame = clip.last_frame(block)
    again = frame >= first
    done = again and video.success[frame] == 1.0
    log_odds = completion_log_odds((float(video.potential[frame]) + again) / 2, done=done)
    text = str(rng.choice(TWICE)).format(video.instruction)
    return [] if np.isnan(log_odds) else [Statement(block, texts.fill(text), log_odds)]


def _task_statement(clip: SampledClip, block: int, texts: Texts, rng: np.random.Generator) -> Statement:
    """Return a statement of which task the video is of, done or not.

    To score a task's completion is to know which task is meant and how far it is, both at once; an untrained
    network learns the first much sooner when it is asked separately.
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
    """Return a statement of a subgoal; none where it has no label, or a short clip cannot show its truth."""
    video = clip.video
    number = int(rng.integers(len(video.subgoals)))
    subgoal = video.subgoals[number]
    holds = float(video.subgoals_true[clip.last_frame(block), number])
    reached = video.reached(number, clip.so_far(block)) if subgoal.mode == "ever" else holds
    if np.isnan(reached) or (reached != holds and clip.is_short):
        return []
    return [Statement(block, texts.fill(subgoal.name), CERTAIN_LOG_ODDS if reached else -CERTAIN_LOG_ODDS)]
