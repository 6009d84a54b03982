"""Which frames of a film a lesson shows, what was done to them, and what is true of every prefix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from stepscore.training.vlm.data.dataset import Flags, LabelledFilm
from stepscore.training.vlm.data.prompt_tree import Statement
from stepscore.types import FloatArray, Frames, IntArray

GLIMPSE = 2
"""Blocks up to which a clip shows a moment, not the film from its beginning."""
Kind = Literal["played", "frozen", "reversed"]
LOWEST, RISE, DONE = -4.6, 3.4, 4.0
"""Log-odds that a task is completed: at progress 0, what they gain up to just before success, and after it."""
WRONG_OF_DONE = 2
"""Statements about something else that are made of every prefix at whose end the task is done."""
SURE = 3.9
"""Log-odds of a subgoal that is true; a false one has the negative."""


@dataclass(frozen=True, eq=False)
class Shown:
    """Frames of a film as a lesson shows them.

    Attributes:
        film: Whose frames.
        frames: Pictures, (2 B, size, size, 3).
        times: Their seconds, as the lesson says them.
        source: Which frame of the film each is.
        kind: Whether the film is played, stands still or runs backwards.
    """

    film: LabelledFilm
    frames: Frames
    times: FloatArray
    source: IntArray
    kind: Kind

    def now(self, block: int) -> int:
        """The last frame of a block, 1 being the first block."""
        return int(self.source[2 * block - 1])

    def past(self, block: int) -> Flags:
        """Which frames of the film have been seen or passed by the end of a block."""
        at = np.arange(len(self.film))
        first, last = int(self.source[0]), self.now(block)
        low, high = min(first, last), max(first, last)
        if self.kind == "played":
            low = 0  # what happened before the first frame that is shown is still in the recording
        return (at >= low) & (at <= high)


def show(film: LabelledFilm, blocks: int, rng: np.random.Generator, controls: Mapping[str, float]) -> Shown:
    """Frames of a film, evenly spread up to a random end, with a little jitter.

    One or two blocks are the last moments before that end.

    Args:
        film: The film.
        blocks: Pairs of frames.
        rng: Where the choices come from.
        controls: Shares of lessons that stand still (``frozen``) or run backwards (``reversed``).
    """
    n = len(film)
    end = n if rng.random() < 0.5 else int(rng.integers(max(3, n // 3), n + 1)) if n > 3 else n
    first = 0 if blocks > GLIMPSE else max(0, end - 1 - int(rng.integers(1, 5)) * blocks)
    spread = np.linspace(first, end - 1, 2 * blocks) + rng.uniform(-0.4, 0.4, 2 * blocks)
    spread[-1] = end - 1
    index = np.sort(np.clip(np.round(spread), 0, end - 1).astype(np.int64))
    drawn = rng.random()
    kind: Kind = "played"
    source = index
    if drawn < controls["frozen"]:
        kind = "frozen"
        source = np.full_like(index, 0 if rng.random() < 0.5 else int(rng.integers(0, n)))
    elif drawn < controls["frozen"] + controls["reversed"]:
        kind, source = "reversed", index[::-1].copy()
    pace = rng.uniform(0.4, 2.0) if rng.random() < 0.5 else 1.0
    views = list(film.views)
    frames = film.views[views[int(rng.integers(len(views)))]][source]
    return Shown(film, frames, film.times[index] * pace, source, kind)


def completion_log_odds(potential: float, *, done: bool) -> float:
    """What the statement "the task is completed" is worth at a frame."""
    return DONE if done else LOWEST + RISE * min(max(potential, 0.0), 1.0)


@dataclass(frozen=True, eq=False)
class Texts:
    """What can be said of films.

    Attributes:
        prompt: Sentence after a film, with ``{instruction}``.
        wordings: Other words for an instruction.
        opposites: An instruction and the one that undoes it in the same scene.
        instructions: All instructions of the training set.
        subgoals: All subgoals of each.
    """

    prompt: str
    wordings: Mapping[str, Sequence[str]]
    opposites: Mapping[str, str]
    instructions: Sequence[str]
    subgoals: Mapping[str, Sequence[str]]

    def fill(self, text: str) -> str:
        """The sentence for an instruction or a subgoal."""
        return self.prompt.replace("{instruction}", text)

    def worded(self, instruction: str, rng: np.random.Generator) -> str:
        """The instruction, in a third of all cases in other words."""
        others = self.wordings.get(instruction, ())
        return str(rng.choice(list(others))) if others and rng.random() < 0.35 else instruction

    def wrong(self, instruction: str, rng: np.random.Generator) -> str | None:
        """A statement that is not true of films with this instruction; ``None`` where there is no other task."""
        opposite = self.opposites.get(instruction)
        if opposite is not None and rng.random() < 0.4:
            return self.worded(opposite, rng)
        others = [text for text in self.instructions if text != instruction]
        if not others:
            return None
        other = str(rng.choice(others))
        known = set(self.subgoals[instruction])
        told = [text for text in self.subgoals[other] if text not in known]
        if told and rng.random() < 0.3:
            return str(rng.choice(told))
        return self.worded(other, rng)


def statements(
    shown: Shown,
    texts: Texts,
    rng: np.random.Generator,
    *,
    most: int,
    subgoals: float = 0.7,
    wrong: float = 0.3,
) -> list[Statement]:
    """Statements about prefixes: the instruction, a subgoal, which task it is, and what is not so.

    Args:
        shown: The frames.
        texts: What can be said.
        rng: Where the choices come from.
        most: Prefixes that are spoken of, at most; the last one always.
        subgoals: Share of prefixes with a subgoal.
        wrong: Share of prefixes with a statement about something else. Where the task is done there are always
            ``WRONG_OF_DONE``: only there is the right instruction worth something that another is not.
    """
    film, blocks = shown.film, len(shown.times) // 2
    chosen = np.arange(1, blocks + 1)
    if blocks > most:
        chosen = np.append(np.sort(rng.choice(blocks - 1, most - 1, replace=False) + 1), blocks)
    said = []
    for block in chosen.tolist():
        now = shown.now(block)
        done = bool(film.success[now])
        # A film that begins with the finished task and runs backwards has not completed it, nor is it undone.
        if not (shown.kind == "reversed" and film.potential[now] > 0.9):
            odds = completion_log_odds(float(film.potential[now]), done=done)
            text = texts.fill(texts.worded(film.instruction, rng))
            said.append(Statement(block, text, odds, still=shown.kind == "frozen"))
        if film.subgoals and rng.random() < subgoals:
            said += _subgoal(shown, block, texts, rng)
        said.append(_named(shown, block, texts, rng))
        for _ in range(WRONG_OF_DONE if done else int(rng.random() < wrong)):
            other = texts.wrong(film.instruction, rng)
            if other is not None:
                said.append(Statement(block, texts.fill(other), LOWEST))
    return said


def _named(shown: Shown, block: int, texts: Texts, rng: np.random.Generator) -> Statement:
    """Whether this is the task that the film is of, done or not.

    To weigh a task's completion is to know which task is meant and how far it is, both at once; a network that
    knows neither learns the first by itself much sooner.
    """
    own = shown.film.instruction
    others = [text for text in texts.instructions if text not in (own, texts.opposites.get(own))]
    right = not others or rng.random() < 0.5
    named = own if right else str(rng.choice(others))
    text = texts.fill(texts.worded(named, rng)).removeprefix(texts.prompt.partition("{instruction}")[0])
    return Statement(block, text, SURE if right else -SURE)


def _subgoal(shown: Shown, block: int, texts: Texts, rng: np.random.Generator) -> list[Statement]:
    """A subgoal of the film; none where its truth cannot be seen in the moment that is shown."""
    film = shown.film
    number = int(rng.integers(len(film.subgoals)))
    true = film.truths[:, number]
    subgoal = film.subgoals[number]
    holds = bool(true[shown.now(block)])
    stands = bool(true[shown.past(block)].any()) if subgoal.mode == "ever" else holds
    if stands != holds and len(shown.times) <= 2 * GLIMPSE:
        return []
    return [Statement(block, texts.fill(subgoal.name), SURE if stands else -SURE)]
