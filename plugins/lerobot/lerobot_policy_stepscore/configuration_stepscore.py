"""The configuration of the reward model ``stepscore``."""

from __future__ import annotations

from dataclasses import dataclass, field

from lerobot.configs import FeatureType, PolicyFeature
from lerobot.configs.rewards import RewardModelConfig
from lerobot.utils.constants import OBS_IMAGES


@RewardModelConfig.register_subclass("stepscore")
@dataclass
class StepScoreConfig(RewardModelConfig):
    """A judge and what it is shown.

    Args:
        url: A reward server (``stepscore serve``); ``None`` for a judge in this process.
        token_file: File with the server's token.
        model: Model string of a judge in this process.
        fps: Frames per second of the videos in a batch; ``None`` for the judge's own rate.
        image_key: Observation with the frames, (B, T, C, H, W) or (B, C, H, W).
        task_key: Key of the instruction.
        default_task: The instruction of a batch that has none.
        output: ``progress`` or ``success`` at the last frame.
        fill: What stands for unknown; NaN by default.
    """

    url: str | None = None
    token_file: str | None = None
    model: str = "embedded"
    fps: float | None = None
    image_key: str = OBS_IMAGES + ".top"
    task_key: str = "task"
    default_task: str | None = None
    output: str = "progress"
    fill: float = float("nan")
    input_features: dict[str, PolicyFeature] = field(default_factory=dict)
    output_features: dict[str, PolicyFeature] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.output not in ("progress", "success"):
            raise ValueError(f"output must be progress or success, got {self.output!r}")
        self.input_features.setdefault(
            self.image_key, PolicyFeature(type=FeatureType.VISUAL, shape=(3, 224, 224))
        )
        self.output_features.setdefault("reward", PolicyFeature(type=FeatureType.REWARD, shape=(1,)))
