"""The privileged state of a simulated scene: positions, contacts and success."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from stepscore.types import FloatArray


@dataclass(frozen=True)
class State:
    """Privileged state of a scene at one control step.

    Attributes:
        points: Positions in metres by name: ``tcp`` (between the fingertips), ``hand`` (the palm), ``target``,
            ``origin`` (where the object was at the start) and the task's own.
        opening: How far the gripper is open: 0 closed, 1 open.
        touched: Parts of the task that the hand touches anywhere.
        held: Parts that both fingers press from their sides.
        success: Whether the simulator reports success at this step.
    """

    points: Mapping[str, FloatArray]
    opening: float
    touched: frozenset[str]
    held: frozenset[str]
    success: bool

    def distance(self, a: str, b: str, axes: str = "xyz") -> float:
        """Return the metres between two points along these axes."""
        chosen = ["xyz".index(axis) for axis in axes]
        return float(np.linalg.norm(self.points[a][chosen] - self.points[b][chosen]))
