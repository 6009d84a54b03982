"""A judge as a reward: the rewards of recorded episodes, shaping, a gymnasium wrapper, and a client of the server.

:func:`run_rewards` makes one reward for each frame of a run. :class:`RewardWrapper` adds a reward to an environment's
while an episode runs, with a judge in this process or a :class:`RemoteJudge`. ``docs/guides/reward-for-rl.md`` says
which form is for what.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscore._imports import lazy_attributes

if TYPE_CHECKING:
    from stepscore.rewards.forms import potential_reward as potential_reward
    from stepscore.rewards.forms import relative_reward as relative_reward
    from stepscore.rewards.forms import terminal_reward as terminal_reward
    from stepscore.rewards.remote import RemoteJudge as RemoteJudge
    from stepscore.rewards.shaping import PotentialShaping as PotentialShaping
    from stepscore.rewards.shaping import RelativeShaping as RelativeShaping
    from stepscore.rewards.tables import SAFE as SAFE
    from stepscore.rewards.tables import RewardOptions as RewardOptions
    from stepscore.rewards.tables import RunRewards as RunRewards
    from stepscore.rewards.tables import run_rewards as run_rewards
    from stepscore.rewards.tables import write_rewards as write_rewards
    from stepscore.rewards.wrapper import RewardWrapper as RewardWrapper

__all__ = [
    "SAFE",
    "PotentialShaping",
    "RelativeShaping",
    "RemoteJudge",
    "RewardOptions",
    "RewardWrapper",
    "RunRewards",
    "potential_reward",
    "relative_reward",
    "run_rewards",
    "terminal_reward",
    "write_rewards",
]

__getattr__ = lazy_attributes(
    __name__,
    {
        "SAFE": "tables",
        "PotentialShaping": "shaping",
        "RelativeShaping": "shaping",
        "RemoteJudge": "remote",
        "RewardOptions": "tables",
        "RewardWrapper": "wrapper",
        "RunRewards": "tables",
        "potential_reward": "forms",
        "relative_reward": "forms",
        "run_rewards": "tables",
        "terminal_reward": "forms",
        "write_rewards": "tables",
    },
)
