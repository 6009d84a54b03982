"""The reward API: serves a judge to clients of Robometer, OpenAI or StepScore."""

from stepscore.server.reward_api.app import make_reward_app
from stepscore.server.reward_api.limits import Limits
from stepscore.server.reward_api.scorer import Scorer
from stepscore.server.reward_api.serving import is_loopback, read_token, serve_rewards

__all__ = ["Limits", "Scorer", "is_loopback", "make_reward_app", "read_token", "serve_rewards"]
