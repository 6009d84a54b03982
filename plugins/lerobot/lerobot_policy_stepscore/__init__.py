"""A StepScore judge as a LeRobot reward model: importing this registers ``--reward_model.type=stepscore``."""

from lerobot_policy_stepscore.configuration_stepscore import StepScoreConfig

__all__ = ["StepScoreConfig"]
