"""Trained tasks in other words, for videos that the judge must not refuse because of their wording."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import as_file, files

import yaml

from stepscore.sim import get_task
from stepscore.training.embedded.tasks import TRAINED
from stepscore.training.vlm.setup import held_out, read_paraphrases

PARAPHRASES: Mapping[str, tuple[str, ...]] = {
    "assembly": ("fit the ring over the peg", "get the wrench-like ring onto the upright pin"),
    "basketball": ("score a basket with the ball", "the ball should end up in the hoop"),
    "bin-picking": ("take the block across to the other bin", "transfer the cube into the blue container"),
    "box-close": ("shut the box with its lid", "cover the box"),
    "button-press": ("push in the button at the front", "hit the front button"),
    "button-press-topdown": ("push the top button down", "press the box's button from above"),
    "coffee-push": ("shove the mug to its place below the machine", "move the cup forward under the spout"),
    "coffee-pull": ("drag the cup back to the marked spot", "bring the mug from the machine to the mark"),
    "door-close": ("move the door until it is shut", "get the door closed"),
    "door-open": ("get the door to stand open", "pull the door wide"),
    "drawer-close": ("slide the drawer back in", "get the drawer shut"),
    "drawer-open": ("pull the drawer out", "get the drawer to stand open"),
    "faucet-close": ("rotate the tap to the left", "swing the tap's lever left"),
    "faucet-open": ("rotate the tap to the right", "swing the tap's lever right"),
    "hammer": ("use the hammer to sink the nail", "strike the nail until it is flush"),
    "handle-press": ("bring the handle down", "lower the handle"),
    "handle-pull": ("bring the handle up", "draw the handle upwards"),
    "lever-pull": ("get the lever to stand up", "lift the lever until it is vertical"),
    "peg-insert-side": ("put the peg into the side hole", "slot the peg sideways into the box"),
    "plate-slide": ("push the plate along into the cabinet", "get the plate to glide inside the cabinet"),
    "push": ("slide the puck onto the mark", "move the puck across the table to its mark"),
    "shelf-place": ("leave the block on the shelf", "bring the cube up to the shelf"),
    "soccer": ("shoot the ball into the goal", "roll the ball into the net"),
    "stick-push": (
        "use the stick to shove the thermos to the mark",
        "with the stick, move the bottle to its mark",
    ),
    "window-close": ("slide the window shut", "get the window to be closed"),
    "window-open": ("get the window to stand open", "push the window aside until it is open"),
}
"""Two a task; ``unseen`` leaves out those that training uses too."""


@cache
def trained_wordings() -> frozenset[str]:
    """Every wording of an instruction that training uses, in lower case."""
    with as_file(files("stepscore.training.embedded").joinpath("paraphrases.yaml")) as path:
        others = read_paraphrases(path)
    own = [get_task(task).instruction for task in TRAINED]
    return frozenset(text.lower() for text in (*own, *(t for texts in others.values() for t in texts)))


@cache
def held_out_wordings(instruction: str) -> tuple[str, ...]:
    """The wordings of a trained instruction that are kept for tests; none where it is not trained."""
    text = files("stepscore.training.embedded").joinpath("paraphrases.yaml").read_text(encoding="utf-8")
    wordings = yaml.safe_load(text).get(instruction, [])
    return tuple(map(str, wordings[len(wordings) - held_out(wordings) :]))


def held_out_wording(instruction: str) -> str:
    """Return the last held-out wording, or an empty string for an untrained instruction."""
    return next(reversed(held_out_wordings(instruction)), "")


def unseen(task: str) -> tuple[str, ...]:
    """Wordings of a trained task that are not among the trained ones."""
    texts = (*PARAPHRASES[task], *held_out_wordings(get_task(task).instruction))
    return tuple(text for text in dict.fromkeys(texts) if text and text.lower() not in trained_wordings())
