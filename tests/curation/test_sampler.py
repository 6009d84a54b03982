"""Weights in a PyTorch loop: drawn as often as they weigh, or multiplied with the loss."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscore.curation.sampler import FrameWeights, WeightedSampler
from stepscore.errors import OptionError


@settings(max_examples=80, deadline=None)
@given(st.lists(st.floats(0, 5), min_size=1, max_size=40).filter(lambda w: sum(w) > 0.1), st.integers(1, 200))
def test_a_frame_comes_as_often_as_expected_rounded_down_or_up(weights: list[float], draws: int) -> None:
    drawn = Counter(WeightedSampler(np.array(weights), draws))
    assert drawn.total() == draws
    for place, weight in enumerate(weights):
        expected = draws * weight / sum(weights)
        assert math.floor(expected - 1e-6) <= drawn[place] <= math.ceil(expected + 1e-6)
        assert weight > 0 or drawn[place] == 0


def test_epochs_differ_and_the_same_epoch_is_the_same_again() -> None:
    sampler = WeightedSampler(np.ones(50), 50, seed=3)
    first = list(sampler)
    assert sorted(first) == list(range(50))
    assert first == list(sampler)
    sampler.set_epoch(1)
    assert list(sampler) != first


def test_processes_share_an_epoch_without_overlap() -> None:
    parts = [WeightedSampler(np.ones(10), 10, rank=rank, world_size=3) for rank in range(3)]
    assert [len(part) for part in parts] == [4, 3, 3]
    assert sorted(place for part in parts for place in part) == list(range(10))


def test_places_are_those_of_the_dataset_at_hand_and_strangers_are_never_drawn() -> None:
    weights = FrameWeights.from_arrays([10, 11, 12, 13], [1.0, 0.0, 1.0, 2.0])
    drawn = Counter(weights.sampler([13, 99, 11, 10], num_samples=300))
    assert drawn == {0: 200, 3: 100}


def test_a_data_loader_takes_it() -> None:
    torch = pytest.importorskip("torch")
    data = torch.utils.data.TensorDataset(torch.arange(4))
    weights = FrameWeights.from_arrays(range(4), [0.0, 1.0, 1.0, 0.0])
    loader = torch.utils.data.DataLoader(data, batch_size=2, sampler=weights.sampler(range(4)))
    seen = torch.cat([batch for (batch,) in loader]).tolist()
    assert sorted(seen) == [1, 1, 2, 2]


def test_loss_weights_have_mean_1_over_the_table_not_over_a_batch() -> None:
    torch = pytest.importorskip("torch")
    weights = FrameWeights.from_arrays([5, 6, 7, 8], [0.0, 0.0, 1.0, 1.0])
    assert weights.of(torch.tensor([[8], [5]])).tolist() == [[2.0], [0.0]]
    assert weights.of(torch.tensor([5, 6])).tolist() == [0.0, 0.0]
    assert weights.of(torch.arange(5, 9)).mean().item() == 1.0
    with pytest.raises(OptionError, match="Frame 4 is not in the table"):
        weights.of(torch.tensor([4]))


def test_a_weighted_loss_pulls_the_fit_to_the_frames_that_weigh() -> None:
    torch = pytest.importorskip("torch")
    weights = FrameWeights.from_arrays([0, 1], [1.0, 3.0])
    value = torch.zeros(1, requires_grad=True)
    loss = (weights.of(torch.tensor([0, 1])) * (value - torch.tensor([0.0, 4.0])) ** 2).mean()
    loss.backward()
    # The minimum of the weighted squares is the weighted mean, 3; the slope at 0 is -2 times it.
    assert value.grad is not None
    assert value.grad.item() == pytest.approx(-6.0)


class TestFiles:
    def write(self, path: Path, weights: list[float | None], index: list[int] | None = None) -> Path:
        pq.write_table(pa.table({"index": index or list(range(len(weights))), "weight": weights}), path)
        return path

    def test_unknown_weights_must_be_spoken_for(self, tmp_path: Path) -> None:
        path = self.write(tmp_path / "w.parquet", [1.0, None, 2.0])
        with pytest.raises(OptionError, match="1 of 3 frames is unknown"):
            FrameWeights.read(path)
        assert FrameWeights.read(path, unknown=0.0).weight.tolist() == [1.0, 0.0, 2.0]
        assert FrameWeights.read(self.write(path, [1.0, 1.0])).weight.tolist() == [1.0, 1.0]

    def test_a_table_that_cannot_be_used_says_why(self, tmp_path: Path) -> None:
        path = tmp_path / "w.parquet"
        with pytest.raises(OptionError, match="does not exist"):
            FrameWeights.read(path)
        pq.write_table(pa.table({"index": [0]}), path)
        with pytest.raises(OptionError, match="index and weight"):
            FrameWeights.read(path)
        for weights, index, why in (
            ([0.0, 0.0], [0, 1], "above 0"),
            ([-1.0, 2.0], [0, 1], "0 or above"),
            ([1.0, 2.0], [7, 7], "index 7"),
        ):
            with pytest.raises(OptionError, match=why):
                FrameWeights.read(self.write(path, list(weights), index))

    def test_another_dataset_is_noticed(self) -> None:
        weights = FrameWeights.from_arrays([0, 1], [1.0, 1.0])
        with pytest.raises(OptionError, match="Is it the dataset"):
            weights.sampler([5, 6])
        with pytest.raises(OptionError, match="rank must be from 0 to 1, got 2"):
            weights.sampler([0, 1], rank=2, world_size=2)
        with pytest.raises(OptionError, match="num_samples"):
            weights.sampler([0, 1], num_samples=0)
