"""SAC of Stable-Baselines3 trains through the wrapper, with a judge in this process and with a server's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stepscore.rewards import RemoteJudge, RewardWrapper
from tests.rewards.reach import Reach
from tests.server.reward_api.serving import live_judge, serving

STEPS = 40


def train(env: RewardWrapper) -> Any:
    """Train SAC for a few steps; it must have learned from every one of them."""
    sac = pytest.importorskip("stable_baselines3").SAC
    learner = sac(
        "MlpPolicy",
        env,
        learning_starts=16,
        batch_size=16,
        seed=0,
        device="cpu",
        policy_kwargs={"net_arch": [16]},
    )
    learner.learn(STEPS)
    assert learner.num_timesteps == STEPS
    assert learner._n_updates > 0
    rewards = learner.replay_buffer.rewards[:STEPS, 0]
    assert np.isfinite(rewards).all()
    assert (rewards != 0).any()
    counts = env.counts
    assert counts.episodes > 3
    assert counts.known > 12
    return learner


def test_sac_trains_with_a_judge_in_process() -> None:
    from stable_baselines3.common.env_checker import check_env

    env = RewardWrapper(Reach(), live_judge(), "move the point to the right", gamma=0.95, weight=0.5)
    check_env(env, warn=False, skip_render_check=True)
    train(RewardWrapper(Reach(), live_judge(), "move the point to the right", gamma=0.95, weight=0.5))
    env.close()


def test_sac_trains_against_the_server() -> None:
    with serving() as url:
        judge = RemoteJudge(url)
        train(RewardWrapper(Reach(), judge, "move the point to the right", gamma=0.95, weight=0.5))
        judge.close()
