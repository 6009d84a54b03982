"""Opposite instructions: "open the drawer" into "close the drawer".

Each pair is of states that exclude each other, so that a robot that has done the one has not done the other.
Only the verb that begins the instruction counts: in "open the lower drawer", "lower" is not a verb. An
instruction of several actions has no opposite by one verb: a robot that picked up a cup and placed it on a plate
has put it down, too. Sides (left, right) mostly say which object is meant. Give such instructions whole.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from stepscore.errors import OptionError

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
