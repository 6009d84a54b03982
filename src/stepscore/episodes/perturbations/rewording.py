"""Episodes under the same instruction in other words, under its negation, and under that of another task."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from stepscore.episodes.episode import Episode
from stepscore.episodes.labels.labels import Label, Labels
from stepscore.episodes.perturbations.changed_episode import with_instruction
from stepscore.episodes.perturbations.perturbed_labels import final_verdict
from stepscore.errors import OptionError

PARAPHRASES = ("Please {0}.", "The robot has to {0}.", "Your task: {0}.", "I want you to {0}.")
"""Frames around an instruction that ask for the same thing."""


def paraphrase(episode: Episode, number: int = 0, *, paraphrases: Sequence[str] = PARAPHRASES) -> Episode:
    """Say the same instruction in other words; subgoals, goal images and labels stay.

    Args:
        episode: The episode to perturb.
        number: Which of the paraphrases; beyond the last it starts again.
        paraphrases: Texts of your own; ``{0}`` is the place of the instruction, its capital and period left out.
    """
    if not paraphrases:
        raise OptionError("paraphrases is empty; give at least one text.")
    text = paraphrases[int(number) % len(paraphrases)].replace("{0}", inside_a_sentence(episode.instruction))
    if text.strip().lower() == episode.instruction.strip().lower():
        raise OptionError(f"The paraphrase is episode {episode.id}'s own instruction: {text!r}.")
    changed = with_instruction(episode, text, episode.subgoals, episode.labels, "paraphrase")
    return replace(changed, goals=episode.goals)


def negate(episode: Episode) -> Episode:
    """Tell the robot not to do it: "open the drawer" becomes "Do not open the drawer", as a sentence.

    A success that holds is a failure of the negated instruction, and a failure a success; all else is unknown.
    """
    rows: tuple[Label, ...] = ()
    holds = final_verdict(episode.labels)
    if holds is not None and not math.isnan(holds.value):
        rows = (replace(holds, value=float(holds.value < 0.5)),)
    text = f"Do not {inside_a_sentence(episode.instruction)}."
    return with_instruction(episode, text, (), Labels(rows), "negated")


@dataclass(frozen=True)
class TaskInstructions:
    """The instructions of many episodes, gathered once to draw from for many."""

    first: tuple[Episode, ...]
    episodes: int

    @classmethod
    def of(cls, episodes: Sequence[Episode]) -> TaskInstructions:
        """Return the instructions of these episodes."""
        first: dict[tuple[str, str], Episode] = {}
        for episode in episodes:
            first.setdefault((episode.task or episode.instruction, episode.instruction), episode)
        return cls(tuple(first.values()), len(episodes))

    def draw_other(self, episode: Episode, seed: int) -> Episode:
        """Draw an episode of a different task; each instruction has the same probability."""
        own = episode.task or episode.instruction
        others: dict[str, Episode] = {}
        for other in self.first:
            if (other.task or other.instruction) != own and other.instruction != episode.instruction:
                others.setdefault(other.instruction, other)
        if not others:
            raise OptionError(
                f"None of the {self.episodes} episodes has another task than {episode.id} ({own!r}); "
                "draw among episodes of several tasks, or give text."
            )
        number = int.from_bytes(hashlib.sha256(f"{seed}\0{episode.id}".encode()).digest()[:8])
        return others[sorted(others)[number % len(others)]]


def inside_a_sentence(instruction: str) -> str:
    """Return an instruction as part of a sentence."""
    text = instruction.strip().rstrip(".! ")
    first, rest = text[:1], text[1:]
    return first.lower() + rest if rest[:1].islower() or rest[:1] == " " else text


OPPOSITES: Mapping[str, str] = {
    "open": "close",
    "turn on": "turn off",
    "switch on": "switch off",
    "lock": "unlock",
    "plug in": "unplug",
    "fold": "unfold",
    "fill": "empty",
    "raise": "lower",
    "lift": "lower",
    "pick up": "put down",
    "cover": "uncover",
    "attach": "detach",
    "tighten": "loosen",
    "load": "unload",
    "stack": "unstack",
}
"""Verbs and their opposites, read in both directions; of two with one opposite the first is taken back."""

_SEVERAL_ACTIONS = re.compile(r"[,;]|\b(?:and|then)\b", re.IGNORECASE)


def opposite_instruction_of(instruction: str, opposites: Mapping[str, str] = OPPOSITES) -> str:
    """Return the opposite instruction.

    An entry that is the whole instruction goes before a verb. Otherwise the instruction must begin with an
    entry (after "please") and be a single action, without "and", "then", comma or semicolon.

    Args:
        instruction: The robot's instruction. A capital letter at its beginning is kept.
        opposites: Verbs or whole instructions and their opposites, read in both directions.

    >>> opposite_instruction_of("Open the drawer.")
    'Close the drawer.'
    """
    both = {key.lower(): value for key, value in opposites.items()}
    for key, value in opposites.items():
        both.setdefault(value.lower(), key)
    whole = both.get(instruction.strip().lower())
    if whole is not None:
        return whole
    # Longest first, so that a phrase is not taken for a shorter entry that it begins with.
    verbs = "|".join(re.escape(verb) for verb in sorted(both, key=lambda verb: (-len(verb), verb)))
    found = re.match(rf"\s*(?:please\s+)?({verbs})\b", instruction, re.IGNORECASE) if both else None
    if found is None or _SEVERAL_ACTIONS.search(instruction):
        why = "has several actions" if found else "does not begin with a verb that has a known opposite"
        raise OptionError(
            f"The instruction {instruction!r} {why}. Known: {', '.join(sorted(both))}. "
            "Give it: opposites={'the instruction': 'its opposite'}."
        )
    begin, end = found.span(1)
    swapped = both[instruction[begin:end].lower()]
    if instruction[begin].isupper():
        swapped = swapped[0].upper() + swapped[1:]
    return instruction[:begin] + swapped + instruction[end:]
