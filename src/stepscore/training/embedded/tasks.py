"""Simulated tasks of the embedded judge: those it is trained on, those its gate learns to refuse, those held out.

Training and evaluation read the same lists, so that a task cannot be held out in one and trained in the other.
Names are those of ``stepscore.sim.get_task``.
"""

from __future__ import annotations

from pathlib import Path

TRAINED: tuple[str, ...] = (
    "assembly",
    "basketball",
    "bin-picking",
    "box-close",
    "button-press",
    "button-press-topdown",
    "coffee-push",
    "coffee-pull",
    "door-open",
    "drawer-close",
    "drawer-open",
    "faucet-close",
    "faucet-open",
    "hammer",
    "handle-press",
    "handle-pull",
    "lever-pull",
    "peg-insert-side",
    "plate-slide",
    "push",
    "shelf-place",
    "soccer",
    "stick-push",
    "window-close",
    "window-open",
)
"""Tasks it was trained on; its answers are valid only for these."""

OUTLIERS: tuple[str, ...] = (
    "button-press-wall",
    "hand-insert",
    "handle-press-side",
    "sweep",
    "pick-place-wall",
    "pick-out-of-hole",
    "door-lock",
    "plate-slide-back",
)
"""Tasks that only the domain gate is trained on, as out of distribution."""

HELD_OUT: tuple[str, ...] = (
    "peg-unplug-side",
    "dial-turn",
    "coffee-button",
    "disassemble",
    "handle-pull-side",
    "reach-wall",
    "push-wall",
    "sweep-into",
    "door-unlock",
    "plate-slide-side",
    "button-press-topdown-wall",
    "stick-pull",
)
"""Tasks that neither judge nor gate is trained on."""

VIEW, SECOND_VIEW = "close", "left"
"""The simulator's cameras it was trained with: the main one, and the other."""

SIZE, FPS, MAX_PIXELS = 224, 10, 128 * 128
"""Pixels a side and frames a second of its videos, and the most pixels of a frame that the model reads."""

TRAINING_SEEDS: tuple[int, ...] = (*range(1001, 1007), *range(1101, 1108))
VALIDATION_SEED = 2101
CALIBRATION_SEED = 3101
CAMERA_SEED = 1008
FIRST_TEST_SEED = 50001
"""Seeds of the simulator. A final evaluation takes the next test seed that was never used: 50001, 50002 ..."""

PARAPHRASES_FILE = Path(__file__).with_name("paraphrases.yaml")
"""Paraphrases of the trained instructions; the last of each is never trained on."""
