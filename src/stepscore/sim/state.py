"""The privileged state of a simulated scene: where things are, and what the fingers touch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from stepscore.types import FloatArray


@dataclass(frozen=True)
class State:
    """One moment of a scene, as the simulator knows it.

    Attributes:
        points: Places in metres by name: ``tcp`` (between the fingertips), ``hand`` (the palm), ``target``,
            ``origin`` (where the object was at the start) and the task's own.
        opening: How far the gripper is open: 0 closed, 1 open.
        touched: Parts that some part of the hand touches.
        held: Parts that both fingers press from their sides.
        success: Whether the simulator says that the task is done at this moment.
    """

    points: Mapping[str, FloatArray]
    opening: float
    touched: frozenset[str]
    held: frozenset[str]
    success: bool

    def distance(self, a: str, b: str, axes: str = "xyz") -> float:
        """Metres between two points, over these axes alone."""
        chosen = ["xyz".index(axis) for axis in axes]
        return float(np.linalg.norm(self.points[a][chosen] - self.points[b][chosen]))
