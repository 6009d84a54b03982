"""The reward API: a judge behind Robometer's, OpenAI's and StepScore's own requests. See docs/guides/reward-server.md."""

from stepscore.server.reward_api.app import make_reward_app
from stepscore.server.reward_api.limits import Limits
from stepscore.server.reward_api.scorer import Scorer
from stepscore.server.reward_api.serving import read_token, serve_rewards

__all__ = ["Limits", "Scorer", "make_reward_app", "read_token", "serve_rewards"]
