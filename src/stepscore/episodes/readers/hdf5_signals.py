"""State, action and other numbers of an episode in an HDF5 file of robomimic, LIBERO or ACT."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stepscore._untrusted.hdf5_access import checked_dataset, is_group, member, members, open_h5
from stepscore._untrusted.limits import MAX_FRAMES
from stepscore.episodes.signals import MAX_DIMENSIONS, Signal, dimension_names
from stepscore.types import FloatArray


@dataclass(frozen=True)
class Hdf5Signals:
    """The signals of one episode in an HDF5 file.

    Attributes:
        path: The file.
        observations: The group whose arrays of numbers are observations.
        action: The array of actions.
        fps: Steps per second.
    """

    path: Path
    observations: str
    action: str
    fps: float

    def read(self) -> tuple[Signal, ...]:
        """Read every array of one number or a short list of numbers for each step, the action first."""
        with open_h5(self.path) as file:
            group = member(file, self.observations)
            found = [(self.action.rpartition("/")[2], member(file, self.action))]
            found += members(group) if is_group(group) else []
            return tuple(
                self._signal(name, stored)
                for name, stored in found
                if stored is not None and _is_signal(stored)
            )

    def _signal(self, name: str, stored: Any) -> Signal:
        values: FloatArray = np.asarray(
            checked_dataset(stored, f"{self.path}:{stored.name}"), dtype=np.float64
        ).reshape(len(stored), -1)
        times = np.arange(len(values)) / self.fps
        return Signal(name, dimension_names(values.shape[1]), times, values)


def _is_signal(stored: Any) -> bool:
    shape: tuple[int, ...] = getattr(stored, "shape", None) or ()
    return (
        1 <= len(shape) <= 2
        and 0 < shape[0] <= MAX_FRAMES
        and 0 < (*shape, 1)[1] <= MAX_DIMENSIONS
        and stored.dtype.kind in "fiub"
    )
