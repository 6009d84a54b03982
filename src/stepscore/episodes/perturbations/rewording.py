"""Episodes under the same instruction in other words, and under its negation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

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


def inside_a_sentence(instruction: str) -> str:
    """Return an instruction as it stands inside of a sentence."""
    text = instruction.strip().rstrip(".! ")
    first, rest = text[:1], text[1:]
    return first.lower() + rest if rest[:1].islower() or rest[:1] == " " else text
