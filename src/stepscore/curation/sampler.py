"""A table of weights in a PyTorch training loop: draw frames by weight, or weight their loss.

::

    weights = FrameWeights.read("weights.parquet", unknown=0.0)
    loader = DataLoader(dataset, batch_size=32, sampler=weights.sampler(dataset_index))      # either
    loss = (policy_loss_per_sample * weights.of(batch["index"])).mean()                      # or
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from stepscore.curation.files import read_weights
from stepscore.errors import MissingExtraError, OptionError
from stepscore.types import FloatArray, IntArray

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class FrameWeights:
    """Weights of a dataset's frames by index, scaled to mean 1 over the table.

    They are scaled once, not in every batch: a batch of poor frames stays a small step, and the gradient is
    that of the weighted loss over the dataset.

    Attributes:
        index: The dataset's index of every row, ascending.
        weight: Its weight; unknown ones have been replaced.
    """

    index: IntArray
    weight: FloatArray

    @classmethod
    def read(cls, path: str | Path, *, unknown: float | None = None) -> FrameWeights:
        """Read a file of ``stepscore weights``, or any Parquet table with the columns index and weight.

        Args:
            path: The file.
            unknown: Weight of frames whose weight is unknown, on the scale of the file: 1.0 is LeRobot's
                choice for RA-BC, 0.0 leaves them out. Required if there are any.
        """
        index, weight = read_weights(path)
        missing = np.isnan(weight)
        if np.any(missing) and unknown is None:
            raise OptionError(
                f"{path}: the weight of {int(missing.sum())} of {len(weight)} frames is unknown. "
                "Set their weight: unknown=0.0 leaves them out, unknown=1.0 is LeRobot's choice."
            )
        return cls.from_arrays(index, np.where(missing, unknown or 0.0, weight))

    @classmethod
    def from_arrays(cls, index: ArrayLike, weight: ArrayLike) -> FrameWeights:
        """Build weights from two arrays of one length; weights are finite, 0 or above, and not all 0."""
        indices, values = np.asarray(index, dtype=np.int64), np.asarray(weight, dtype=np.float64)
        if indices.shape != values.shape or indices.ndim != 1:
            raise OptionError(
                f"index has shape {indices.shape} and weight {values.shape}; expected one (n,)."
            )
        if not np.all(np.isfinite(values)) or np.any(values < 0) or not np.any(values > 0):
            raise OptionError("Weights must be finite and 0 or above, and at least one must be above 0.")
        order = np.argsort(indices, kind="stable")
        indices, values = indices[order], values[order]
        if np.any(np.diff(indices) == 0):
            raise OptionError(f"index {indices[:-1][np.diff(indices) == 0][0]} occurs twice in the table.")
        return cls(indices, values / values.mean())

    def of(self, index: Any) -> torch.Tensor:
        """Return the weights of a batch's frames, by the dataset's index: float32, on the device of ``index``.

        Multiply the loss of each sample with them. A frame that is not in the table is an error.
        """
        try:
            import torch
        except ImportError as error:
            raise MissingExtraError("Weighting a loss", "local") from error
        batch = torch.as_tensor(index)
        weights = self._lookup(batch.detach().cpu().numpy().reshape(-1))
        return torch.as_tensor(weights, dtype=torch.float32, device=batch.device).reshape(batch.shape)

    def sampler(
        self,
        dataset_index: ArrayLike,
        *,
        seed: int = 0,
        num_samples: int | None = None,
        rank: int = 0,
        world_size: int = 1,
    ) -> WeightedSampler:
        """Return a sampler over a dataset for ``torch.utils.data.DataLoader(sampler=...)``.

        Args:
            dataset_index: The dataset's ``index`` column, in its order. Positions in it are drawn, so a
                dataset of chosen episodes works too. A frame that is not in the table is never drawn.
            seed: Random seed.
            num_samples: Draws per epoch, over all processes; by default the number of frames.
            rank: Rank of this process in distributed training.
            world_size: Number of processes.
        """
        frames = np.asarray(dataset_index, dtype=np.int64).reshape(-1)
        rows, in_table = self._rows(frames)
        weights = np.where(in_table, self.weight[rows], 0.0)
        if not np.any(weights > 0):
            raise OptionError(
                "No frame of this dataset has a weight above 0. Is it the dataset of the table?"
            )
        if not 0 <= rank < world_size:
            raise OptionError(f"rank must be from 0 to {world_size - 1}, got {rank}.")
        draws = len(frames) if num_samples is None else num_samples
        return WeightedSampler(weights, draws, seed, rank, world_size)

    def _rows(self, frames: IntArray) -> tuple[IntArray, np.ndarray[Any, np.dtype[np.bool_]]]:
        """Return the table's row for each frame index, and whether the frame is in the table."""
        rows = np.minimum(np.searchsorted(self.index, frames), len(self.index) - 1)
        return rows, self.index[rows] == frames

    def _lookup(self, frames: IntArray) -> FloatArray:
        rows, in_table = self._rows(frames)
        if not np.all(in_table):
            raise OptionError(
                f"Frame {frames[~in_table][0]} is not in the table of weights, which holds {len(self.index)} "
                "frames. Train on the episodes it was made for (--dataset.episodes)."
            )
        return self.weight[rows]


class WeightedSampler:
    """A sampler of positions in a dataset, each drawn in proportion to its weight, one epoch at a time.

    The draws are systematic: one random offset, then equal gaps along the summed weights, in random order. So
    a frame that is expected k times in an epoch comes floor(k) or ceil(k) times, where independent draws would
    leave out a third of the frames of weight 1. Any number of frames will do; ``torch.multinomial`` ends at
    2^24. ``set_epoch`` gives another order, the same in every process.
    """

    def __init__(
        self, weights: FloatArray, num_samples: int, seed: int = 0, rank: int = 0, world_size: int = 1
    ):
        if num_samples < 1:
            raise OptionError(f"num_samples must be at least 1, got {num_samples}.")
        self.num_samples, self.seed, self.rank, self.world_size = num_samples, seed, rank, world_size
        self.epoch = 0
        self._summed = np.cumsum(weights / np.sum(weights))

    def set_epoch(self, epoch: int) -> None:
        """Draw again for this epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(range(self.rank, self.num_samples, self.world_size))

    def __iter__(self) -> Iterator[int]:
        rng = np.random.default_rng([self.seed, self.epoch])
        targets = (rng.uniform() + np.arange(self.num_samples)) / self.num_samples
        # The sum may end a rounding below 1; side "right" skips positions of weight 0.
        drawn = np.searchsorted(self._summed, targets * self._summed[-1], side="right")
        drawn = rng.permutation(np.minimum(drawn, int(np.searchsorted(self._summed, self._summed[-1]))))
        yield from drawn[self.rank :: self.world_size].tolist()
