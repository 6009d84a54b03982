"""A summary of the weights before training, with a warning when they do nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest

from stepscore.curation import (
    keep_all,
    lerobot_rabc,
    topreward_awr,
    weight_distribution,
    without_stalls,
)
from stepscore.curation.weighting import Weighting
from tests.curation.made import frames_of

NAN = math.nan


def weighted(*episodes: list[float]) -> Weighting:
    return Weighting(frames_of(*episodes), np.array([w for e in episodes for w in e]), "rabc", "lerobot")


def test_shares_are_of_known_frames_and_the_unknown_are_counted() -> None:
    spread = weight_distribution(weighted([0.0, 1.0, 1.0, NAN], [0.5, 1.0]))
    assert spread.n == 6
    assert spread.unknown == pytest.approx(1 / 6)
    assert (spread.at_zero, spread.at_one) == (0.2, 0.6)
    assert spread.mean == pytest.approx(0.7)
    assert spread.effective == pytest.approx(3.5**2 / (5 * 3.25))
    assert spread.counts.tolist() == [1, 0, 0, 0, 0, 1, 0, 0, 0, 3]


def test_episodes_stand_from_the_most_favoured_to_the_unknown() -> None:
    spread = weight_distribution(weighted([0.2, 0.4], [NAN, NAN], [1.0, NAN]))
    assert [e.id[-1] for e in spread.episodes] == ["2", "0", "1"]
    assert spread.episodes[0].relative == pytest.approx(1.0 / (1.6 / 3))
    assert math.isnan(spread.episodes[-1].mean)


def test_larger_weights_have_bins_with_round_bounds() -> None:
    assert weight_distribution(weighted([1.98, 0.1])).edges[-1] == 2.0


def test_rabc_at_its_defaults_on_short_clean_episodes_is_called_idle() -> None:
    spread = weight_distribution(lerobot_rabc(frames_of(np.linspace(0, 1, 300).tolist()), chunk_size=50))
    assert any("plain behaviour cloning" in w and "-W kappa" in w for w in spread.warnings)


def test_the_dense_reward_of_rising_curves_is_called_idle_and_advantages_of_progress_are_not() -> None:
    rising = frames_of(np.cumsum(np.random.default_rng(0).uniform(0, 0.02, 100)).tolist())
    dense = topreward_awr(rising, advantage="plain-change", tau_role="prefactor")
    assert any("-W advantage=progress" in w for w in weight_distribution(dense).warnings)
    assert not weight_distribution(topreward_awr(rising, advantage="progress")).warnings


def test_weights_drawn_by_noise_are_named() -> None:
    rng = np.random.default_rng(0)
    noisy = np.clip(np.linspace(0, 1, 2000) + rng.normal(0, 0.05, 2000), 0, 1).tolist()
    warnings = weight_distribution(lerobot_rabc(frames_of(noisy), chunk_size=50)).warnings
    assert any("noise" in w and "--method filter" in w for w in warnings)


def test_a_lost_end_is_named() -> None:
    held = [*np.linspace(0, 1, 20), *[1.0] * 4]
    made = lerobot_rabc(frames_of(*[held] * 3), chunk_size=3, kappa=0.01)
    assert made.facts["last chunk at 0"] >= 0
    lost = lerobot_rabc(frames_of(*[np.linspace(1, 0, 20).tolist()] * 3), chunk_size=3)
    assert any("learn to stop" in w for w in weight_distribution(lost).warnings)


def test_lerobots_weight_of_the_unknown_is_named() -> None:
    curve = [NAN] * 10 + [0.0, 0.5, 0.2, 0.9]
    assert any(
        "weight 1." in w for w in weight_distribution(lerobot_rabc(frames_of(curve), chunk_size=1)).warnings
    )


def test_nothing_known_and_nothing_kept_are_named() -> None:
    assert "No weight is known" in weight_distribution(weighted([NAN])).warnings[0]
    assert "Every known weight is 0" in weight_distribution(weighted([0.0, 0.0])).warnings[0]


def test_a_filter_keeps_all_frames_but_the_stalled_and_no_one_calls_it_idle() -> None:
    frames = frames_of([0.0, 0.2, 0.2, 0.2, 0.5, 1.0])
    assert not weight_distribution(keep_all(frames)).warnings
    left = without_stalls(keep_all(frames), seconds=0.2)
    assert left.weights.tolist() == [1, 0, 0, 0, 1, 1]
    assert left.facts["stalled"] == 0.5
