"""Servers: the report page live, and a judge as a reward.

:func:`make_app` is the web application of the page, on this machine only: the page, rebuilt when a run has grown; its
data again, so that an open page follows a run; the videos of its runs by number, with byte ranges for seeking; and
state and action of an episode. :func:`make_reward_app` is that of the reward server. Importing this package
imports no web framework.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscore._imports import lazy_attributes

if TYPE_CHECKING:
    from stepscore.server.app import make_app as make_app
    from stepscore.server.live_page import LivePage as LivePage
    from stepscore.server.reward_api import Limits as Limits
    from stepscore.server.reward_api import Scorer as Scorer
    from stepscore.server.reward_api import is_loopback as is_loopback
    from stepscore.server.reward_api import make_reward_app as make_reward_app
    from stepscore.server.reward_api import read_token as read_token
    from stepscore.server.reward_api import serve_rewards as serve_rewards
    from stepscore.server.serving import serve as serve

__all__ = [
    "Limits",
    "LivePage",
    "Scorer",
    "is_loopback",
    "make_app",
    "make_reward_app",
    "read_token",
    "serve",
    "serve_rewards",
]

__getattr__ = lazy_attributes(
    __name__,
    {
        "Limits": "reward_api",
        "LivePage": "live_page",
        "is_loopback": "reward_api",
        "Scorer": "reward_api",
        "make_app": "app",
        "make_reward_app": "reward_api",
        "read_token": "reward_api",
        "serve": "serving",
        "serve_rewards": "reward_api",
    },
)
