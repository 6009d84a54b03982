"""The reward model inside the real LeRobot: found by its own discovery, made by its own factories, and asked."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from lerobot.configs.rewards import RewardModelConfig
from lerobot.rewards.factory import (
    make_reward_model,
    make_reward_model_config,
    make_reward_pre_post_processors,
)
from lerobot.utils.import_utils import register_third_party_plugins

TASK = "move the block from the red bin to the blue bin"
IMAGES = "observation.images.top"


@pytest.fixture(scope="module", autouse=True)
def discovered() -> None:
    """Import plug-ins as LeRobot's scripts do."""
    register_third_party_plugins()


def test_it_is_found_as_a_third_party_plugin() -> None:
    """The distribution's name has a prefix that LeRobot imports."""
    assert "stepscore" in RewardModelConfig.get_known_choices()


def test_it_is_made_by_the_factories_and_gives_one_reward_for_each_video() -> None:
    """Batches are (B, T, C, H, W) in 0..1, as LeRobot's data loader gives them."""
    config = make_reward_model_config("stepscore", device="cpu", output="success")
    model = make_reward_model(config, dataset_stats=None, dataset_meta=None)
    before, after = make_reward_pre_post_processors(config, dataset_stats=None)
    frames = torch.rand(2, 4, 3, 64, 64)
    rewards = model.compute_reward({IMAGES: frames, "task": [TASK, TASK]})
    assert rewards.shape == (2,)
    assert rewards.dtype == torch.float32
    assert torch.isnan(rewards).all()  # noise is out of the embedded judge's distribution
    assert before is not None
    assert after is not None


def test_unknown_is_the_fill_where_one_is_set() -> None:
    """NaN by default."""
    config = make_reward_model_config("stepscore", device="cpu", fill=0.25)
    model = make_reward_model(config)
    rewards = model.compute_reward({IMAGES: torch.rand(1, 4, 3, 64, 64), "task": TASK})
    assert rewards.tolist() == [0.25]
    with pytest.raises(KeyError, match="no task"):
        model.compute_reward({IMAGES: torch.rand(1, 4, 3, 64, 64)})


def test_rewards_are_those_of_a_session() -> None:
    """A judge without its gate, in the place of the model's."""
    from stepscore.episodes import Clip
    from stepscore.judges import TopReward
    from stepscore.models import get_model

    config = make_reward_model_config("stepscore", device="cpu")
    model = make_reward_model(config)
    judge = TopReward(get_model("embedded", gate=False), sampling="causal", min_first=2)
    model._judge = judge  # noqa: SLF001
    frames = np.random.default_rng(0).integers(0, 256, (4, 64, 64, 3)).astype(np.uint8)
    batch = torch.from_numpy(frames).permute(0, 3, 1, 2)[None].float() / 255
    reward = model.compute_reward({IMAGES: batch, "task": [TASK]})
    with judge.open(TASK) as session:
        session.add(Clip(frames, np.arange(4) / 2, np.arange(4)))
        expected = session.curve.progress[-1]
    assert math.isclose(float(reward[0]), expected, abs_tol=1e-5)


def test_a_saved_configuration_is_loaded_again(tmp_path: Path) -> None:
    """There are no weights to save."""
    config = make_reward_model_config("stepscore", device="cpu", fps=5.0, fill=0.0)
    make_reward_model(config).save_pretrained(tmp_path)
    read = RewardModelConfig.from_pretrained(tmp_path)
    assert (read.type, read.fps, read.fill) == ("stepscore", 5.0, 0.0)
    read.pretrained_path = str(tmp_path)
    assert make_reward_model(read).config.fps == 5.0
